//! Owns which admin listeners there are: those that are named. A name with several addresses, such
//! as a headless service's, stands for a listener at each.

use std::net::IpAddr;
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
    /// Of each that is named, those that it stands for.
    urls: Mutex<Vec<Vec<String>>>,
    looked_up: tokio::sync::Mutex<Option<Instant>>,
}

impl Listeners {
    /// Those of these addresses, which are URLs.
    pub(crate) fn new(named: &[String]) -> Self {
        let named: Vec<_> = named.iter().filter_map(|url| Url::parse(url).ok()).collect();
        let urls = named.iter().map(|url| vec![text_of(url)]).collect();
        Self { named, urls: Mutex::new(urls), looked_up: tokio::sync::Mutex::default() }
    }

    /// Their addresses as they were looked up last.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.urls.lock().unwrap_or_else(PoisonError::into_inner).concat()
    }

    /// Looks names up that have not been looked up for a while.
    pub(crate) async fn refresh(&self) {
        let mut looked_up = self.looked_up.lock().await;
        if looked_up.is_some_and(|at| at.elapsed() < KEPT) {
            return;
        }
        let found = future::join_all(self.named.iter().map(async |url| {
            let found = timeout(LOOKUP_MAX, lookup_host(name_in(url)?)).await.ok()?.ok()?;
            Some(at_each(url, found.map(|address| address.ip()).collect()))
        }));
        self.update(found.await);
        *looked_up = Some(Instant::now());
    }

    /// Takes what was found. A name that was not found keeps its addresses: what happens when they
    /// are asked says more.
    fn update(&self, found: Vec<Option<Vec<String>>>) {
        let mut urls = self.urls.lock().unwrap_or_else(PoisonError::into_inner);
        for (known, found) in urls.iter_mut().zip(found) {
            if let Some(found) = found {
                *known = found;
            }
        }
    }
}

/// The name and port to look up. With TLS there is none: a certificate names no address.
fn name_in(url: &Url) -> Option<(&str, u16)> {
    match url.host() {
        Some(Host::Domain(name)) if url.scheme() == "http" => {
            Some((name, url.port_or_known_default()?))
        }
        _ => None,
    }
}

/// A URL for each address. With one or none the name stays. Of a process that has both kinds of
/// addresses, only that of IPv4 counts.
fn at_each(url: &Url, mut ips: Vec<IpAddr>) -> Vec<String> {
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
        let urls = |ips: &[&str]| at_each(&url, ips.iter().map(|ip| ip.parse().unwrap()).collect());
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
            assert_eq!(name_in(&Url::parse(url).unwrap()), name);
        }
    }

    #[test]
    fn a_name_that_is_not_found_now_keeps_its_addresses() {
        let named = ["http://payfold-admin:9464".to_owned(), "http://10.0.0.9:9464".to_owned()];
        let listeners = Listeners::new(&named);
        assert_eq!(listeners.urls(), named);
        let found = ["http://10.0.0.5:9464", "http://10.0.0.6:9464"].map(str::to_owned).to_vec();
        listeners.update(vec![Some(found), None]);
        let all = ["http://10.0.0.5:9464", "http://10.0.0.6:9464", "http://10.0.0.9:9464"];
        assert_eq!(listeners.urls(), all);
        listeners.update(vec![None, None]);
        assert_eq!(listeners.urls(), all);
    }
}
