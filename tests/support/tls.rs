//! Owns the TLS of servers that a test plays: a certificate for 127.0.0.1 by an authority of tests.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

/// The authority that signed the servers' certificate, and clients' that it knows.
pub const CA: &str = include_str!("../../partners/tests/tls/ca.pem");
const SERVER: &str = include_str!("../../partners/tests/tls/server.pem");

/// A server's configuration. `clients` checks their certificates.
pub fn server(clients: Arc<dyn ClientCertVerifier>) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let chain = CertificateDer::pem_slice_iter(SERVER.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(SERVER.as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key);
    Arc::new(config.expect("a certificate with its key"))
}

/// The authorities in a PEM text.
pub fn roots(pem: &str) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(authority.expect("a certificate")).expect("an authority");
    }
    Arc::new(roots)
}
