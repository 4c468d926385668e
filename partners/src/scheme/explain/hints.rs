//! Owns the less plain hints of an explanation: another place or prefix of the signature, another way of the key, another
//! algorithm, another way of writing a list of pairs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::is_match;
use crate::scheme::crypt::{Algorithm, KeyKind, Ready, Strength};
use crate::scheme::encoding::Encoding;
use crate::scheme::pairs::{Empty, Order};
use crate::scheme::reading::Context;
use crate::scheme::template::{Source, Template};
use crate::scheme::{Scheme, SignRule};
use crate::secret::Secret;

/// The signature stands there, with something before it, or among others.
pub(super) fn of_places(sign: &SignRule, ready: &Ready, context: Context<'_>) -> Option<String> {
    let text = context.text(&sign.text).ok()?;
    let expected = ready.expected(sign.algorithm, &text)?;
    let expected = sign.output.write(&expected);
    let values = context.every(sign.signature.as_ref()?);
    let (before, value) = values.iter().find_map(|value| Some((value.find(&expected)?, value)))?;
    let after = &value[before + expected.len()..];
    let before = &value[..before];
    if before == sign.prefix && after.is_empty() {
        return None;
    }
    Some(format!(
        "a signature with {before:?} before it and {after:?} behind it: look at prefix, split or a parts document"
    ))
}

/// The key read another way, or another algorithm.
pub(super) fn of_keys(
    sign: &SignRule,
    ready: &Ready,
    context: Context<'_>,
    received: &[String],
) -> Vec<String> {
    let Some(secret) = ready.secret().filter(|_| sign.algorithm.key_kind() == KeyKind::Shared)
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (key, change) in other_keys(secret, &context.reading.scheme().key.prefix) {
        for algorithm in Algorithm::SHARED {
            let is_own = algorithm == sign.algorithm;
            if is_own && change.is_empty() {
                continue;
            }
            let Ok(ready) = Ready::new(algorithm, Secret::from_bytes(key.clone()), Strength::Any)
            else {
                continue;
            };
            let context = Context { secret: ready.secret(), ..context };
            let Ok(text) = context.text(&sign.text) else { continue };
            let tried = SignRule { algorithm, ..sign.clone() };
            if is_match(&tried, &ready, &text, received) {
                let algorithm = if is_own {
                    String::new()
                } else {
                    format!("algorithm = \"{}\"", algorithm.name())
                };
                let all = [change.clone(), algorithm];
                found.push(
                    all.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", "),
                );
            }
        }
    }
    found
}

/// The key itself, and what it would be if the profile said something else of it.
fn other_keys(secret: &[u8], prefix: &str) -> Vec<(Vec<u8>, String)> {
    let hex = |key: &[u8]| hex::decode(key).ok();
    let base64 = |key: &[u8]| STANDARD.decode(key.trim_ascii()).ok();
    let mut keys = vec![(secret.to_vec(), String::new())];
    keys.extend(hex(secret).map(|key| (key, "[key] encoding = \"hex\"".to_owned())));
    keys.extend(base64(secret).map(|key| (key, "[key] encoding = \"base64\"".to_owned())));
    let (as_hex, as_base64) = (hex::encode(secret), STANDARD.encode(secret));
    let whole = [(&as_hex, "hex digits"), (&as_base64, "base64")];
    for (key, what) in whole {
        let change = format!("[key] encoding = \"text\" (the {what} itself)");
        keys.push((key.clone().into_bytes(), change));
    }
    // Such as whsec_…; the name of a kind of key ends with a low line.
    for at in secret.iter().enumerate().filter(|(_, byte)| **byte == b'_').map(|(at, _)| at + 1) {
        let (start, rest) = secret.split_at(at);
        let change = format!("[key] prefix = \"{}\"", String::from_utf8_lossy(start));
        keys.extend(hex(rest).map(|key| (key, format!("{change}, encoding = \"hex\""))));
        keys.extend(base64(rest).map(|key| (key, format!("{change}, encoding = \"base64\""))));
        keys.push((rest.to_vec(), change));
    }
    if !prefix.is_empty() {
        let text = String::from_utf8_lossy(secret);
        for key in [text.as_ref(), &as_hex, &as_base64] {
            keys.push((format!("{prefix}{key}").into_bytes(), "[key] without a prefix".to_owned()));
        }
    }
    keys
}

/// Whether a list of pairs stands in a text, or in another one that it uses.
fn uses_lists(scheme: &Scheme, text: &Template) -> bool {
    text.tokens().iter().any(|token| match &token.source {
        Source::Pairs(_) => true,
        Source::Text(number) => uses_lists(scheme, &scheme.texts[*number]),
        _ => false,
    })
}

/// Its lists of pairs written another way.
pub(super) fn of_lists(
    sign: &SignRule,
    ready: &Ready,
    context: Context<'_>,
    received: &[String],
) -> Vec<String> {
    let scheme = context.reading.scheme();
    let mut found = Vec::new();
    if !uses_lists(scheme, &sign.text) {
        return found;
    }
    for encoding in Encoding::ALL {
        for (order, order_name) in [
            (None, ""),
            (Some(Order::Sorted), "sorted"),
            (Some(Order::SortedNocase), "sorted-nocase"),
            (Some(Order::AsIs), "as-is"),
        ] {
            for empty in [Empty::Keep, Empty::Skip] {
                let mut lists = scheme.pairs.clone();
                for list in &mut lists {
                    list.encoding = encoding;
                    list.order = order.unwrap_or(list.order);
                    list.empty = empty;
                }
                if lists == scheme.pairs {
                    continue;
                }
                let text = Context { lists: Some(&lists), ..context }.text(&sign.text);
                if text.is_ok_and(|text| is_match(sign, ready, &text, received)) {
                    let skip = if empty == Empty::Skip { "skip" } else { "keep" };
                    let order = if order_name.is_empty() {
                        String::new()
                    } else {
                        format!(", order = \"{order_name}\"")
                    };
                    found.push(format!(
                        "[[pairs]] encoding = \"{}\"{order}, empty = \"{skip}\"",
                        encoding.name()
                    ));
                }
            }
        }
    }
    found.sort_by_key(String::len);
    found.truncate(2);
    found
}
