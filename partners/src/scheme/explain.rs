//! Owns the explanation of one request under a partner's own scheme: what each place held, the text each key would sign,
//! what was received beside what was expected, and which change would have made it match. It knows test keys and real
//! ones alike, so it shows texts and signatures, never a secret.

use payfold_schemas::time::Time;

use super::crypt::{Output, Ready};
use super::document::Kind;
use super::map::{Said, Unsigned, said};
use super::reading::{Context, Reading};
use super::request::Request;
use super::template::{Piece, Source, Template, Token};
use super::verify::{SchemeKey, claimed};
use super::{Scheme, SignRule, lint};
use crate::directory::Directory;
use crate::profile::Profile;

/// One place of the scheme and what stood there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// As the profile writes it.
    pub token: String,
    /// `absent`, or what it was: text, string, number, bool, null, object or array.
    pub kind: &'static str,
    /// What stood there.
    pub value: String,
}

/// One sign block tried with one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Partner and merchantCode.
    pub account: String,
    /// The sign block.
    pub sign: String,
    /// The key, and whether it counted then.
    pub key: String,
    /// The text, the secret in it masked.
    pub text: String,
    /// The signature of that text; absent where only the partner can make it.
    pub expected: Option<String>,
    /// What was sent.
    pub received: Vec<String>,
    /// Whether they are the same.
    pub matches: bool,
    /// What would have made it match.
    pub would_match: Vec<String>,
}

/// Why a request got what it got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The first thing that kept it out, or that it is taken.
    pub verdict: String,
    /// What stood where the scheme looks.
    pub places: Vec<Place>,
    /// Every key tried.
    pub attempts: Vec<Attempt>,
}

/// Base address, path and query of a URL or a target.
pub(crate) fn base_of(url: &str) -> (&str, &str, &str) {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let path_at = if authority == 0 {
        0
    } else {
        url[authority..].find('/').map_or(url.len(), |at| authority + at)
    };
    let (base, target) = url.split_at(path_at);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (base, path, query)
}

impl Directory {
    /// Explains a request to a partner with a scheme of its own, as it would be judged at `now`. `None` if the partner
    /// is not known or has the contract's scheme.
    pub fn explain(&self, partner: &str, request: &Request<'_>, now: Time) -> Option<Explanation> {
        let profile = self.profile(partner)?;
        let scheme = profile.scheme()?;
        let mut explanation = Explanation::default();
        let accounts = self.of_partner(partner);
        if accounts.is_empty() {
            explanation.verdict = "no account of this partner is enabled".to_owned();
        }
        for account in accounts {
            let name = format!("{}/{}", account.partner(), account.merchant_code());
            let of = account.of();
            let read = Reading::new(scheme, request, profile.limits())
                .and_then(|mut reading| reading.unwrap(&of).map(|()| reading));
            let mut reading = match read {
                Ok(reading) => reading,
                Err(rejection) => {
                    let place = rejection.detail().unwrap_or_default();
                    explanation.verdict =
                        format!("{rejection} {place}: it can't be parsed").replace(" :", ":");
                    continue;
                }
            };
            if scheme.items.is_some() {
                reading.go_to(0);
            }
            let context = Context { reading: &reading, of: &of, secret: None };
            if explanation.places.is_empty() {
                explanation.places = places(scheme, context);
            }
            let verdict = account_verdict(profile, scheme, context);
            for key in &account.scheme_keys().keys {
                for (at, sign) in scheme.signs.iter().enumerate() {
                    let Some(ready) = &key.ready[at] else { continue };
                    let attempt = attempt((&name, now), sign, (key, ready), context);
                    explanation.attempts.push(attempt);
                }
            }
            let is_taken = self.verify_scheme(partner, request, now).is_ok();
            if is_taken || explanation.verdict.is_empty() {
                explanation.verdict =
                    if is_taken { verdict } else { unsigned(&explanation, &verdict) };
            }
        }
        Some(explanation)
    }
}

/// What it says if it is signed, or why it would not be taken then.
fn account_verdict(profile: &Profile, scheme: &Scheme, context: Context<'_>) -> String {
    let name = context.of.merchant;
    if let Some(merchant) = &scheme.map.merchant
        && context.string(merchant).ok().as_deref() != Some(name)
    {
        return format!("map.merchant is not {name}");
    }
    for rule in &scheme.require {
        let (value, equals) = (context.string(&rule.value), context.string(&rule.equals));
        if value.is_err() || value != equals {
            return "a [[require]] does not hold: the notice is for somebody else".to_owned();
        }
    }
    match said(profile, context, Unsigned::No) {
        Ok(Said::Ignored) => "signed: acknowledged and left alone".to_owned(),
        Ok(Said::Event(mapped)) => format!(
            "signed: {} of order {}, ref {}, {} {}{}",
            mapped.status,
            mapped.order_id,
            mapped.provider_ref,
            mapped.money.amount.minor(),
            mapped.money.currency.code(),
            if mapped.policy.unconfirmed { ", to be confirmed by a query" } else { "" },
        ),
        Err(fault) => format!("signed, but not admissible: {fault}"),
    }
}

fn unsigned(explanation: &Explanation, verdict: &str) -> String {
    if !verdict.starts_with("signed") {
        return format!("unauthenticated: {verdict}");
    }
    match explanation.attempts.iter().find(|attempt| attempt.matches) {
        Some(attempt) => format!("unauthenticated: key {} does not count now", attempt.key),
        None if explanation.attempts.is_empty() => {
            "unauthenticated: the account has no key".to_owned()
        }
        None => "unauthenticated: no key of the account has made this signature".to_owned(),
    }
}

/// What stands where the scheme looks.
fn places(scheme: &Scheme, context: Context<'_>) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for token in lint::every_token(scheme) {
        if !matches!(token.source, Source::Header(_) | Source::Field(..))
            || places.iter().any(|place| place.token == token.written)
        {
            continue;
        }
        let (kind, value) = match context.found(token) {
            Err(unusable) => ("repeated", unusable.to_string()),
            Ok(None) => ("absent", String::new()),
            Ok(Some(value)) => (kind_name(value.kind), value.text.to_owned()),
        };
        places.push(Place { token: token.written.clone(), kind, value });
    }
    places
}

const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Plain => "text",
        Kind::String => "string",
        Kind::Number => "number",
        Kind::Bool => "bool",
        Kind::Null => "null",
        Kind::Composite => "object or array",
    }
}

fn attempt(
    (account, now): (&str, Time),
    sign: &SignRule,
    (key, ready): (&SchemeKey, &Ready),
    bare: Context<'_>,
) -> Attempt {
    let context = Context { secret: ready.secret(), ..bare };
    let received = claimed(sign, context);
    let state = if now < key.valid_from {
        " (not valid yet)"
    } else if key.valid_until.is_some_and(|until| now >= until) {
        " (no longer valid)"
    } else {
        ""
    };
    let mut attempt = Attempt {
        account: account.to_owned(),
        sign: sign.name.clone(),
        key: format!("{}{state}", key.id),
        text: String::new(),
        expected: None,
        matches: false,
        would_match: Vec::new(),
        received,
    };
    let text = match context.text(&sign.text) {
        Ok(text) => text,
        Err(unusable) => {
            attempt.text = format!("can't be put together: {unusable}");
            return attempt;
        }
    };
    let masked = Context { secret: Some(b"{secret}"), ..bare };
    attempt.text = masked.string(&sign.text).unwrap_or_default();
    let is_token = !sign.algorithm.signs_the_text();
    let expected = ready.expected(sign.algorithm, &text).filter(|_| !is_token);
    attempt.expected = expected.map(|expected| sign.output.write(&expected));
    attempt.matches = is_match(sign, ready, &text, &attempt.received);
    if !attempt.matches {
        attempt.would_match = variants(sign, ready, context, &attempt.received);
    }
    attempt
}

fn is_match(sign: &SignRule, ready: &Ready, text: &[u8], received: &[String]) -> bool {
    received.iter().any(|claimed| {
        let claimed = sign.output.read(claimed);
        claimed.is_some_and(|claimed| ready.verifies(sign.algorithm, text, &claimed))
    })
}

/// The usual mistakes, each tried.
fn variants(
    sign: &SignRule,
    ready: &Ready,
    context: Context<'_>,
    received: &[String],
) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(text) = context.text(&sign.text) else { return found };
    for (output, name) in [
        (Output::HexLower, "hex-lower"),
        (Output::HexUpper, "hex-upper"),
        (Output::Base64, "base64"),
        (Output::Base64url, "base64url"),
    ] {
        let written = SignRule { output, ..sign.clone() };
        if output != sign.output && is_match(&written, ready, &text, received) {
            found.push(format!("output = \"{name}\""));
        }
    }
    for (template, name) in other_texts(&sign.text) {
        let text = context.text(&template);
        if text.is_ok_and(|text| is_match(sign, ready, &text, received)) {
            found.push(name);
        }
    }
    let trimmed = text.trim_ascii();
    if trimmed != text && is_match(sign, ready, trimmed, received) {
        found.push("the text without white space at its ends".to_owned());
    }
    let lowered = String::from_utf8_lossy(&text).to_lowercase();
    if is_match(sign, ready, lowered.as_bytes(), received) {
        found.push("the whole text in lower case".to_owned());
    }
    let with_newline = [&text[..], b"\n"].concat();
    if is_match(sign, ready, &with_newline, received) {
        found.push("the text with a line feed at its end".to_owned());
    }
    found
}

/// The same text with its tokens in another order: the usual mix-ups.
fn other_texts(text: &Template) -> Vec<(Template, String)> {
    let places: Vec<usize> = text
        .pieces
        .iter()
        .enumerate()
        .filter(|(_, piece)| matches!(piece, Piece::Token(_)))
        .map(|(at, _)| at)
        .collect();
    let token = |at: usize| -> Option<&Token> {
        match &text.pieces[at] {
            Piece::Token(token) => Some(token),
            Piece::Literal(_) | Piece::Optional(_) => None,
        }
    };
    let mut others = Vec::new();
    for (nth, a) in places.iter().enumerate() {
        for b in &places[nth + 1..] {
            let mut pieces = text.pieces.clone();
            pieces.swap(*a, *b);
            if let (Some(a), Some(b)) = (token(*a), token(*b)) {
                let name = format!("{} and {} the other way round", a.written, b.written);
                others.push((Template { pieces }, name));
            }
        }
    }
    let mut raw = text.clone();
    for piece in &mut raw.pieces {
        if let Piece::Token(token) = piece
            && !token.filters.contains(&super::filter::Filter::Raw)
        {
            token.filters.insert(0, super::filter::Filter::Raw);
        }
    }
    others.push((raw, "values exactly as received (|raw)".to_owned()));
    others
}
