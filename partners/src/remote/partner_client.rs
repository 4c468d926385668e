//! Owns the client that all calls to partners are made with.

use std::sync::Arc;

use reqwest::Client;

use crate::outbound::Reach;
use crate::remote::clients::HttpClients;
use crate::remote::tokens::TokenCache;

/// Makes calls to partners. Holds the HTTP connections and the access tokens of accounts; clones
/// share both.
#[derive(Clone)]
pub struct PartnerClient {
    pub(super) clients: Arc<HttpClients>,
    pub(super) tokens: Arc<TokenCache>,
}

impl PartnerClient {
    /// Builds the HTTP clients. Errors: the system's root certificates can't be read.
    pub fn new() -> Result<Self, reqwest::Error> {
        install_tls();
        Ok(Self { clients: Arc::new(HttpClients::new()?), tokens: Arc::default() })
    }

    /// The HTTP client of a reach, for visiting a partner's pages: it has the same address limits
    /// as calls, follows no redirect and keeps no cookies.
    pub fn visitor(&self, reach: Reach) -> Client {
        self.clients.of_reach(reach)
    }
}

/// Selects the TLS cryptography of this process. Call it before the first client is built.
pub fn install_tls() {
    // The only error is that another part of the process has installed a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
