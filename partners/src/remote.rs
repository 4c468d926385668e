//! Owns the call to a partner: one signed request, no redirect, within a time and a size, to a checked address. What it
//! is in a partner's own scheme is put together in `create` and `sending`. Its result says what may be concluded: nothing was created, this was created, or nobody knows.
//! It never calls twice for one request, but where the first was refused for its access token; whoever holds a claim calls once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use payfold_schemas::time::Time;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Method, Request, Response, StatusCode};

use self::clients::{Clients, NoClient};
use self::sending::Sending;
use self::tokens::{Carried, Tokens};
use crate::create::{CreateRequest, Offer, Violation};
use crate::directory::Account;
use crate::keys::Channel;
use crate::outbound::{Reach, UrlProblem};
use crate::scheme::create::{Asked, NoOffer};
use crate::validity;

mod clients;
mod create;
mod draft;
pub mod query;
mod sending;
mod tokens;

pub use self::draft::{Draft, DraftedRequest};

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
    /// The partner can't be connected to, or there is no access token: nothing was sent. Why, for the log: no name, no
    /// route, no TLS, a private address, what the token was refused with.
    Unreachable(String),
    /// The partner answered with this 4xx.
    Refused(u16),
    /// A complete answer that says no, with the partner's code for why, as far as it can be printed.
    Declined(String),
    /// A complete answer that breaks a rule of the contract.
    Violation(Violation),
}

impl Failure {
    /// The code in the CF fact and to the shop.
    pub fn code(&self) -> String {
        match self {
            Self::Unreachable(_) => "partner_unreachable".to_owned(),
            Self::Refused(_) | Self::Declined(_) => "partner_refused".to_owned(),
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
    /// The account has no key that counts now. Which account, and when its keys are valid.
    #[error(
        "no key for calls of account {0}; check the clock of this machine, or add a key with payfold key add, --channel create \
         for a secret of calls alone, --channel sign for a private key"
    )]
    NoKey(String),
    /// The partner's TLS is to be shown a certificate, and the account has none that counts now. Which account, and when its
    /// certificates are valid.
    #[error(
        "no client certificate of account {0}; check the clock of this machine, or add one with payfold key add --channel tls"
    )]
    NoCertificate(String),
    /// The value holds the separator.
    #[error(transparent)]
    Ambiguous(#[from] crate::create::Ambiguous),
    /// The profile creates no payments in this currency.
    #[error("partner {0} takes no such currency")]
    Currency(String),
    /// The partner has no number for this amount.
    #[error("partner {0} can't be asked for such a part of the currency's unit")]
    Amount(String),
    /// The partner counts in longer units than are left until then.
    #[error("the expiry is nearer than partner {0} can be told")]
    Expiry(String),
    /// The partner is told the payer's address, and the shop gave none.
    #[error("partner {0} is told the payer's address, and there is none")]
    PayerIp(String),
    /// What is sent can't be put together as the profile says. Why; never a value.
    #[error("the call to partner {0} can't be put together: {1}")]
    Uncallable(String, String),
    /// The partner's address.
    #[error("the partner's address can't be called: {0}")]
    Address(UrlProblem),
}

// No `#[from]`: a cause would be told twice.
impl From<UrlProblem> for CallError {
    fn from(problem: UrlProblem) -> Self {
        Self::Address(problem)
    }
}

/// What calls are made with: connections, and the access tokens of accounts. Clones share both.
#[derive(Clone)]
pub struct Remote {
    clients: Arc<Clients>,
    tokens: Arc<Tokens>,
}

/// An attempt that can be made: everything that could be wrong on our side has been looked at.
pub struct Call(Way);

enum Way {
    /// One request.
    Sent(Box<Exchange>),
    /// Nothing is called: what the payer gets is built already.
    Built(Offer),
}

/// One request, and what its answer is judged by.
struct Exchange {
    client: Client,
    sending: Sending,
    reach: Reach,
    judge: Judge,
    timeout_ms: u64,
    answer_bytes_max: usize,
}

/// Whose rules an answer is judged by.
enum Judge {
    Contract,
    /// The account's partner has a scheme of its own.
    Own(Arc<Account>, Asked),
}

impl Remote {
    /// Makes the clients. Errors: the system's certificates can't be read.
    pub fn new() -> Result<Self, reqwest::Error> {
        install_tls();
        Ok(Self { clients: Arc::new(Clients::new()?), tokens: Arc::default() })
    }

    /// The client of a reach, for a partner's pages: it goes where calls may go, follows no redirect and keeps no cookie.
    pub fn visitor(&self, reach: Reach) -> Client {
        self.clients.of_reach(reach)
    }

    /// Signs a request and looks at where it goes. `api_url` is the partner's address of the settings.
    pub fn prepare(
        &self,
        account: &Arc<Account>,
        api_url: &str,
        request: &CreateRequest,
        now: Time,
    ) -> Result<Call, CallError> {
        let profile = account.profile();
        if let Some(scheme) = profile.scheme() {
            return self.prepare_own_create((account, scheme), api_url, request, now);
        }
        let rule = profile.create();
        let rule = rule.ok_or_else(|| CallError::NoCreate(account.partner().to_string()))?;
        let key = account.keys_of(Channel::Create).signing_key(now);
        let key = key.ok_or_else(|| no_key(account))?;
        let reach = Reach::of(profile);
        let url = reach.check(&format!("{}{}", api_url.trim_end_matches('/'), rule.path))?;
        let mut sent = Request::new(Method::POST, url);
        for name in [CONTENT_TYPE, ACCEPT] {
            sent.headers_mut().insert(name, HeaderValue::from_static("application/json"));
        }
        *sent.body_mut() = Some(request.body(profile, rule, key.mac())?.into());
        let client = self.clients.of(account, now).map_err(|why| no_client(account, why))?;
        Ok(Call(Way::Sent(Box::new(Exchange {
            client,
            sending: Sending::Ready(Box::new(sent)),
            reach,
            judge: Judge::Contract,
            timeout_ms: rule.timeout_ms,
            answer_bytes_max: rule.answer_bytes_max,
        }))))
    }
}

fn no_key(account: &Account) -> CallError {
    CallError::NoKey(none_valid(account, &[Channel::Create, Channel::Sign]))
}

/// Which account has no valid key, and when its keys of these channels are valid.
fn none_valid(account: &Account, channels: &[Channel]) -> String {
    let keys = channels.iter().flat_map(|channel| account.keys_of(*channel).keys());
    format!("{} is valid now (it has {})", account.name(), validity::of_keys(keys))
}

fn no_client(account: &Account, why: NoClient) -> CallError {
    match why {
        NoClient::NoCertificate => CallError::NoCertificate(none_valid(account, &[Channel::Tls])),
        NoClient::Unusable(why) => CallError::Uncallable(account.partner().to_string(), why),
    }
}

/// Chooses the cryptography of every TLS connection of this process; before the first client is made.
pub fn install_tls() {
    // Another part of the process may have chosen the same before.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

impl Call {
    /// Whether the partner is called; else the payer is only given an address.
    pub fn goes_out(&self) -> bool {
        matches!(self.0, Way::Sent(_))
    }

    /// Makes the call; `now` is asked when the answer is there. Never fails: every end says what it is worth.
    pub async fn make(self, now: impl Fn() -> Time) -> Created {
        match self.0 {
            Way::Sent(exchange) => exchange.make(&now).await,
            Way::Built(offer) => Created::Opened(offer),
        }
    }
}

impl Exchange {
    async fn make(&self, now: &impl Fn() -> Time) -> Created {
        let unsent = |why| Created::Failed(Failure::Unreachable(why));
        let token = match self.sending.token(None, now).await {
            Ok(token) => token,
            Err(why) => return unsent(why),
        };
        let created = self.in_time(token.as_ref(), now).await;
        let Some(spent) = token.filter(|token| token.was_kept) else { return created };
        if created != Created::Failed(Failure::Refused(StatusCode::UNAUTHORIZED.as_u16())) {
            return created;
        }
        // A token may end sooner than was said. Nothing was created, so the call is made again with a new one.
        match self.sending.token(Some(&spent), now).await {
            Ok(token) => self.in_time(token.as_ref(), now).await,
            Err(why) => unsent(why),
        }
    }

    async fn in_time(&self, token: Option<&Carried>, now: &impl Fn() -> Time) -> Created {
        let timeout = Duration::from_millis(self.timeout_ms);
        match tokio::time::timeout(timeout, self.run(token, now)).await {
            Ok(created) => created,
            Err(_) => {
                Created::Unknown(format!("no whole answer within {} ms", timeout.as_millis()))
            }
        }
    }

    async fn run(&self, token: Option<&Carried>, now: &impl Fn() -> Time) -> Created {
        let request = match self.sending.request(token, now()) {
            Ok(request) => request,
            Err(why) => return Created::Failed(Failure::Unreachable(why)),
        };
        let response = match self.client.execute(request).await {
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
        match read(response, self.answer_bytes_max).await {
            Ok(body) => match self.judge.judge(&body, self.reach, now()) {
                Ok(offer) => Created::Opened(offer),
                Err(NoOffer::Declined(code)) => Created::Failed(Failure::Declined(code)),
                Err(NoOffer::Violation(rule)) => Created::Failed(Failure::Violation(rule)),
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

    use super::clients::client;
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
            let client = client(reach, rebound, None).unwrap();
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
