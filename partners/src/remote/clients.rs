//! Owns the HTTP clients of our calls: one for each reach, whose connections all partners share, and one for each account
//! whose partner wants to see a certificate of ours. None follows a redirect, sends anything twice, or goes where its
//! reach does not let it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use payfold_schemas::digest::Digest;
use payfold_schemas::time::Time;
use reqwest::{Client, Identity, redirect};

use super::reason;
use crate::directory::Account;
use crate::outbound::{CheckedResolver, Lookup, Reach, system_lookup};

/// How many idle connections to one partner are kept.
const IDLE_PER_HOST: usize = 32;
/// A connection that is not there by then is refused: nothing was sent.
const CONNECT: Duration = Duration::from_secs(3);

/// Every client.
pub(super) struct Clients {
    public: Client,
    sandbox: Client,
    /// By account: which certificate, and the client that shows it.
    with_certificate: Mutex<HashMap<String, (Digest, Client)>>,
}

/// Why there is no client for an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoClient {
    /// Its profile asks for a certificate, and none counts.
    NoCertificate,
    /// TLS does not take the certificate. Why.
    Unusable(String),
}

impl Clients {
    /// Errors: the system's certificates can't be read.
    pub(super) fn new() -> Result<Self, reqwest::Error> {
        let [public, sandbox] =
            [Reach::Public, Reach::Sandbox].map(|reach| client(reach, system_lookup, None));
        Ok(Self { public: public?, sandbox: sandbox?, with_certificate: Mutex::default() })
    }

    /// The client of a reach, which shows nobody's certificate.
    pub(super) fn of_reach(&self, reach: Reach) -> Client {
        match reach {
            Reach::Public => self.public.clone(),
            Reach::Sandbox => self.sandbox.clone(),
        }
    }

    /// The client of an account's calls, with the certificate that counts at `now` where its profile asks for one. A renewed one
    /// has a client of its own: connections that have shown the old one carry no new call.
    pub(super) fn of(&self, account: &Account, now: Time) -> Result<Client, NoClient> {
        let reach = Reach::of(account.profile());
        let key = account.client_certificate(now).map_err(|_| NoClient::NoCertificate)?;
        let Some(pem) = key.and_then(|key| key.secret()) else { return Ok(self.of_reach(reach)) };
        let shown = Digest::of_bytes(pem.expose());
        let mut all = self.with_certificate.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, client)) = all.get(&account.name())
            && *known == shown
        {
            return Ok(client.clone());
        }
        let identity = Identity::from_pem(pem.expose());
        let made = identity.and_then(|identity| client(reach, system_lookup, Some(identity)));
        let client = made.map_err(|error| NoClient::Unusable(reason(&error)))?;
        all.insert(account.name(), (shown, client.clone()));
        Ok(client)
    }
}

pub(super) fn client(
    reach: Reach,
    lookup: Lookup,
    identity: Option<Identity>,
) -> Result<Client, reqwest::Error> {
    let builder = Client::builder()
        .user_agent(concat!("payfold/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .no_proxy()
        .dns_resolver(Arc::new(CheckedResolver::new(reach, lookup)))
        .connect_timeout(CONNECT)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        // What was sent once is never sent again by the library.
        .retry(reqwest::retry::never());
    match identity {
        Some(identity) => builder.identity(identity).build(),
        None => builder.build(),
    }
}
