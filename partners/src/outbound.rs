//! Owns where a call may go: never to this machine, a private network or a cloud's metadata, unless the profile
//! is a sandbox's. Names are resolved, checked, and connected to as checked; IP literals, which no resolver
//! sees, are judged in the URL. Pure but for the resolver itself.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
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
    #[error("it is not https")]
    NotHttps,
    /// This machine, a private network, a cloud's metadata.
    #[error("its host is this machine or a private network")]
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

/// Resolves names by the system and lets pass what `reach` allows: a name with one private address is refused
/// whole, so that nobody can make it flip between the check and the connection.
pub(crate) struct CheckedResolver(pub(crate) Reach);

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let addresses: Vec<SocketAddr> = found.collect();
            if reach == Reach::Public && addresses.iter().any(|address| !is_public(address.ip())) {
                let problem = format!("{} has a private address", name.as_str());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem).into());
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
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
        assert!(CheckedResolver(Reach::Public).resolve(name()).await.is_err());
        assert!(CheckedResolver(Reach::Sandbox).resolve(name()).await.unwrap().next().is_some());
    }
}
