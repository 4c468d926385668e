//! Owns the check whether a page allows a frame on the platform's pages (contract 4.4.1), by
//! `X-Frame-Options` and `frame-ancestors` (CSP level 3), as a browser evaluates them for another
//! origin. Pure.

use url::Url;

/// Finds the first value of `X-Frame-Options` that forbids a frame on another origin.
pub(super) fn find_blocking_options(values: &[String]) -> Option<&str> {
    let options = values.iter().flat_map(|value| value.split(',')).map(str::trim);
    options.into_iter().find(|option| {
        option.eq_ignore_ascii_case("deny") || option.eq_ignore_ascii_case("sameorigin")
    })
}

/// Finds the first `frame-ancestors` directive that forbids a frame on this platform. Every policy
/// must allow the frame.
pub(super) fn find_blocking_ancestors<'p>(
    policies: &'p [String],
    platform: &Url,
) -> Option<&'p str> {
    // One header may hold several policies, separated by commas. If a policy repeats a directive,
    // the first one counts.
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
        !sources.any(|source| source_matches(source, platform))
    })
}

/// Whether a source expression matches the platform. `'none'` and `'self'` never match, because the
/// platform is another origin.
fn source_matches(source: &str, platform: &Url) -> bool {
    if source == "*" {
        return ["http", "https"].contains(&platform.scheme());
    }
    if source.starts_with('\'') {
        return false;
    }
    let (scheme, rest) = match source.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => match source.strip_suffix(':') {
            Some(scheme) => return scheme_matches(Some(scheme), platform),
            None => (None, source),
        },
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    scheme_matches(scheme, platform) && host_matches(host, platform) && port_matches(port, platform)
}

/// The scheme http also matches https. A source without a scheme matches both.
fn scheme_matches(scheme: Option<&str>, platform: &Url) -> bool {
    scheme.is_none_or(|scheme| {
        let scheme = scheme.to_ascii_lowercase();
        scheme == platform.scheme() || (scheme == "http" && platform.scheme() == "https")
    })
}

fn host_matches(host: &str, platform: &Url) -> bool {
    let host = host.to_ascii_lowercase();
    let platform = platform.host_str().unwrap_or_default();
    match host.strip_prefix('*') {
        Some(domain) => platform.ends_with(domain) && platform.len() > domain.len(),
        None => host == platform,
    }
}

/// A source without a port matches the default port of the scheme only.
fn port_matches(port: Option<&str>, platform: &Url) -> bool {
    match port {
        Some("*") => true,
        Some(port) => port.parse().ok() == platform.port_or_known_default(),
        None => platform.port().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One case per line: a platform, a policy, and whether the policy allows the frame.
    const POLICIES: &str = "
        https://shop.example      default-src 'none'                              allowed
        https://shop.example      frame-ancestors *                               allowed
        https://shop.example      frame-ancestors 'none'                          blocked
        https://shop.example      frame-ancestors 'self'                          blocked
        https://shop.example      frame-ancestors                                 blocked
        https://shop.example      Frame-Ancestors https://shop.example            allowed
        https://shop.example      frame-ancestors https://shop.example/           allowed
        https://shop.example      frame-ancestors shop.example other.example      allowed
        https://shop.example      frame-ancestors http://shop.example             allowed
        http://shop.example       frame-ancestors https://shop.example            blocked
        https://a.shop.example    frame-ancestors *.shop.example                  allowed
        https://shop.example      frame-ancestors *.shop.example                  blocked
        https://myshop.example    frame-ancestors *.shop.example                  blocked
        https://shop.example:444  frame-ancestors shop.example                    blocked
        https://shop.example:444  frame-ancestors shop.example:444                allowed
        https://shop.example:444  frame-ancestors shop.example:*                  allowed
        https://shop.example      frame-ancestors https:                          allowed
        http://shop.example       frame-ancestors https:                          blocked
        https://shop.example      base-uri 'none'; frame-ancestors 'none'         blocked
        https://shop.example      frame-ancestors *; frame-ancestors 'none'       allowed
        https://shop.example      frame-ancestors *, frame-ancestors 'none'       blocked
    ";

    #[test]
    fn every_policy_must_allow_the_frame() {
        for case in POLICIES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (platform, rest) = case.split_once(' ').unwrap();
            let (policy, expected) = rest.trim().rsplit_once(' ').unwrap();
            let (policies, platform) = ([policy.trim().to_owned()], Url::parse(platform).unwrap());
            let is_blocked = find_blocking_ancestors(&policies, &platform).is_some();
            assert_eq!(is_blocked, expected == "blocked", "{case}");
        }
    }

    #[test]
    fn frame_options_block_other_origins() {
        for (value, blocks) in [
            ("DENY", true),
            ("deny", true),
            ("SAMEORIGIN", true),
            ("SAMEORIGIN, DENY", true),
            ("ALLOW-FROM https://shop.example", false),
            ("ALLOWALL", false),
            ("", false),
        ] {
            assert_eq!(find_blocking_options(&[value.to_owned()]).is_some(), blocks, "{value}");
        }
        assert_eq!(find_blocking_options(&[]), None);
    }
}
