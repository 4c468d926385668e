//! Owns the call to a partner: one signed POST, no redirect, within a time and a size, to a checked address.
//! Its result says what may be concluded: nothing was created, this was created, or nobody knows.
//! It never calls twice for one request; whoever holds a claim calls once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use payfold_schemas::time::Time;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Response, StatusCode, redirect};

use crate::create::{CreateRequest, Offer, Violation, judge};
use crate::directory::Account;
use crate::keys::Channel;
use crate::outbound::{CheckedResolver, Lookup, Reach, UrlProblem, system_lookup};
use crate::profile::CreateRule;

pub mod query;

/// How many idle connections to one partner are kept.
const IDLE_PER_HOST: usize = 32;
/// A connection that is not there by then is refused: nothing was sent.
const CONNECT: Duration = Duration::from_secs(3);

/// What a create call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The partner opened a session.
    Opened(Offer),
    /// Definitely nothing was created, or what was is unusable: a new attempt may be made.
    Failed(Failure),
    /// Nobody knows. Never called again; a notice, a query or the deadline settles it. Why, for the log.
    Unknown(String),
}

/// Why a create call definitely failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The partner can't be connected to: nothing was sent. Why, for the log: no name, no route, no TLS, a private
    /// address.
    Unreachable(String),
    /// The partner answered with this 4xx.
    Refused(u16),
    /// A complete answer that breaks a rule of the contract.
    Violation(Violation),
}

impl Failure {
    /// The code in the CF fact and to the shop.
    pub fn code(&self) -> String {
        match self {
            Self::Unreachable(_) => "partner_unreachable".to_owned(),
            Self::Refused(_) => "partner_refused".to_owned(),
            Self::Violation(rule) => rule.code(),
        }
    }
}

/// Why a call can't be made at all: the configuration, or a request the profile can't sign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The profile has no `[create]`.
    #[error("partner {0} takes no create calls: its profile has no [create]")]
    NoCreate(String),
    /// The account has no key that counts now.
    #[error("account {0} has no key that is valid now; add one with payfold key add")]
    NoKey(String),
    /// The value holds the separator.
    #[error(transparent)]
    Ambiguous(#[from] crate::create::Ambiguous),
    /// The partner's address.
    #[error("the partner's address can't be called: {0}")]
    Address(#[from] UrlProblem),
}

/// The clients of calls, one per reach: connections are shared by all partners of a reach.
#[derive(Clone)]
pub struct Remote {
    public: Client,
    sandbox: Client,
}

/// A call that can be made: everything that could be wrong on our side has been looked at.
pub struct Call {
    client: Client,
    url: url::Url,
    body: Vec<u8>,
    reach: Reach,
    rule: CreateRule,
}

impl Remote {
    /// Makes the clients. Errors: the system's certificates can't be read.
    pub fn new() -> Result<Self, reqwest::Error> {
        install_tls();
        let [public, sandbox] =
            [Reach::Public, Reach::Sandbox].map(|reach| client(reach, system_lookup));
        Ok(Self { public: public?, sandbox: sandbox? })
    }

    /// The client of a reach, for a partner's pages: it goes where calls may go, follows no redirect and keeps no cookie.
    pub fn visitor(&self, reach: Reach) -> Client {
        match reach {
            Reach::Public => self.public.clone(),
            Reach::Sandbox => self.sandbox.clone(),
        }
    }

    /// Signs a request and looks at where it goes. `api_url` is the partner's address of the settings.
    pub fn prepare(
        &self,
        account: &Account,
        api_url: &str,
        request: &CreateRequest,
        now: Time,
    ) -> Result<Call, CallError> {
        let profile = account.profile();
        let rule = profile.create();
        let rule = rule.ok_or_else(|| CallError::NoCreate(account.partner().to_string()))?;
        let key = account.keys_of(Channel::Create).signing_key(now).ok_or_else(|| {
            CallError::NoKey(format!("{}/{}", account.partner(), account.merchant_code()))
        })?;
        let reach = Reach::of(profile);
        let url = reach.check(&format!("{}{}", api_url.trim_end_matches('/'), rule.path))?;
        let body = request.body(profile, rule, key.mac())?;
        let client = self.visitor(reach);
        Ok(Call { client, url, body, reach, rule: rule.clone() })
    }
}

/// Chooses the cryptography of every TLS connection of this process; before the first client is made.
pub fn install_tls() {
    // Another part of the process may have chosen the same before.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn client(reach: Reach, lookup: Lookup) -> Result<Client, reqwest::Error> {
    Client::builder()
        .user_agent(concat!("payfold/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .no_proxy()
        .dns_resolver(Arc::new(CheckedResolver::new(reach, lookup)))
        .connect_timeout(CONNECT)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        // What was sent once is never sent again by the library.
        .retry(reqwest::retry::never())
        .build()
}

impl Call {
    /// Makes the call; `now` is asked when the answer is there. Never fails: every end says what it is worth.
    pub async fn make(self, now: impl Fn() -> Time) -> Created {
        let timeout = Duration::from_millis(self.rule.timeout_ms);
        match tokio::time::timeout(timeout, self.exchange(now)).await {
            Ok(created) => created,
            Err(_) => {
                Created::Unknown(format!("no whole answer within {} ms", timeout.as_millis()))
            }
        }
    }

    async fn exchange(self, now: impl Fn() -> Time) -> Created {
        let (reach, bytes_max) = (self.reach, self.rule.answer_bytes_max);
        let json = HeaderValue::from_static("application/json");
        let request = self.client.post(self.url).header(CONTENT_TYPE, &json).header(ACCEPT, &json);
        let response = match request.body(self.body).send().await {
            Ok(response) => response,
            // Refused, unresolved, no TLS: the request never went out.
            Err(error) if error.is_connect() => {
                return Created::Failed(Failure::Unreachable(reason(&error)));
            }
            Err(error) => return Created::Unknown(reason(&error)),
        };
        let status = response.status();
        if status.is_redirection() {
            return Created::Failed(Failure::Violation(Violation::Redirect));
        }
        if status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT {
            return Created::Failed(Failure::Refused(status.as_u16()));
        }
        if !status.is_success() {
            return Created::Unknown(format!("the partner answered {}", status.as_u16()));
        }
        match read(response, bytes_max).await {
            Ok(body) => match judge(&body, reach, now()) {
                Ok(offer) => Created::Opened(offer),
                Err(rule) => Created::Failed(Failure::Violation(rule)),
            },
            Err(reason) => Created::Unknown(reason),
        }
    }
}

async fn read(response: Response, bytes_max: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| reason(&error))?;
        if body.len().saturating_add(chunk.len()) > bytes_max {
            return Err(format!("the answer is over {bytes_max} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// What the library says, without the URL: a query in it may hold what a partner calls a secret.
fn reason(error: &reqwest::Error) -> String {
    let mut text = if error.is_timeout() { "timed out".to_owned() } else { String::new() };
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = if text.is_empty() { cause.to_string() } else { format!("{text}: {cause}") };
        source = cause.source();
    }
    if text.is_empty() { "the connection ended".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;

    use tokio::net::TcpListener;

    use super::*;

    /// A public name whose address is this machine's.
    fn rebound(_: &str) -> io::Result<Vec<SocketAddr>> {
        Ok(vec!["127.0.0.1:0".parse().unwrap()])
    }

    /// The guard is in the client that calls: a name with a private address is never connected to.
    #[tokio::test]
    async fn a_public_profile_never_connects_to_a_private_address() {
        install_tls();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("https://pay.example:{port}/payments");
        let call = |reach| {
            let client = client(reach, rebound).unwrap();
            client.post(url.clone()).body("x").send()
        };
        let refused = call(Reach::Public).await.unwrap_err();
        assert!(refused.is_connect(), "{refused:?}");
        assert!(reason(&refused).contains("pay.example has a private address"), "{refused:?}");
        let sandbox = tokio::spawn(call(Reach::Sandbox));
        // The first connection that comes is the sandbox's: the public one made none.
        let (connection, _) = listener.accept().await.unwrap();
        drop(connection);
        assert!(sandbox.await.unwrap().is_err());
        let another = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(another.is_err(), "one connection only");
    }
}
