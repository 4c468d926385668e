//! Owns the addresses that a call may go to: never this machine, a private network or a cloud's
//! metadata service, unless the profile is of stage sandbox. Names are resolved and checked, and
//! the connection is made to the checked addresses, so that a changed DNS answer can't get around
//! the check. IP literals, which no resolver sees, are checked in the URL. Only the resolver does
//! I/O.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::runtime::Runtime;
use url::{Host, Url};

use crate::profile::Profile;

/// The networks outside the public internet (IANA special-purpose registries, RFC 6890 and later).
const SPECIAL: &str = "
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
    192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24
    224.0.0.0/4 240.0.0.0/4
    ::/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 3fff::/20 5f00::/16
    fc00::/7 fe80::/10 fec0::/10 ff00::/8
";

static SPECIAL_NETS: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    SPECIAL.split_whitespace().map(|net| net.parse().expect("a network")).collect()
});

/// Whether an address belongs to the public internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    let address = address.to_canonical();
    !SPECIAL_NETS.iter().any(|net| net.contains(&address))
}

/// The addresses that a profile's calls and pages may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// https to the public internet.
    Public,
    /// Also http to this machine, and https to private networks; for sandbox profiles.
    Sandbox,
}

/// Why a URL is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlProblem {
    /// The URL is not absolute or has no host.
    #[error("it is not an absolute http or https address")]
    NotAbsolute,
    /// The URL has a user name or password.
    #[error("it contains a user name or password; remove it")]
    UserInfo,
    /// The URL's scheme is http, or another one.
    #[error(
        "it is not https; only a profile of stage sandbox may call http, and that on this machine"
    )]
    NotHttps,
    /// The host is this machine, in a private network, or a cloud's metadata service.
    #[error(
        "its host is this machine or a private network, which only a profile of stage sandbox may \
         call"
    )]
    PrivateHost,
}

impl Reach {
    /// The reach that a profile allows.
    pub fn of(profile: &Profile) -> Self {
        if profile.allows_private_addresses() { Self::Sandbox } else { Self::Public }
    }

    /// Checks a URL before its name is resolved. Errors: `UrlProblem`.
    pub fn check(self, url: &str) -> Result<Url, UrlProblem> {
        let url = Url::parse(url).map_err(|_| UrlProblem::NotAbsolute)?;
        let host = url.host().ok_or(UrlProblem::NotAbsolute)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlProblem::UserInfo);
        }
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(UrlProblem::NotHttps),
        };
        match self {
            Self::Sandbox if secure || is_this_machine(&host) => Ok(url),
            Self::Sandbox => Err(UrlProblem::NotHttps),
            Self::Public if !secure => Err(UrlProblem::NotHttps),
            Self::Public if is_private(&host) => Err(UrlProblem::PrivateHost),
            Self::Public => Ok(url),
        }
    }
}

fn is_this_machine(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => is_local_name(name),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.to_canonical().is_loopback(),
    }
}

fn is_private(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => is_local_name(name),
        Host::Ipv4(address) => !is_public(IpAddr::V4(*address)),
        Host::Ipv6(address) => !is_public(IpAddr::V6(*address)),
    }
}

/// Whether a name is `localhost` or below it, with or without a final dot (RFC 6761).
fn is_local_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Resolves a name. Blocks until the addresses are there.
pub(crate) type Lookup = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// Resolves a name with the system's resolver.
pub(crate) fn system_lookup(name: &str) -> io::Result<Vec<SocketAddr>> {
    Ok((name, 0).to_socket_addrs()?.collect())
}

/// The most lookups of one name in flight. A name server that hangs blocks this many threads;
/// further calls to the name fail at once.
const LOOKUPS_PER_NAME: usize = 2;
/// The threads for lookups of the whole process. Nothing else runs on them, so that a name server
/// that hangs blocks nothing but lookups.
const LOOKUP_THREADS: usize = 32;

static LOOKUPS: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(LOOKUP_THREADS)
        .thread_name("lookups")
        .build()
        .expect("threads for lookups can be made")
});

/// Resolves names for a `Reach`. With `Reach::Public` a name with a private address is refused,
/// even if its other addresses are public: the connection could otherwise go to the private one.
pub(crate) struct CheckedResolver {
    reach: Reach,
    lookup: Lookup,
    /// The number of lookups in flight, by name.
    in_flight: Arc<Mutex<HashMap<String, usize>>>,
}

/// Counts a lookup in flight until it returns. It belongs to the lookup's thread and not to the
/// caller: a caller that times out does not free the thread.
struct LookupPermit(Arc<Mutex<HashMap<String, usize>>>, String);

impl Drop for LookupPermit {
    fn drop(&mut self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.1);
            }
        }
    }
}

impl CheckedResolver {
    pub(crate) fn new(reach: Reach, lookup: Lookup) -> Self {
        Self { reach, lookup, in_flight: Arc::default() }
    }

    /// A permit for one lookup; `None` if the name has `LOOKUPS_PER_NAME` in flight.
    fn begin(&self, name: &str) -> Option<LookupPermit> {
        let mut all = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(name.to_owned()).or_default();
        if *count >= LOOKUPS_PER_NAME {
            return None;
        }
        *count += 1;
        Some(LookupPermit(Arc::clone(&self.in_flight), name.to_owned()))
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (reach, lookup) = (self.reach, self.lookup);
        let name = name.as_str().to_owned();
        let begun = self.begin(&name);
        Box::pin(async move {
            let Some(begun) = begun else {
                let problem = format!("lookups of {name} do not return; check its name server");
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem).into());
            };
            let asked = name.clone();
            let looked_up = LOOKUPS.spawn_blocking(move || {
                let found = lookup(&asked);
                drop(begun);
                found
            });
            let addresses = looked_up.await??;
            if reach == Reach::Public && addresses.iter().any(|address| !is_public(address.ip())) {
                let problem = format!("{name} has a private address");
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem).into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for private in "10.1.2.3 127.0.0.1 169.254.169.254 172.31.255.255 192.168.0.1 100.64.0.1 \
            ::1 fe80::1 fd00::1 ::ffff:10.0.0.1 ::ffff:127.0.0.1 64:ff9b::a00:1 2002:a00:1:: \
            255.255.255.255 0.0.0.0 :: 224.0.0.1 fd00:ec2::254"
            .split_whitespace()
        {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700:4700::1111", "100.128.0.1"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    /// URL, the result for a public profile, the result for a sandbox profile.
    const URLS: &str = "
        https://pay.example/x                 ok           ok
        https://pay.example:8443/x?y=1        ok           ok
        http://pay.example/x                  NotHttps     NotHttps
        http://127.0.0.1:8082/x               NotHttps     ok
        http://localhost:8082/x               NotHttps     ok
        http://[::1]:8082/x                   NotHttps     ok
        https://127.0.0.1/x                   PrivateHost  ok
        https://127.1/x                       PrivateHost  ok
        https://0x7f000001/x                  PrivateHost  ok
        https://2130706433/x                  PrivateHost  ok
        https://[::ffff:169.254.169.254]/x    PrivateHost  ok
        https://LOCALHOST./x                  PrivateHost  ok
        https://a.localhost/x                 PrivateHost  ok
        https://10.0.0.1/x                    PrivateHost  ok
        http://10.0.0.1/x                     NotHttps     NotHttps
        https://user@pay.example/x            UserInfo     UserInfo
        https://user:pw@pay.example/x         UserInfo     UserInfo
        https://:pw@pay.example/x             UserInfo     UserInfo
        ftp://pay.example/x                   NotHttps     NotHttps
        javascript:alert(1)                   NotAbsolute  NotAbsolute
        //pay.example/x                       NotAbsolute  NotAbsolute
        /x                                    NotAbsolute  NotAbsolute
        pay.example                           NotAbsolute  NotAbsolute
    ";

    #[test]
    fn a_url_is_checked_for_the_profiles_reach() {
        for case in URLS.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let [url, public, sandbox] =
                case.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
            for (reach, expected) in [(Reach::Public, public), (Reach::Sandbox, sandbox)] {
                let got = match reach.check(url) {
                    Ok(_) => "ok".to_owned(),
                    Err(problem) => format!("{problem:?}"),
                };
                assert_eq!(got, expected, "{url} {reach:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_name_of_this_machine_does_not_resolve_for_a_public_profile() {
        let name = || "localhost".parse::<Name>().unwrap();
        let resolver = |reach| CheckedResolver::new(reach, system_lookup);
        assert!(resolver(Reach::Public).resolve(name()).await.is_err());
        assert!(resolver(Reach::Sandbox).resolve(name()).await.unwrap().next().is_some());
    }

    /// Until the test has seen what does not wait for it.
    static HANGS: AtomicBool = AtomicBool::new(true);

    fn hangs_but_for_quick(name: &str) -> io::Result<Vec<SocketAddr>> {
        while name != "quick.example" && HANGS.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Ok(vec!["1.1.1.1:0".parse().unwrap()])
    }

    /// If lookups of one name hang, further calls to it fail at once, and other names do not wait.
    #[tokio::test]
    async fn a_name_that_hangs_does_not_block_another() {
        let resolver = CheckedResolver::new(Reach::Public, hangs_but_for_quick);
        let name = |name: &str| name.parse::<Name>().unwrap();
        let mut slow: Vec<_> = (0..50).map(|_| resolver.resolve(name("slow.example"))).collect();
        for further in slow.split_off(LOOKUPS_PER_NAME) {
            assert!(further.await.err().unwrap().to_string().contains("do not return"));
        }
        let slow: Vec<_> = slow.into_iter().map(tokio::spawn).collect();
        assert!(resolver.resolve(name("quick.example")).await.is_ok());
        assert!(slow.iter().all(|one| !one.is_finished()), "they still hang");
        HANGS.store(false, Ordering::SeqCst);
        for one in slow {
            assert!(one.await.unwrap().is_ok());
        }
        assert!(resolver.in_flight.lock().unwrap().is_empty());
    }
}
