//! Owns which names the admin listener and the probes listener may be called by. A page that a
//! browser opens can have its own name resolve to this host and then read what needs no token; it
//! can't have the browser send another name.

use std::net::IpAddr;

use actix_web::http::uri::Authority;

use crate::error::Fixable;

/// Top-level names that public DNS never resolves (RFC 6761, RFC 6762, ICANN's `internal`), and the
/// one under which Kubernetes has its Services.
const PRIVATE: [&str; 4] = ["localhost", "local", "internal", "svc"];

/// The names of the listeners besides private ones.
pub(crate) struct AdminHosts(Vec<String>);

impl AdminHosts {
    /// Takes the names of the setting. Errors: one has a port or is no name.
    pub(crate) fn parse(names: &[String]) -> anyhow::Result<Self> {
        let is_name = |name: &String| name_of(name).is_some_and(|it| it.eq_ignore_ascii_case(name));
        match names.iter().find(|name| !is_name(name)) {
            Some(other) => Err(Fixable::error(
                format!("admin_hosts: {other:?} is no name of a host"),
                "write the name alone, without a port, such as \"payfold-admin.example.com\"",
            )),
            None => Ok(Self(names.to_vec())),
        }
    }

    /// Whether a stranger's page can't have this name: an address, a name that public DNS does not
    /// resolve, or one of these.
    pub(super) fn has(&self, name: &str) -> bool {
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        if address.unwrap_or(name).parse::<IpAddr>().is_ok() {
            return true;
        }
        let top = name.rsplit_once('.').map_or("localhost", |(_, top)| top);
        PRIVATE.contains(&top) || self.0.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The name in a `Host` header, in lower case; `None` if it has none.
pub(super) fn name_of(host: &str) -> Option<String> {
    let authority = host.parse::<Authority>().ok()?;
    let name = authority.host().strip_suffix('.').unwrap_or(authority.host());
    (!name.is_empty() && !authority.as_str().contains('@')).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_strangers_can_have_are_refused() {
        let hosts = AdminHosts::parse(&["Payfold-Admin.Example.com".to_owned()]).unwrap();
        let is_ours = |host: &str| name_of(host).is_some_and(|name| hosts.has(&name));
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
            "payfold-admin.example.com.",
        ] {
            assert!(is_ours(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9464",
            "127.0.0.1.evil.example",
            "example.com",
            "x.payfold-admin.example.com",
            "localhost.evil.example.",
            "127.0.0.1@evil.example:9464",
            "evil.example@127.0.0.1:9464",
            "127.0.0.1, evil.example",
            "",
        ] {
            assert!(!is_ours(host), "{host}");
        }
    }

    #[test]
    fn a_name_that_could_never_match_is_refused() {
        for wrong in ["pay.example:9464", "https://pay.example", "pay.example.", "a b", "", "x@y"] {
            let error = AdminHosts::parse(&[wrong.to_owned()]).err().map(|it| it.to_string());
            assert!(error.is_some_and(|it| it.contains("admin_hosts: ")), "{wrong}");
        }
    }
}
