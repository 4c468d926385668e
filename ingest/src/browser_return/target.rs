//! Owns where payers are sent: addresses from configuration, each checked once.
//! Invariant: a target is https, or http on this machine, or an app's own scheme; never one that a browser runs or
//! reads files with. What is added to it is `verified`, and `orderId` of an order that was verified.

use std::collections::BTreeMap;

use payfold_schemas::ids::OrderId;
use url::{Host, Url};

/// Longer addresses break browsers and WebViews.
const URL_BYTES_MAX: usize = 2_048;
const NAME_BYTES_MAX: usize = 64;

/// Schemes no app has: browsers run, read or show them themselves, or hand them to something else.
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

/// One place in the shop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(Url);

/// Every place there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// Where a payer goes unless another one is named.
    pub default: Option<Target>,
    /// Others, as in `/api/payment/result/{name}`.
    pub named: BTreeMap<String, Target>,
}

/// Why a configured address can't be a target, and how to mend it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetProblem {
    /// No absolute address.
    #[error(
        "it is no absolute address; write one like https://shop.example/paid or myapp://payment-result"
    )]
    NotAnAddress,
    /// Plain http elsewhere.
    #[error("http is taken on this machine only (localhost, 127.0.0.1, [::1]); write https://")]
    NotHttps,
    /// A scheme that belongs to browsers.
    #[error(
        "browsers do not hand this scheme to a shop or an app; write https:// or your app's own scheme"
    )]
    ForeignScheme,
    /// `user:password@`.
    #[error(
        "it holds a user name or password, which every payer would see; leave out what stands before the @"
    )]
    UserInfo,
    /// Our own parameters are there.
    #[error("its query has verified or orderId already, which are added here; leave them out")]
    OwnParameter,
    /// Over the limit.
    #[error("it is longer than 2,048 bytes; write a shorter one")]
    TooLong,
    /// A name that no path can hold.
    #[error("the name must be 1 to 64 letters, digits, - and _; it stands in returnUrl")]
    BadName,
}

impl Target {
    /// Checks an address. Errors: `TargetProblem`.
    pub fn parse(text: &str) -> Result<Self, TargetProblem> {
        if text.len() > URL_BYTES_MAX {
            return Err(TargetProblem::TooLong);
        }
        // The library would drop or mend these; a person has mistyped.
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
        // `https:shop` and `myapp:paid` are not what they look like.
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

    /// The address a payer is sent to.
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

impl Targets {
    /// Checks all of them; an empty default is none. Errors: the first that is wrong, by its name (empty for the
    /// default).
    pub fn parse<'t>(
        default: &str,
        named: impl IntoIterator<Item = (&'t String, &'t String)>,
    ) -> Result<Self, (String, TargetProblem)> {
        let default = Some(default).filter(|text| !text.is_empty()).map(Target::parse);
        let default = default.transpose().map_err(|problem| (String::new(), problem))?;
        let mut targets = Self { default, named: BTreeMap::new() };
        for (name, text) in named {
            let target =
                if is_name(name) { Target::parse(text) } else { Err(TargetProblem::BadName) };
            let target = target.map_err(|problem| (name.clone(), problem))?;
            targets.named.insert(name.clone(), target);
        }
        Ok(targets)
    }

    /// The one of this name, else the default.
    pub(super) fn named_or_default(&self, name: Option<&str>) -> Option<&Target> {
        name.and_then(|name| self.named.get(name)).or(self.default.as_ref())
    }
}

/// What stands in a path as it is.
fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_added_properly() {
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
            let parsed = Target::parse(target).unwrap_or_else(|e| panic!("{target}: {e}"));
            assert_eq!(parsed.location(Some(&order)), verified);
            let unverified = verified.replace("true&orderId=ord%3A1.a_b-c", "false");
            assert_eq!(parsed.location(None), unverified);
        }
    }

    #[test]
    fn what_is_no_place_in_a_shop_is_refused() {
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
            assert_eq!(Target::parse(target), Err(problem), "{target:?}");
        }
    }

    #[test]
    fn a_name_chooses_and_anything_else_is_the_default() {
        let named = |name: &str, url: &str| BTreeMap::from([(name.to_owned(), url.to_owned())]);
        let app = named("app", "myapp://payment-result");
        let targets = Targets::parse("https://shop.example", &app).unwrap();
        let chosen = |name| targets.named_or_default(name).unwrap().location(None);
        assert_eq!(chosen(Some("app")), "myapp://payment-result?verified=false");
        for name in [None, Some("other"), Some("//evil"), Some("APP"), Some("")] {
            assert_eq!(chosen(name), "https://shop.example/?verified=false");
        }
        assert_eq!(Targets::parse("", &BTreeMap::new()), Ok(Targets::default()));
        for (default, named, problem) in [
            ("ftp://x", BTreeMap::new(), ("", TargetProblem::ForeignScheme)),
            ("", named("app", "http://x"), ("app", TargetProblem::NotHttps)),
            ("", named("a/b", "https://x"), ("a/b", TargetProblem::BadName)),
            ("", named("..", "https://x"), ("..", TargetProblem::BadName)),
            ("", named("", "https://x"), ("", TargetProblem::BadName)),
        ] {
            let (name, why) = problem;
            assert_eq!(Targets::parse(default, &named), Err((name.to_owned(), why)));
        }
    }
}
