//! Owns the explanation of one request under a partner's own scheme: what each place held, the text each key would sign,
//! what was received beside what was expected, and which change would have made it match. It knows test keys and real
//! ones alike, so it shows texts and signatures, never a secret.

use std::sync::Arc;

use payfold_schemas::time::Time;

mod expected;
mod hints;
mod verdict;

use self::verdict::{no_account, unsigned, verdict};
use super::candidates::{candidates, named};
use super::claims::{are_too_many, claimed, read_claims};
use super::crypt::{Output, Ready};
use super::document::Kind;
use super::keys::SchemeKey;
use super::reading::{Context, Of, Reading, Unusable};
use super::request::Request;
use super::template::{Piece, Source, Template, Token};
use super::{Scheme, SignRule, lint};
use crate::directory::{Account, Directory, Route};
use crate::profile::Profile;
use crate::verify::{RejectCode, Rejection};

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

/// How many items of an array are explained.
const ITEMS_MAX: usize = 8;

impl Directory {
    /// Explains a request to a partner with a scheme of its own, as it would be judged at `now`. `None` if the partner
    /// is not known or has the contract's scheme.
    pub fn explain(&self, partner: &str, request: &Request<'_>, now: Time) -> Option<Explanation> {
        let profile = self.profile(partner)?;
        let scheme = profile.scheme()?;
        let mut explanation = Explanation::default();
        let mut why = "no account of this partner is enabled".to_owned();
        let mut is_for_one = false;
        let (accounts, stranger) = explained(self.route_of(partner), (profile, scheme), request);
        for account in accounts {
            let name = format!("{}/{}", account.partner(), account.merchant_code());
            let of = account.of();
            let mut reading = match opened(profile, scheme, request, &of) {
                Ok(reading) => reading,
                Err(problem) => {
                    if !is_for_one {
                        why = problem;
                    }
                    continue;
                }
            };
            let items = reading.items().unwrap_or(1).min(ITEMS_MAX);
            for item in 0..items {
                if scheme.items.is_some() {
                    reading.go_to(item);
                }
                let context = Context::bare(&reading, &of);
                if explanation.places.is_empty() {
                    explanation.places = places(scheme, context);
                }
                let numbered = |text: &str| match &scheme.items {
                    Some(_) => format!("{text} (item {item})"),
                    None => text.to_owned(),
                };
                let before = explanation.attempts.len();
                let keys = &account.scheme_keys().keys;
                for (at, sign) in scheme.signs.iter().enumerate() {
                    for key in keys {
                        let Some(ready) = &key.ready[at] else { continue };
                        let named = numbered(&name);
                        let attempt = attempt((&named, now), sign, (key, ready), context);
                        explanation.attempts.push(attempt);
                    }
                }
                // Of an account it names is told more than of those it does not.
                let not_for = not_for(scheme, context, keys);
                if not_for.is_none() || !is_for_one {
                    is_for_one |= not_for.is_none();
                    let reason = unsigned(&explanation.attempts[before..], not_for);
                    why = numbered(&reason);
                }
            }
        }
        let why = stranger.map_or(why, |merchant| no_account(partner, &merchant));
        explanation.verdict = verdict(self, profile, (partner, request, now), &why);
        Some(explanation)
    }
}

/// The accounts that a request or its items name; where they name none that exists, those tried without a name, and
/// the name.
fn explained<'d>(
    route: &'d Route,
    (profile, scheme): (&Profile, &Scheme),
    request: &Request<'_>,
) -> (Vec<&'d Arc<Account>>, Option<String>) {
    let mut accounts: Vec<&Arc<Account>> = Vec::new();
    let mut stranger = None;
    let plain = Reading::new(scheme, request, profile.limits()).ok();
    if let Some(mut plain) = plain.filter(|_| scheme.open.names_account) {
        // What can't be unwrapped names nobody.
        let _ = plain.unwrap_open();
        for item in 0..plain.items().unwrap_or(1).min(ITEMS_MAX) {
            if scheme.items.is_some() {
                plain.go_to(item);
            }
            let of_item = candidates(route, &plain);
            if of_item.is_empty() {
                stranger = stranger.or(named(&plain));
            }
            for account in of_item {
                if !accounts.iter().any(|known| Arc::ptr_eq(known, account)) {
                    accounts.push(account);
                }
            }
        }
    }
    if accounts.is_empty() {
        return (route.unnamed().iter().collect(), stranger);
    }
    (accounts, None)
}

/// A reading with its documents. Errors: what can't be parsed or opened.
fn opened<'r>(
    profile: &Profile,
    scheme: &'r Scheme,
    request: &'r Request<'r>,
    of: &Of<'_>,
) -> Result<Reading<'r>, String> {
    let told = |rejection: Rejection| {
        let place = rejection.detail().unwrap_or_default();
        format!("{rejection} {place}").trim().to_owned()
    };
    let mut reading = Reading::new(scheme, request, profile.limits()).map_err(told)?;
    let is_sealed = scheme.documents.iter().any(|document| document.decrypt.is_some());
    reading.unwrap(of).map_err(|rejection| match rejection.code() {
        RejectCode::Unauthenticated if is_sealed && of.opening.is_empty() => {
            "the account has no key of channel unwrap, which opens what is encrypted".to_owned()
        }
        RejectCode::Unauthenticated => {
            "no key of channel unwrap opens what is encrypted".to_owned()
        }
        _ => told(rejection),
    })?;
    Ok(reading)
}

/// Why a notice is for somebody else, or of a key the account has not; `None` if neither.
fn not_for(scheme: &Scheme, context: Context<'_>, keys: &[SchemeKey]) -> Option<String> {
    let name = context.of.merchant;
    if let Some(merchant) = &scheme.map.merchant
        && context.string(merchant).ok().as_deref() != Some(name)
    {
        return Some(format!("map.merchant is not {name}"));
    }
    for rule in &scheme.require {
        let (value, equals) = (context.string(&rule.value), context.string(&rule.equals));
        if value.is_err() || value != equals {
            return Some(format!(
                "a [[require]] does not hold, so it counts as somebody else's: {} is {}, and {} is {}",
                rule.value,
                quoted(value),
                rule.equals,
                quoted(equals),
            ));
        }
    }
    let wanted = context.string(scheme.key.id.as_ref()?).unwrap_or_default();
    let is_known = keys.iter().any(|key| key.name() == wanted);
    (!is_known).then(|| format!("the notice names key {wanted}, which the account has not"))
}

fn quoted(value: Result<String, Unusable>) -> String {
    value.map_or_else(|unusable| format!("not readable ({unusable})"), |text| format!("{text:?}"))
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
    if !attempt.matches && !are_too_many(&attempt.received) {
        attempt.would_match = variants(sign, ready, context, &attempt.received);
    }
    attempt
}

pub(crate) fn is_match(sign: &SignRule, ready: &Ready, text: &[u8], received: &[String]) -> bool {
    ready.verifies_any(sign.algorithm, text, &read_claims(sign, received))
}

/// The usual mistakes, each tried; those that match.
pub(crate) fn variants(
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
    for (text, name) in other_ends(&text) {
        if is_match(sign, ready, &text, received) {
            found.push(name.to_owned());
        }
    }
    found.extend(hints::of_places(sign, ready, context));
    found.extend(hints::of_keys(sign, ready, context, received));
    found.extend(hints::of_lists(sign, ready, context, received));
    found
}

/// The same text with another end, or in one letter case.
fn other_ends(text: &[u8]) -> Vec<(Vec<u8>, &'static str)> {
    let lowered = String::from_utf8_lossy(text).to_lowercase().into_bytes();
    let mut others = vec![
        (text.trim_ascii().to_vec(), "the text without white space at its ends"),
        (lowered, "the whole text in lower case"),
        ([text, b"\n"].concat(), "the text with a line feed at its end"),
    ];
    others.retain(|(other, _)| other != text);
    others
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
