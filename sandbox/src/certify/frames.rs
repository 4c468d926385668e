//! Owns the question whether a page may stand in a frame of the platform's (contract 4.4.1): `X-Frame-Options` and
//! `frame-ancestors` (CSP level 3), as a browser on another origin reads them. Pure.

use url::Url;

/// The first value of `X-Frame-Options` that stops a frame of another origin.
pub(super) fn stopped_by_options(values: &[String]) -> Option<&str> {
    let words = values.iter().flat_map(|value| value.split(',')).map(str::trim);
    words
        .into_iter()
        .find(|word| word.eq_ignore_ascii_case("deny") || word.eq_ignore_ascii_case("sameorigin"))
}

/// The first `frame-ancestors` that stops a frame of this platform. Every policy has to let it pass.
pub(super) fn stopped_by_ancestors<'p>(policies: &'p [String], platform: &Url) -> Option<&'p str> {
    // One header may carry several policies, one policy several directives: of a name the first counts.
    let policies = policies.iter().flat_map(|header| header.split(','));
    let ancestors = policies.filter_map(|policy| {
        let mut directives = policy.split(';').map(str::trim);
        directives.find(|directive| {
            let name = directive.split_ascii_whitespace().next().unwrap_or_default();
            name.eq_ignore_ascii_case("frame-ancestors")
        })
    });
    ancestors.into_iter().find(|directive| {
        let mut sources = directive.split_ascii_whitespace().skip(1);
        !sources.any(|source| lets_pass(source, platform))
    })
}

/// `'none'` and `'self'` are no other origin.
fn lets_pass(source: &str, platform: &Url) -> bool {
    if source == "*" {
        return ["http", "https"].contains(&platform.scheme());
    }
    if source.starts_with('\'') {
        return false;
    }
    let (scheme, rest) = match source.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => match source.strip_suffix(':') {
            Some(scheme) => return scheme_passes(Some(scheme), platform),
            None => (None, source),
        },
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    scheme_passes(scheme, platform) && host_passes(host, platform) && port_passes(port, platform)
}

/// http lets https pass, too; without a scheme either does.
fn scheme_passes(scheme: Option<&str>, platform: &Url) -> bool {
    scheme.is_none_or(|scheme| {
        let scheme = scheme.to_ascii_lowercase();
        scheme == platform.scheme() || (scheme == "http" && platform.scheme() == "https")
    })
}

fn host_passes(host: &str, platform: &Url) -> bool {
    let host = host.to_ascii_lowercase();
    let platform = platform.host_str().unwrap_or_default();
    match host.strip_prefix('*') {
        Some(domain) => platform.ends_with(domain) && platform.len() > domain.len(),
        None => host == platform,
    }
}

/// Without a port it is the scheme's own.
fn port_passes(port: Option<&str>, platform: &Url) -> bool {
    match port {
        Some("*") => true,
        Some(port) => port.parse().ok() == platform.port_or_known_default(),
        None => platform.port().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A platform, a policy, and whether its frame stands.
    const POLICIES: &str = "
        https://shop.example      default-src 'none'                              stands
        https://shop.example      frame-ancestors *                               stands
        https://shop.example      frame-ancestors 'none'                          stopped
        https://shop.example      frame-ancestors 'self'                          stopped
        https://shop.example      frame-ancestors                                 stopped
        https://shop.example      Frame-Ancestors https://shop.example            stands
        https://shop.example      frame-ancestors https://shop.example/           stands
        https://shop.example      frame-ancestors shop.example other.example      stands
        https://shop.example      frame-ancestors http://shop.example             stands
        http://shop.example       frame-ancestors https://shop.example            stopped
        https://a.shop.example    frame-ancestors *.shop.example                  stands
        https://shop.example      frame-ancestors *.shop.example                  stopped
        https://myshop.example    frame-ancestors *.shop.example                  stopped
        https://shop.example:444  frame-ancestors shop.example                    stopped
        https://shop.example:444  frame-ancestors shop.example:444                stands
        https://shop.example:444  frame-ancestors shop.example:*                  stands
        https://shop.example      frame-ancestors https:                          stands
        http://shop.example       frame-ancestors https:                          stopped
        https://shop.example      base-uri 'none'; frame-ancestors 'none'         stopped
        https://shop.example      frame-ancestors *; frame-ancestors 'none'       stands
        https://shop.example      frame-ancestors *, frame-ancestors 'none'       stopped
    ";

    #[test]
    fn a_frame_stands_where_every_policy_lets_it() {
        for case in POLICIES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (platform, rest) = case.split_once(' ').unwrap();
            let (policy, expected) = rest.trim().rsplit_once(' ').unwrap();
            let (policies, platform) = ([policy.trim().to_owned()], Url::parse(platform).unwrap());
            let stopped = stopped_by_ancestors(&policies, &platform).is_some();
            assert_eq!(stopped, expected == "stopped", "{case}");
        }
    }

    #[test]
    fn frame_options_of_another_origin_stop() {
        for (value, stops) in [
            ("DENY", true),
            ("deny", true),
            ("SAMEORIGIN", true),
            ("SAMEORIGIN, DENY", true),
            ("ALLOW-FROM https://shop.example", false),
            ("ALLOWALL", false),
            ("", false),
        ] {
            assert_eq!(stopped_by_options(&[value.to_owned()]).is_some(), stops, "{value}");
        }
        assert_eq!(stopped_by_options(&[]), None);
    }
}
