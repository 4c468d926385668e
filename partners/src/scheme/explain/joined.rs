//! Owns the hints for a signed text that is values joined by one separator: another order, another
//! separator, absent values left out, one value too many. Each is tried, and the simplest that
//! match are returned.

use crate::scheme::crypt::ReadyKey;
use crate::scheme::explain::matching::is_match;
use crate::scheme::message::TemplateContext;
use crate::scheme::rules::SignRule;
use crate::scheme::signature_encoding::SignatureEncoding;
use crate::scheme::template::{Template, TemplatePiece, TemplateToken};

/// Separators that gateways use.
const SEPARATORS: [&str; 7] = ["|", "&", "", ",", ":", ";", "+"];
/// The most hints that are returned.
const HINTS_MAX: usize = 3;

/// A value of the signed text: its token, and its text in this request.
struct JoinedValue<'t> {
    token: &'t TemplateToken,
    text: Vec<u8>,
}

/// One order of the values. `change` is its difference from the profile's order, and empty for that
/// order itself.
struct Arrangement {
    change: String,
    places: Vec<usize>,
}

/// The changes that would make a received signature match.
pub(super) fn joined_hints(
    sign: &SignRule,
    ready: &ReadyKey,
    context: TemplateContext<'_>,
    received: &[String],
) -> Vec<String> {
    let Some((tokens, own)) = joined(&sign.text) else { return Vec::new() };
    let value = |token| Some(JoinedValue { token, text: context.render_token(token).ok()? });
    let Some(values) = tokens.into_iter().map(value).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for arrangement in arrangements(&values) {
        for separator in SEPARATORS {
            for leaves_out in [false, true] {
                let texts = arrangement.places.iter().map(|place| values[*place].text.as_slice());
                let texts: Vec<_> = texts.filter(|text| !leaves_out || !text.is_empty()).collect();
                let text = texts.join(separator.as_bytes());
                for output in [sign.output, other_case(sign.output)] {
                    let written = SignRule { output, ..sign.clone() };
                    if is_match(&written, ready, &text, received) {
                        let mut change = vec![arrangement.change.clone()];
                        if separator != own {
                            change.push(format!("separator = {separator:?}"));
                        }
                        if leaves_out {
                            change.push("absent fields left out instead of empty".to_owned());
                        }
                        if output != sign.output {
                            change.push("the other letter case".to_owned());
                        }
                        change.retain(|part| !part.is_empty());
                        found.push(change.join(", "));
                    }
                }
            }
        }
    }
    found.retain(|change| !change.is_empty());
    found.sort_by_key(String::len);
    found.dedup();
    found.truncate(HINTS_MAX);
    found
}

/// The tokens and the separator of a text that is tokens joined by one separator. `None` for any
/// other text.
fn joined(text: &Template) -> Option<(Vec<&TemplateToken>, &str)> {
    if text.pieces.len().is_multiple_of(2) {
        return None;
    }
    let mut tokens = Vec::new();
    let mut separator = None;
    for (place, piece) in text.pieces.iter().enumerate() {
        match piece {
            TemplatePiece::Token(token) if place % 2 == 0 => tokens.push(token),
            TemplatePiece::Literal(literal) if place % 2 == 1 => {
                if separator.is_some_and(|other| other != literal) {
                    return None;
                }
                separator = Some(literal);
            }
            TemplatePiece::Token(_) | TemplatePiece::Literal(_) | TemplatePiece::Optional(_) => {
                return None;
            }
        }
    }
    separator.map(|separator| (tokens, separator.as_str()))
}

const fn other_case(output: SignatureEncoding) -> SignatureEncoding {
    match output {
        SignatureEncoding::HexLower => SignatureEncoding::HexUpper,
        SignatureEncoding::HexUpper => SignatureEncoding::HexLower,
        other => other,
    }
}

/// The profile's order of the values, and orders that are often confused with it.
fn arrangements(values: &[JoinedValue<'_>]) -> Vec<Arrangement> {
    let own: Vec<usize> = (0..values.len()).collect();
    let written = |place: usize| values[place].token.written.as_str();
    let sorted = |key: &dyn Fn(usize) -> String| {
        let mut places = own.clone();
        places.sort_by_key(|place| key(*place));
        places
    };
    let mut all = vec![
        (String::new(), own.clone()),
        ("fields in the order of their names".to_owned(), sorted(&|p| written(p).to_owned())),
        (
            "fields in the order of their names, case ignored".to_owned(),
            sorted(&|place| written(place).to_lowercase()),
        ),
        ("fields in the opposite order".to_owned(), own.iter().rev().copied().collect()),
    ];
    for a in 0..values.len() {
        for b in a + 1..values.len() {
            let mut swapped = own.clone();
            swapped.swap(a, b);
            all.push((format!("{} and {} swapped", written(a), written(b)), swapped));
        }
        let mut without = own.clone();
        without.remove(a);
        all.push((format!("without {}", written(a)), without));
    }
    all.into_iter().map(|(change, places)| Arrangement { change, places }).collect()
}
