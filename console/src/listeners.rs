//! Owns which admin listeners there are: those that are named. A name with several addresses, such
//! as a headless service's, stands for a listener at each.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future;
use tokio::net::lookup_host;
use tokio::time::timeout;
use url::{Host, Url};

/// How long the addresses of a name are used.
const KEPT: Duration = Duration::from_secs(5);
/// Timeout of a lookup.
const LOOKUP_MAX: Duration = Duration::from_secs(2);

/// The admin listeners.
pub(crate) struct Listeners {
    named: Vec<Url>,
    known: Mutex<LookedUp>,
}

struct LookedUp {
    urls: Vec<String>,
    since: Option<Instant>,
}

impl Listeners {
    /// Those of these addresses, which are URLs.
    pub(crate) fn new(named: &[String]) -> Self {
        let named: Vec<_> = named.iter().filter_map(|url| Url::parse(url).ok()).collect();
        let urls = named.iter().map(text_of).collect();
        Self { named, known: Mutex::new(LookedUp { urls, since: None }) }
    }

    /// Their addresses as they were looked up last.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).urls.clone()
    }

    /// Looks names up that have not been looked up for a while.
    pub(crate) async fn refresh(&self) {
        let now = Instant::now();
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.since.is_some_and(|since| now.duration_since(since) < KEPT) {
                return;
            }
            known.since = Some(now);
        }
        let urls = future::join_all(self.named.iter().map(async |url| {
            let Some(name) = several_addresses_of(url) else { return vec![text_of(url)] };
            let found = timeout(LOOKUP_MAX, lookup_host(name)).await;
            let found: Vec<_> = found.ok().and_then(Result::ok).into_iter().flatten().collect();
            at_each(url, &found)
        }));
        let urls = urls.await.concat();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).urls = urls;
    }
}

/// The name and port to look up. With TLS there is none: a certificate names no address.
fn several_addresses_of(url: &Url) -> Option<(&str, u16)> {
    match url.host() {
        Some(Host::Domain(name)) if url.scheme() == "http" => {
            Some((name, url.port_or_known_default()?))
        }
        _ => None,
    }
}

/// A URL for each address. With one or none the name stays. Of a process that has both kinds of
/// addresses, only that of IPv4 counts.
fn at_each(url: &Url, found: &[SocketAddr]) -> Vec<String> {
    let mut ips: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
    if ips.iter().any(IpAddr::is_ipv4) {
        ips.retain(IpAddr::is_ipv4);
    }
    ips.sort_unstable();
    ips.dedup();
    if ips.len() < 2 {
        return vec![text_of(url)];
    }
    let at = |ip: IpAddr| {
        let mut url = url.clone();
        url.set_ip_host(ip).ok()?;
        Some(text_of(&url))
    };
    ips.into_iter().filter_map(at).collect()
}

fn text_of(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_a_listener_at_each_of_its_addresses() {
        let url = Url::parse("http://payfold-admin.payfold:9464").unwrap();
        let urls = |ips: &[&str]| {
            let found: Vec<_> =
                ips.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 9_464)).collect();
            at_each(&url, &found)
        };
        let named = ["http://payfold-admin.payfold:9464"];
        assert_eq!(urls(&[]), named, "the error names what is not found");
        assert_eq!(urls(&["10.0.0.5"]), named);
        assert_eq!(urls(&["10.0.0.5", "fd00::5"]), named, "one process, two kinds of addresses");
        assert_eq!(
            urls(&["10.0.0.6", "10.0.0.5", "10.0.0.6", "fd00::5"]),
            ["http://10.0.0.5:9464", "http://10.0.0.6:9464"]
        );
        assert_eq!(
            urls(&["fd00::6", "fd00::5"]),
            ["http://[fd00::5]:9464", "http://[fd00::6]:9464"]
        );
    }

    #[test]
    fn only_names_without_tls_are_looked_up() {
        for (url, name) in [
            ("http://payfold-admin:9464", Some(("payfold-admin", 9_464))),
            ("http://payfold-admin", Some(("payfold-admin", 80))),
            ("https://payfold-admin:9464", None),
            ("http://10.0.0.5:9464", None),
        ] {
            assert_eq!(several_addresses_of(&Url::parse(url).unwrap()), name);
        }
    }

    #[tokio::test]
    async fn what_is_looked_up_is_asked() {
        let named = ["http://localhost:1".to_owned(), "http://127.0.0.1:2/".to_owned()];
        let listeners = Listeners::new(&named);
        let expected = ["http://localhost:1", "http://127.0.0.1:2"];
        assert_eq!(listeners.urls(), expected);
        listeners.refresh().await;
        assert_eq!(listeners.urls(), expected);
    }
}
