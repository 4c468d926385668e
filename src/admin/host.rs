//! Owns which names the admin listener and the probes listener may be called by. A page that a
//! browser opens can have its own name resolve to this host and then read what needs no token; it
//! can't have the browser send another name.

use std::net::IpAddr;

use actix_web::Error;
use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header;
use actix_web::http::uri::Authority;
use actix_web::middleware::Next;
use actix_web::web::Data;

use super::answer::Refusal;
use super::state::Admin;

/// Top-level names that public DNS never resolves (RFC 6761, RFC 6762, ICANN's `internal`), and the
/// one under which Kubernetes has its Services.
const PRIVATE: [&str; 4] = ["localhost", "local", "internal", "svc"];

/// Lets a request pass that is addressed to a name of this listener. Errors: it is addressed to
/// another name.
pub(super) async fn addressed_here(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let admin = request.app_data::<Data<Admin>>().expect("the admin listener has its state");
    for host in request.headers().get_all(header::HOST) {
        let host = String::from_utf8_lossy(host.as_bytes());
        if !is_private(&host, &admin.hosts) {
            return Err(Refusal::Misdirected(host.into_owned()).into());
        }
    }
    next.call(request).await
}

/// Whether a stranger's page can't have this name: an address, a name that public DNS does not
/// resolve, or one of `hosts`.
fn is_private(host: &str, hosts: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    if address.unwrap_or(&name).parse::<IpAddr>().is_ok() {
        return true;
    }
    let top = name.rsplit_once('.').map_or("localhost", |(_, top)| top);
    PRIVATE.contains(&top) || hosts.iter().any(|known| known.eq_ignore_ascii_case(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_strangers_can_have_are_refused() {
        let hosts = ["Payfold-Admin.Example.com".to_owned()];
        for host in [
            "127.0.0.1:9464",
            "10.1.2.3",
            "[::1]:9464",
            "[fd00::1]",
            "localhost",
            "LOCALHOST:9464",
            "reconciler:9466",
            "payfold.localhost",
            "payfold-ingest-admin.pay.svc:9464",
            "payfold-ingest-admin.pay.svc.cluster.local.",
            "payfold.europe-west3-a.c.shop.internal",
            "payfold-admin.example.com:443",
        ] {
            assert!(is_private(host, &hosts), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9464",
            "127.0.0.1.evil.example",
            "example.com",
            "x.payfold-admin.example.com",
            "localhost.evil.example.",
            "127.0.0.1@evil.example:9464",
            "127.0.0.1, evil.example",
            "",
        ] {
            assert!(!is_private(host, &hosts), "{host}");
        }
    }
}
