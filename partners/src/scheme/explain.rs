//! Owns the explanation of one request: what each place held, the text each key would sign, the
//! signatures received and expected, and which change of the profile would make them match. It runs
//! with test keys and real keys alike, so it shows texts and signatures, never a secret.

pub(crate) mod attempt;
mod expected;
mod hints;
mod joined;
pub(crate) mod matching;
mod verdict;

use std::sync::Arc;

use payfold_schemas::time::Time;

use self::verdict::{
    describe_disabled_account, describe_missing_account, describe_verdict, why_unsigned,
};
use super::candidates::{WithoutMerchant, candidate_accounts, named_merchant, names_this_account};
use super::crypt::ReadyKey;
use super::found_value::ValueKind;
use super::keys::SchemeKey;
use super::message::{ParsedMessage, TemplateContext};
use super::request::NoticeRequest;
use super::signature_check::{are_too_many, claimed, read_claims};
use super::signature_encoding::SignatureEncoding;
use super::template::{Template, TemplatePiece, TemplateToken};
use super::template_values::TemplateValueError;
use crate::directory::Directory;
use crate::directory::account::Account;
use crate::directory::route::Route;
use crate::profile::Profile;
use crate::scheme::compiled::Scheme;
use crate::scheme::explain::matching::{is_match, open_request};
use crate::scheme::rules::SignRule;

pub(crate) use self::attempt::{ExplainedField, Explanation, SignatureAttempt};

/// The most items of an array that are explained.
const ITEMS_MAX: usize = 8;

impl Directory {
    /// Explains how a request to a partner would be judged at `now`. `None` if the partner is not
    /// known.
    pub fn explain(
        &self,
        partner: &str,
        request: &NoticeRequest<'_>,
        now: Time,
    ) -> Option<Explanation> {
        let profile = self.profile(partner)?;
        let scheme = profile.scheme();
        let mut explanation = Explanation::default();
        let mut why = "no account of this partner is enabled".to_owned();
        let mut is_for_one = false;
        let (accounts, stranger) =
            accounts_to_explain(self.route_of(partner), (profile, scheme), request);
        for account in accounts {
            let name = format!("{}/{}", account.partner(), account.merchant_code());
            let inputs = account.template_inputs();
            let mut message = match open_request(profile, scheme, request, &inputs) {
                Ok(message) => message,
                Err(problem) => {
                    if !is_for_one {
                        why = problem.to_string();
                    }
                    continue;
                }
            };
            let items = message.count_items().unwrap_or(1).min(ITEMS_MAX);
            for item in 0..items {
                if scheme.items.is_some() {
                    message.select_item(item);
                }
                let context = TemplateContext::without_key(&message, &inputs);
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
                        let attempt = try_key((&named, now), sign, (key, ready), context);
                        explanation.attempts.push(attempt);
                    }
                }
                // A reason from an account that the notice names replaces one from any other
                // account.
                let not_for = why_not_for_account(scheme, context, keys);
                if not_for.is_none() || !is_for_one {
                    is_for_one |= not_for.is_none();
                    let reason = why_unsigned(&explanation.attempts[before..], not_for);
                    why = numbered(&reason);
                }
            }
        }
        let why = stranger.map_or(why, |merchant| {
            let mut all = self.accounts().iter();
            let known = all.find(|one| {
                one.partner().as_str() == partner && one.merchant_code().as_str() == merchant
            });
            match known {
                Some(disabled) => describe_disabled_account(disabled),
                None => describe_missing_account(partner, &merchant),
            }
        });
        explanation.verdict = describe_verdict(self, partner, request, now, &why);
        Some(explanation)
    }
}

/// The accounts that a request or its items name. If no named account exists: the accounts tried
/// without a merchant, and the unknown merchant.
fn accounts_to_explain<'d>(
    route: &'d Route,
    (profile, scheme): (&Profile, &Scheme),
    request: &NoticeRequest<'_>,
) -> (Vec<&'d Arc<Account>>, Option<String>) {
    let mut accounts: Vec<&Arc<Account>> = Vec::new();
    let mut stranger = None;
    let plain = ParsedMessage::new(scheme, request, profile.limits()).ok();
    if let Some(mut plain) = plain.filter(|_| scheme.open.names_account) {
        // A document that can't be unwrapped names no merchant.
        let _ = plain.unwrap_open_documents();
        for item in 0..plain.count_items().unwrap_or(1).min(ITEMS_MAX) {
            if scheme.items.is_some() {
                plain.select_item(item);
            }
            let of_item = candidate_accounts(route, &plain, WithoutMerchant::TryAccounts);
            if of_item.is_empty() {
                stranger = stranger.or(named_merchant(&plain));
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

/// Why a notice is not for this account, or names a key the account does not have. `None` if
/// neither.
fn why_not_for_account(
    scheme: &Scheme,
    context: TemplateContext<'_>,
    keys: &[SchemeKey],
) -> Option<String> {
    let name = context.inputs.merchant;
    if !names_this_account(context) {
        return Some(format!("map.merchant is not {name}"));
    }
    for rule in &scheme.require {
        let [value, equals] = [&rule.value, &rule.equals].map(|side| context.render(side));
        if value.is_err() || value != equals {
            return Some(format!(
                "a [[require]] does not hold, so the notice is not for this account: {} is {}, and \
                 {} is {}",
                rule.value,
                quoted(value),
                rule.equals,
                quoted(equals),
            ));
        }
    }
    let wanted = context.render_string(scheme.key.id.as_ref()?).unwrap_or_default();
    let is_known = keys.iter().any(|key| key.name() == wanted);
    (!is_known).then(|| format!("the notice names key {wanted}, which the account does not have"))
}

fn quoted(value: Result<Vec<u8>, TemplateValueError>) -> String {
    let shown = |text: Vec<u8>| format!("{:?}", String::from_utf8_lossy(&text));
    value.map_or_else(|unusable| format!("not readable ({unusable})"), shown)
}

/// The values at the places that the scheme reads.
fn places(scheme: &Scheme, context: TemplateContext<'_>) -> Vec<ExplainedField> {
    let mut places: Vec<ExplainedField> = Vec::new();
    for token in crate::scheme::tokens::every_token(scheme) {
        if !token.is_place() || places.iter().any(|place| place.token == token.written) {
            continue;
        }
        let (kind, value) = match context.find_value(token) {
            Err(unusable) => ("repeated", unusable.to_string()),
            Ok(None) => ("absent", String::new()),
            Ok(Some(value)) => {
                (kind_name(value.kind), String::from_utf8_lossy(value.text).into_owned())
            }
        };
        places.push(ExplainedField { token: token.written.clone(), kind, value });
    }
    places
}

const fn kind_name(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Plain => "text",
        ValueKind::String => "string",
        ValueKind::Number => "number",
        ValueKind::Bool => "bool",
        ValueKind::Null => "null",
        ValueKind::Composite => "object or array",
    }
}

fn try_key(
    (account, now): (&str, Time),
    sign: &SignRule,
    (key, ready): (&SchemeKey, &ReadyKey),
    bare: TemplateContext<'_>,
) -> SignatureAttempt {
    let context = TemplateContext { secret: ready.secret(), ..bare };
    let received = claimed(sign, context);
    let state = if now < key.window.begins {
        " (not valid yet)"
    } else if key.window.ends.is_some_and(|until| now >= until) {
        " (no longer valid)"
    } else {
        ""
    };
    let mut attempt = SignatureAttempt {
        account: account.to_owned(),
        sign: sign.name.clone(),
        key: format!("{}{state}", key.id),
        is_valid: state.is_empty(),
        text: String::new(),
        expected: None,
        matches: false,
        would_match: Vec::new(),
        received,
    };
    let text = match context.render(&sign.text) {
        Ok(text) => text,
        Err(unusable) => {
            attempt.text = format!("can't be rendered: {unusable}");
            return attempt;
        }
    };
    let masked = TemplateContext { secret: Some(b"{secret}"), ..bare };
    let shown = masked.render(&sign.text).unwrap_or_default();
    attempt.text = String::from_utf8_lossy(&shown).into_owned();
    let is_token = !sign.algorithm.signs_the_text();
    let expected = ready.compute_signature(&text).filter(|_| !is_token);
    attempt.expected = expected.map(|expected| sign.output.encode(&expected));
    attempt.matches = is_match(sign, ready, &text, &attempt.received);
    if !attempt.matches && !are_too_many(&attempt.received) {
        attempt.would_match = find_matching_changes(sign, ready, context, &attempt.received);
    }
    attempt
}

/// The encodings of signatures that are tried, with their names in a profile.
const OUTPUTS: [(SignatureEncoding, &str); 4] = [
    (SignatureEncoding::HexLower, "hex-lower"),
    (SignatureEncoding::HexUpper, "hex-upper"),
    (SignatureEncoding::Base64, "base64"),
    (SignatureEncoding::Base64url, "base64url"),
];

/// Tries the usual mistakes of a profile and returns those that would match.
pub(crate) fn find_matching_changes(
    sign: &SignRule,
    ready: &ReadyKey,
    context: TemplateContext<'_>,
    received: &[String],
) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(text) = context.render(&sign.text) else { return found };
    if is_unreadable(sign, received) {
        return vec![
            "nothing: the signature is neither hex digits of one case nor base64".to_owned(),
        ];
    }
    for (output, name) in OUTPUTS {
        let written = SignRule { output, ..sign.clone() };
        if output != sign.output && is_match(&written, ready, &text, received) {
            found.push(format!("output = \"{name}\""));
        }
    }
    for (template, name) in texts_with_other_tokens(&sign.text) {
        let text = context.render(&template);
        if text.is_ok_and(|text| is_match(sign, ready, &text, received)) {
            found.push(name);
        }
    }
    for (text, name) in texts_with_other_ends(&text) {
        if is_match(sign, ready, &text, received) {
            found.push(name.to_owned());
        }
    }
    for hint in joined::joined_hints(sign, ready, context, received) {
        if !found.contains(&hint) {
            found.push(hint);
        }
    }
    found.extend(hints::place_hint(sign, ready, context));
    found.extend(hints::key_hints(sign, ready, context, received));
    found.extend(hints::list_hints(sign, ready, context, received));
    found
}

/// Whether the request carries signatures, and no encoding of `OUTPUTS` decodes one.
fn is_unreadable(sign: &SignRule, received: &[String]) -> bool {
    let is_read =
        |(output, _)| !read_claims(&SignRule { output, ..sign.clone() }, received).is_empty();
    !received.is_empty() && sign.algorithm.signs_the_text() && !OUTPUTS.into_iter().any(is_read)
}

/// The text with another end, or in lower case.
fn texts_with_other_ends(text: &[u8]) -> Vec<(Vec<u8>, &'static str)> {
    let lowered = String::from_utf8_lossy(text).to_lowercase().into_bytes();
    let mut others = vec![
        (text.trim_ascii().to_vec(), "the text without white space at its ends"),
        (lowered, "the whole text in lower case"),
        ([text, b"\n"].concat(), "the text with a line feed at its end"),
    ];
    others.retain(|(other, _)| other != text);
    others
}

/// The text with two tokens swapped, and with all values as received.
fn texts_with_other_tokens(text: &Template) -> Vec<(Template, String)> {
    let places: Vec<usize> = text
        .pieces
        .iter()
        .enumerate()
        .filter(|(_, piece)| matches!(piece, TemplatePiece::Token(_)))
        .map(|(at, _)| at)
        .collect();
    let token = |at: usize| -> Option<&TemplateToken> {
        match &text.pieces[at] {
            TemplatePiece::Token(token) => Some(token),
            TemplatePiece::Literal(_) | TemplatePiece::Optional(_) => None,
        }
    };
    let mut others = Vec::new();
    for (nth, a) in places.iter().enumerate() {
        for b in &places[nth + 1..] {
            let mut pieces = text.pieces.clone();
            pieces.swap(*a, *b);
            if let (Some(a), Some(b)) = (token(*a), token(*b)) {
                let name = format!("{} and {} swapped", a.written, b.written);
                others.push((Template { pieces }, name));
            }
        }
    }
    let mut raw = text.clone();
    for piece in &mut raw.pieces {
        if let TemplatePiece::Token(token) = piece
            && !token.filters.contains(&super::filter::Filter::Raw)
        {
            token.filters.insert(0, super::filter::Filter::Raw);
        }
    }
    others.push((raw, "values exactly as received (|raw)".to_owned()));
    others
}
