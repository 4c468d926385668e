//! A partner on a real socket that answers queries as a test sets it, and records them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use payfold_partners::directory::Directory;
use payfold_partners::document::{AccountEntry, NewKey, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::{Profile, SANDBOX_PROFILE};
use payfold_partners::remote::{PartnerClient, install_tls};
use payfold_partners::secret::Secret;
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_testing::waits::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::partners::{Partners, UnconfirmedNotices};
use crate::run::testkit::at;

#[derive(Default)]
struct PartnerState {
    /// The status it answers with, by what is queried: a ref or an order.
    answers: HashMap<String, &'static str>,
    /// What was queried, in order.
    queries: Vec<String>,
}

pub(super) struct Partner {
    state: Arc<Mutex<PartnerState>>,
    url: String,
}

impl Partner {
    /// A partner that knows no payment yet.
    pub(super) async fn start() -> Self {
        install_tls();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(PartnerState::default()));
        let answering = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let state = Arc::clone(&answering);
                tokio::spawn(async move {
                    let mut read = vec![0; 4_096];
                    let count = stream.read(&mut read).await.unwrap_or(0);
                    let answer = answer(&state, &String::from_utf8_lossy(&read[..count]));
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self { state, url }
    }

    /// From now on queries for `what` are answered with this status.
    pub(super) fn set_answer(&self, what: &str, status: &'static str) {
        self.state.lock().unwrap().answers.insert(what.to_owned(), status);
    }

    /// What was queried, in order.
    pub(super) fn queries(&self) -> Vec<String> {
        self.state.lock().unwrap().queries.clone()
    }

    /// Waits for this many queries in all, and returns what was queried.
    pub(super) async fn wait_for_queries(&self, count: usize) -> Vec<String> {
        eventually(&format!("{count} queries"), async || {
            let queries = self.queries();
            if queries.len() < count { Err(queries) } else { Ok(queries) }
        })
        .await
    }

    /// Partner `p` with account `M`, under the sandbox profile.
    pub(super) fn partners(&self, unconfirmed: UnconfirmedNotices) -> Partners {
        self.partners_of(SANDBOX_PROFILE, unconfirmed)
    }

    /// The same under this profile.
    pub(super) fn partners_of(&self, profile: &str, unconfirmed: UnconfirmedNotices) -> Partners {
        let code = PartnerCode::parse("p").unwrap();
        let mut account = AccountEntry::new(code.clone(), MerchantCode::parse("M").unwrap());
        let key = NewKey {
            id: KeyId::parse("k1").unwrap(),
            channel: Channel::Ipn,
            secret: Secret::from_bytes(vec![b'x'; 32]),
            valid_from: at("00:00"),
            overlap_ms: 0,
            created_at: at("00:00"),
        };
        account.add_key(key).unwrap();
        let mut vault = VaultDocument::default();
        vault.add_account(account).unwrap();
        let profile = Profile::parse(&code, profile).unwrap();
        let directory = Directory::build(vec![profile], &vault).unwrap();
        Partners {
            directory: Arc::new(ArcSwap::from_pointee(directory)),
            api_urls: HashMap::from([(code, self.url.clone())]),
            remote: PartnerClient::new().unwrap(),
            unconfirmed,
        }
    }
}

/// Answers one request. Orders and refs have the same numbers: o1 has r1.
fn answer(state: &Mutex<PartnerState>, request: &str) -> String {
    let target = request.split_whitespace().nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let order = query.split('&').find_map(|pair| pair.strip_prefix("orderId="));
    let what = order.unwrap_or_else(|| path.rsplit('/').next().unwrap_or_default());
    let mut state = state.lock().unwrap();
    state.queries.push(what.to_owned());
    let (head, body) = match state.answers.get(what).copied() {
        None => ("404 Not Found", String::new()),
        Some("429") => ("429 Too Many Requests\r\nretry-after: 2", String::new()),
        Some(status) => {
            let number = &what[1..];
            let body = format!(
                "{{\"merchantCode\":\"M\",\"orderId\":\"o{number}\",\"providerRef\":\"r{number}\",\
                 \"status\":\"{status}\",\"amount\":100,\"currency\":\"VND\"}}"
            );
            ("200 OK", body)
        }
    };
    format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
