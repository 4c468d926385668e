//! Owns where a call may go: never to this machine, a private network or a cloud's metadata, unless the profile
//! is a sandbox's. Names are resolved, checked, and connected to as checked; IP literals, which no resolver
//! sees, are judged in the URL. Pure but for the resolver itself.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::runtime::Runtime;
use url::{Host, Url};

use crate::profile::Profile;

/// Networks that are not the public internet (IANA special-purpose registries, RFC 6890 and later).
const SPECIAL: &str = "
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
    ::/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 3fff::/20 5f00::/16
    fc00::/7 fe80::/10 fec0::/10 ff00::/8
";

static SPECIAL_NETS: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    SPECIAL.split_whitespace().map(|net| net.parse().expect("a network")).collect()
});

/// Whether an address is one of the public internet.
pub fn is_public(address: IpAddr) -> bool {
    let address = address.to_canonical();
    !SPECIAL_NETS.iter().any(|net| net.contains(&address))
}

/// Which addresses a profile's calls and pages may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// https to the public internet.
    Public,
    /// Also http to this machine, and private networks: sandbox profiles.
    Sandbox,
}

/// Why a URL is not let pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlProblem {
    /// Not an absolute URL with a host.
    #[error("it is not an absolute http or https address")]
    NotAbsolute,
    /// `user:password@`.
    #[error("it carries a user name or password")]
    UserInfo,
    /// http, or another scheme.
    #[error(
        "it is not https; only a profile of stage sandbox may call http, and that on this machine"
    )]
    NotHttps,
    /// This machine, a private network, a cloud's metadata.
    #[error(
        "its host is this machine or a private network, which only a profile of stage sandbox may call"
    )]
    PrivateHost,
}

impl Reach {
    /// What a profile allows.
    pub fn of(profile: &Profile) -> Self {
        if profile.allows_private_addresses() { Self::Sandbox } else { Self::Public }
    }

    /// Judges a URL before anything is resolved.
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

/// `localhost` and what ends in it, with or without the dot of the root (RFC 6761).
fn is_local_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Looks a name up; blocks until it has the addresses.
pub(crate) type Lookup = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// The system's own lookup.
pub(crate) fn system_lookup(name: &str) -> io::Result<Vec<SocketAddr>> {
    Ok((name, 0).to_socket_addrs()?.collect())
}

/// Lookups of one name that may be under way: a name server that hangs holds so many threads, and further calls to
/// its names fail at once.
const LOOKUPS_PER_NAME: usize = 2;
/// Threads for lookups, of the whole process. Nothing else runs on them, so that a name server that hangs holds up
/// nothing but lookups.
const LOOKUP_THREADS: usize = 32;

static LOOKUPS: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(LOOKUP_THREADS)
        .thread_name("lookups")
        .build()
        .expect("threads for lookups can be made")
});

/// Resolves names and lets pass what `reach` allows: a name with one private address is refused whole, so that
/// nobody can make it flip between the check and the connection.
pub(crate) struct CheckedResolver {
    reach: Reach,
    lookup: Lookup,
    under_way: Arc<Mutex<HashMap<String, usize>>>,
}

/// A lookup that is under way, until it has come back; whoever asked may be gone long before.
struct UnderWay(Arc<Mutex<HashMap<String, usize>>>, String);

impl Drop for UnderWay {
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
        Self { reach, lookup, under_way: Arc::default() }
    }

    /// `None` while as many lookups of this name as may be have not come back.
    fn begin(&self, name: &str) -> Option<UnderWay> {
        let mut all = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(name.to_owned()).or_default();
        if *count >= LOOKUPS_PER_NAME {
            return None;
        }
        *count += 1;
        Some(UnderWay(Arc::clone(&self.under_way), name.to_owned()))
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (reach, lookup) = (self.reach, self.lookup);
        let name = name.as_str().to_owned();
        let begun = self.begin(&name);
        Box::pin(async move {
            let Some(begun) = begun else {
                let problem = format!("lookups of {name} do not come back");
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
        for private in "10.1.2.3 127.0.0.1 169.254.169.254 172.31.255.255 192.168.0.1 100.64.0.1 ::1 \
             fe80::1 fd00::1 ::ffff:10.0.0.1 ::ffff:127.0.0.1 64:ff9b::a00:1 2002:a00:1:: 255.255.255.255 \
             0.0.0.0 :: 224.0.0.1 fd00:ec2::254"
            .split_whitespace()
        {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700:4700::1111", "100.128.0.1"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    /// URL, what a public profile says, what a sandbox's says.
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
    fn a_url_goes_where_the_profile_may() {
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

    /// One name's server hangs: its calls fail at once when enough of them wait, and another name's do not wait.
    #[tokio::test]
    async fn a_name_that_hangs_holds_up_no_other() {
        let resolver = CheckedResolver::new(Reach::Public, hangs_but_for_quick);
        let name = |name: &str| name.parse::<Name>().unwrap();
        let mut slow: Vec<_> = (0..50).map(|_| resolver.resolve(name("slow.example"))).collect();
        for further in slow.split_off(LOOKUPS_PER_NAME) {
            assert!(further.await.err().unwrap().to_string().contains("do not come back"));
        }
        let slow: Vec<_> = slow.into_iter().map(tokio::spawn).collect();
        assert!(resolver.resolve(name("quick.example")).await.is_ok());
        assert!(slow.iter().all(|one| !one.is_finished()), "they still hang");
        HANGS.store(false, Ordering::SeqCst);
        for one in slow {
            assert!(one.await.unwrap().is_ok());
        }
        assert!(resolver.under_way.lock().unwrap().is_empty());
    }
}
