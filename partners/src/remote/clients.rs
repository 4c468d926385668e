//! Owns the HTTP clients of calls to partners: one for each `Reach`, and one for each account with
//! a TLS client certificate. All partners share the connections of a `Reach`'s client. No client
//! follows a redirect, retries a request, or connects to an address outside its reach.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use payfold_schemas::digest::Digest;
use payfold_schemas::time::Time;
use reqwest::{Client, Identity, redirect};

use crate::directory::account::Account;
use crate::outbound::{CheckedResolver, Lookup, Reach, system_lookup};
use crate::remote::answer::reason;

/// The most idle connections that are kept to one host.
const IDLE_PER_HOST: usize = 32;

/// The timeout of making a connection. After it nothing was sent, so the call has failed. A call
/// with a timeout of at most this may end first, with an unknown outcome.
const CONNECT: Duration = Duration::from_secs(3);

/// Every HTTP client of calls to partners.
pub(super) struct HttpClients {
    public: Client,
    sandbox: Client,
    /// By account: the digest of the client certificate, and the client that presents it.
    with_certificate: Mutex<HashMap<String, (Digest, Client)>>,
}

/// Why there is no client for an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientError {
    /// The profile requires a client certificate, and no certificate of the account is valid now.
    NoCertificate,
    /// The TLS library does not accept the certificate. Holds the reason.
    Unusable(String),
}

impl HttpClients {
    /// Errors: the system's certificates can't be read.
    pub(super) fn new() -> Result<Self, reqwest::Error> {
        let [public, sandbox] =
            [Reach::Public, Reach::Sandbox].map(|reach| client(reach, system_lookup, None));
        Ok(Self { public: public?, sandbox: sandbox?, with_certificate: Mutex::default() })
    }

    /// The client of a reach, without a client certificate.
    pub(super) fn of_reach(&self, reach: Reach) -> Client {
        match reach {
            Reach::Public => self.public.clone(),
            Reach::Sandbox => self.sandbox.clone(),
        }
    }

    /// The client of an account's calls. It presents the certificate that is valid at `now` if the
    /// profile requires one. A renewed certificate gets a new client, so that no new call uses a
    /// connection that was made with the old certificate.
    pub(super) fn of(&self, account: &Account, now: Time) -> Result<Client, ClientError> {
        let reach = Reach::of(account.profile());
        let key = account.client_certificate(now).map_err(|_| ClientError::NoCertificate)?;
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
        let client = made.map_err(|error| ClientError::Unusable(reason(&error)))?;
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
        // A retry by the library could create a payment twice.
        .retry(reqwest::retry::never());
    match identity {
        Some(identity) => builder.identity(identity).build(),
        None => builder.build(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;

    use tokio::net::TcpListener;

    use super::*;
    use crate::outbound::Reach;
    use crate::remote::answer::reason;
    use crate::remote::partner_client::install_tls;
    use std::time::Duration;

    /// Resolves any name to this machine.
    fn rebound(_: &str) -> io::Result<Vec<SocketAddr>> {
        Ok(vec!["127.0.0.1:0".parse().unwrap()])
    }

    /// The client itself holds the guard: it never connects to a name that has a private address.
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
        // The first connection is the sandbox's: the public client made none.
        let (connection, _) = listener.accept().await.unwrap();
        drop(connection);
        assert!(sandbox.await.unwrap().is_err());
        let another = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(another.is_err(), "one connection only");
    }
}
