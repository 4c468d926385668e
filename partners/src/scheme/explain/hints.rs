//! Owns the less plain hints of an explanation: another place or prefix of the signature, another way of the key, another
//! algorithm, another way of writing a list of pairs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::is_match;
use crate::scheme::SignRule;
use crate::scheme::crypt::{Algorithm, KeyKind, Ready, Strength};
use crate::scheme::encoding::Encoding;
use crate::scheme::pairs::{Empty, Order};
use crate::scheme::reading::Context;
use crate::scheme::template::Source;
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
    let mut keys = vec![(secret.to_vec(), "")];
    keys.extend(hex::decode(secret).ok().map(|key| (key, "[key] encoding = \"hex\"")));
    keys.extend(
        STANDARD.decode(secret.trim_ascii()).ok().map(|key| (key, "[key] encoding = \"base64\"")),
    );
    keys.push((
        hex::encode(secret).into_bytes(),
        "[key] encoding = \"text\" (the hex digits themselves)",
    ));
    keys.push((
        STANDARD.encode(secret).into_bytes(),
        "[key] encoding = \"text\" (the base64 itself)",
    ));
    let mut found = Vec::new();
    for (key, change) in keys {
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
                let all = [change.to_owned(), algorithm];
                found.push(
                    all.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", "),
                );
            }
        }
    }
    found
}

/// Its lists of pairs written another way.
pub(super) fn of_lists(
    sign: &SignRule,
    ready: &Ready,
    context: Context<'_>,
    received: &[String],
) -> Vec<String> {
    let scheme = context.reading.scheme();
    let uses_lists =
        sign.text.tokens().iter().any(|token| matches!(token.source, Source::Pairs(_)));
    let mut found = Vec::new();
    if !uses_lists {
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
