//! A partner on a real socket that answers queries as it is told to, and remembers what it was asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use payfold_partners::directory::Directory;
use payfold_partners::document::{AccountEntry, NewKey, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::{Profile, SANDBOX_PROFILE};
use payfold_partners::remote::{Remote, install_tls};
use payfold_partners::secret::Secret;
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::partners::{Confirms, Partners};
use crate::run::testkit::at;

#[derive(Default)]
struct Books {
    /// Status words by what is asked for: a ref, or an order.
    said: HashMap<String, &'static str>,
    /// What was asked for, in order.
    asked: Vec<String>,
}

pub(super) struct Partner {
    books: Arc<Mutex<Books>>,
    url: String,
}

impl Partner {
    /// One that knows no payment yet.
    pub(super) async fn start() -> Self {
        install_tls();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let books = Arc::new(Mutex::new(Books::default()));
        let told = Arc::clone(&books);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let told = Arc::clone(&told);
                tokio::spawn(async move {
                    let mut read = vec![0; 4_096];
                    let count = stream.read(&mut read).await.unwrap_or(0);
                    let answer = answer(&told, &String::from_utf8_lossy(&read[..count]));
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self { books, url }
    }

    /// From now on this is said of it.
    pub(super) fn says(&self, what: &str, status: &'static str) {
        self.books.lock().unwrap().said.insert(what.to_owned(), status);
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.books.lock().unwrap().asked.clone()
    }

    /// Waits until it was asked so often, and returns what for.
    pub(super) async fn asked_times(&self, count: usize) -> Vec<String> {
        let begun = tokio::time::Instant::now();
        while self.asked().len() < count {
            assert!(begun.elapsed() < Duration::from_secs(20), "[time] asked {:?}", self.asked());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.asked()
    }

    /// Partner p with its account M at this partner.
    pub(super) fn partners(&self, confirms: Confirms) -> Partners {
        self.partners_of(SANDBOX_PROFILE, confirms)
    }

    /// The same under this profile.
    pub(super) fn partners_of(&self, profile: &str, confirms: Confirms) -> Partners {
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
            remote: Remote::new().unwrap(),
            confirms,
        }
    }
}

/// Every order is called as its ref is: o1 has r1.
fn answer(books: &Mutex<Books>, request: &str) -> String {
    let target = request.split_whitespace().nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let order = query.split('&').find_map(|pair| pair.strip_prefix("orderId="));
    let what = order.unwrap_or_else(|| path.rsplit('/').next().unwrap_or_default());
    let mut books = books.lock().unwrap();
    books.asked.push(what.to_owned());
    let (head, body) = match books.said.get(what).copied() {
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
