//! Owns the addresses that payers are sent to. They come from configuration, and each is checked
//! once. Invariant: a target has the scheme https, http on this machine, or the URL scheme of an
//! app; never a scheme that a browser executes or reads files with. Only the parameters `verified`
//! and, for a verified return, `orderId` are added.

use std::collections::BTreeMap;

use payfold_schemas::ids::OrderId;
use url::{Host, Url};

/// The longest accepted address. Longer ones break browsers and WebViews.
const URL_BYTES_MAX: usize = 2_048;
const NAME_BYTES_MAX: usize = 64;

/// Schemes that no shop's app has: browsers execute, read or display them, or hand them to other
/// programs.
const FOREIGN_SCHEMES: [&str; 19] = [
    "about",
    "blob",
    "chrome",
    "content",
    "data",
    "file",
    "filesystem",
    "ftp",
    "intent",
    "jar",
    "javascript",
    "mailto",
    "resource",
    "sms",
    "tel",
    "vbscript",
    "view-source",
    "ws",
    "wss",
];

/// One checked address in the shop or its app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnTarget(Url);

/// All configured addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReturnTargets {
    /// The target of a return that names no other one.
    pub default: Option<ReturnTarget>,
    /// Targets by name, as in `/api/payment/result/{name}`.
    pub named: BTreeMap<String, ReturnTarget>,
}

/// Why a configured address can't be a target. The text says how to correct it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetProblem {
    /// Not an absolute address.
    #[error(
        "it is not an absolute address; write one like https://shop.example/paid or \
         myapp://payment-result"
    )]
    NotAnAddress,
    /// Plain http not_found.
    #[error("http is accepted for this machine only (localhost, 127.0.0.1, [::1]); write https://")]
    NotHttps,
    /// A scheme that browsers handle themselves.
    #[error(
        "browsers do not pass this scheme to a shop or an app; write https:// or the scheme of \
         your app"
    )]
    ForeignScheme,
    /// `user:password@`.
    #[error(
        "it has a user name or password, which every payer would see; remove the part before the @"
    )]
    UserInfo,
    /// The query has a parameter that the return adds.
    #[error("its query has the parameter verified or orderId, which the return adds; remove it")]
    OwnParameter,
    /// Longer than `URL_BYTES_MAX`.
    #[error("it is longer than 2,048 bytes; write a shorter one")]
    TooLong,
    /// A name that can't stand in a path.
    #[error("the name must be 1 to 64 letters, digits, - and _; it becomes part of returnUrl")]
    BadName,
}

impl ReturnTarget {
    /// Checks an address. Errors: `TargetProblem`.
    pub fn parse(text: &str) -> Result<Self, TargetProblem> {
        if text.len() > URL_BYTES_MAX {
            return Err(TargetProblem::TooLong);
        }
        // The `url` crate would drop or repair these. They are typing errors, so they are refused.
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err(TargetProblem::NotAnAddress);
        }
        let url = Url::parse(text).map_err(|_| TargetProblem::NotAnAddress)?;
        let host = url.host().filter(|host| !matches!(host, Host::Domain("")));
        let is_web = match url.scheme() {
            "https" => true,
            "http" if is_this_machine(&url) => true,
            "http" => return Err(TargetProblem::NotHttps),
            foreign if FOREIGN_SCHEMES.contains(&foreign) => {
                return Err(TargetProblem::ForeignScheme);
            }
            _ => false,
        };
        // The `url` crate reads `https:shop` as `https://shop`, and `myapp:paid` has no host.
        let after_scheme = text.get(url.scheme().len()..).unwrap_or_default();
        if !after_scheme.starts_with("://") || (is_web && after_scheme.starts_with(":///")) {
            return Err(TargetProblem::NotAnAddress);
        }
        let authority = after_scheme.split(['/', '?', '#']).nth(2).unwrap_or_default();
        if authority.contains('@') {
            return Err(TargetProblem::UserInfo);
        }
        if host.is_none() {
            return Err(TargetProblem::NotAnAddress);
        }
        if url.query_pairs().any(|(name, _)| name == "verified" || name == "orderId") {
            return Err(TargetProblem::OwnParameter);
        }
        Ok(Self(url))
    }

    /// The address to send a payer to; `order` is the order of a verified return.
    pub(super) fn location(&self, order: Option<&OrderId>) -> String {
        let mut url = self.0.clone();
        match order {
            Some(order) => url
                .query_pairs_mut()
                .append_pair("verified", "true")
                .append_pair("orderId", order.as_str()),
            None => url.query_pairs_mut().append_pair("verified", "false"),
        };
        url.into()
    }
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl ReturnTargets {
    /// Checks all addresses. An empty default is no default. Errors: the name of the first wrong
    /// address (empty for the default) and its problem.
    pub fn parse<'t>(
        default: &str,
        named: impl IntoIterator<Item = (&'t String, &'t String)>,
    ) -> Result<Self, (String, TargetProblem)> {
        let default = Some(default).filter(|text| !text.is_empty()).map(ReturnTarget::parse);
        let default = default.transpose().map_err(|problem| (String::new(), problem))?;
        let mut targets = Self { default, named: BTreeMap::new() };
        for (name, text) in named {
            let target =
                if is_name(name) { ReturnTarget::parse(text) } else { Err(TargetProblem::BadName) };
            let target = target.map_err(|problem| (name.clone(), problem))?;
            targets.named.insert(name.clone(), target);
        }
        Ok(targets)
    }

    /// The target of this name, else the default.
    pub(super) fn named_or_default(&self, name: Option<&str>) -> Option<&ReturnTarget> {
        name.and_then(|name| self.named.get(name)).or(self.default.as_ref())
    }
}

/// Whether a name can stand in a path without encoding.
fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_added_to_the_address() {
        let order = OrderId::parse("ord:1.a_b-c").unwrap();
        for (target, verified) in [
            ("https://shop.example", "https://shop.example/?verified=true&orderId=ord%3A1.a_b-c"),
            (
                "https://shop.example/paid?lang=vi",
                "https://shop.example/paid?lang=vi&verified=true&orderId=ord%3A1.a_b-c",
            ),
            ("https://shop.example/?", "https://shop.example/?verified=true&orderId=ord%3A1.a_b-c"),
            (
                "https://shop.example/#/paid",
                "https://shop.example/?verified=true&orderId=ord%3A1.a_b-c#/paid",
            ),
            (
                "http://localhost:3000/x",
                "http://localhost:3000/x?verified=true&orderId=ord%3A1.a_b-c",
            ),
            ("http://[::1]/", "http://[::1]/?verified=true&orderId=ord%3A1.a_b-c"),
            ("http://127.0.0.1/", "http://127.0.0.1/?verified=true&orderId=ord%3A1.a_b-c"),
            (
                "myapp://payment-result",
                "myapp://payment-result?verified=true&orderId=ord%3A1.a_b-c",
            ),
            (
                "com.shop.app://paid/now?x=1",
                "com.shop.app://paid/now?x=1&verified=true&orderId=ord%3A1.a_b-c",
            ),
        ] {
            let parsed = ReturnTarget::parse(target).unwrap_or_else(|e| panic!("{target}: {e}"));
            assert_eq!(parsed.location(Some(&order)), verified);
            let unverified = verified.replace("true&orderId=ord%3A1.a_b-c", "false");
            assert_eq!(parsed.location(None), unverified);
        }
    }

    #[test]
    fn unsafe_addresses_are_refused() {
        use TargetProblem as P;
        let long = format!("https://shop.example/{}", "a".repeat(URL_BYTES_MAX));
        for (target, problem) in [
            ("", P::NotAnAddress),
            ("/paid", P::NotAnAddress),
            ("//evil.example", P::NotAnAddress),
            ("shop.example/paid", P::NotAnAddress),
            ("https:shop.example", P::NotAnAddress),
            ("https:/shop.example", P::NotAnAddress),
            ("https:///shop.example", P::NotAnAddress),
            ("https://", P::NotAnAddress),
            (" https://shop.example", P::NotAnAddress),
            ("https://shop.example/a b", P::NotAnAddress),
            ("https://shop.example/\r\nSet-Cookie:a", P::NotAnAddress),
            ("https:\\\\shop.example", P::NotAnAddress),
            ("java\tscript:alert(1)", P::NotAnAddress),
            ("myapp:payment-result", P::NotAnAddress),
            ("myapp://", P::NotAnAddress),
            ("http://shop.example", P::NotHttps),
            ("http://127.0.0.1.evil.example", P::NotHttps),
            ("http://localhost.evil.example", P::NotHttps),
            ("http://10.0.0.1", P::NotHttps),
            ("javascript:alert(1)", P::ForeignScheme),
            ("JavaScript://shop.example/%0aalert(1)", P::ForeignScheme),
            ("data:text/html,x", P::ForeignScheme),
            ("file:///etc/passwd", P::ForeignScheme),
            ("vbscript:x", P::ForeignScheme),
            ("intent://x#Intent;end", P::ForeignScheme),
            ("blob:https://shop.example/1", P::ForeignScheme),
            ("wss://shop.example", P::ForeignScheme),
            ("https://user@shop.example", P::UserInfo),
            ("https://user:pw@shop.example", P::UserInfo),
            ("https://:pw@shop.example", P::UserInfo),
            ("https://@shop.example", P::UserInfo),
            ("myapp://user@payment-result", P::UserInfo),
            ("https://shop.example/?verified=true", P::OwnParameter),
            ("https://shop.example/?a=1&order%49d=2", P::OwnParameter),
            (&long, P::TooLong),
        ] {
            assert_eq!(ReturnTarget::parse(target), Err(problem), "{target:?}");
        }
    }

    #[test]
    fn a_known_name_selects_its_target_and_others_the_default() {
        let named = |name: &str, url: &str| BTreeMap::from([(name.to_owned(), url.to_owned())]);
        let app = named("app", "myapp://payment-result");
        let targets = ReturnTargets::parse("https://shop.example", &app).unwrap();
        let chosen = |name| targets.named_or_default(name).unwrap().location(None);
        assert_eq!(chosen(Some("app")), "myapp://payment-result?verified=false");
        for name in [None, Some("other"), Some("//evil"), Some("APP"), Some("")] {
            assert_eq!(chosen(name), "https://shop.example/?verified=false");
        }
        assert_eq!(ReturnTargets::parse("", &BTreeMap::new()), Ok(ReturnTargets::default()));
        for (default, named, problem) in [
            ("ftp://x", BTreeMap::new(), ("", TargetProblem::ForeignScheme)),
            ("", named("app", "http://x"), ("app", TargetProblem::NotHttps)),
            ("", named("a/b", "https://x"), ("a/b", TargetProblem::BadName)),
            ("", named("..", "https://x"), ("..", TargetProblem::BadName)),
            ("", named("", "https://x"), ("", TargetProblem::BadName)),
        ] {
            let (name, problem) = problem;
            assert_eq!(ReturnTargets::parse(default, &named), Err((name.to_owned(), problem)));
        }
    }
}
