//! Owns the hints about places and keys: another place or prefix of the signature, another encoding
//! of the key, another algorithm, another encoding of a list of pairs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::scheme::compiled::Scheme;
use crate::scheme::crypt::{KeyKind, KeyStrength, ReadyKey, SignAlgorithm};
use crate::scheme::encoding::PairEncoding;
use crate::scheme::explain::matching::is_match;
use crate::scheme::message::TemplateContext;
use crate::scheme::pairs::{EmptyValues, PairOrder};
use crate::scheme::rules::SignRule;
use crate::scheme::template::{Template, TokenSource};
use crate::secret::Secret;

/// The value holds the expected signature together with other text: a prefix, or other signatures.
pub(super) fn place_hint(
    sign: &SignRule,
    ready: &ReadyKey,
    context: TemplateContext<'_>,
) -> Option<String> {
    let text = context.render(&sign.text).ok()?;
    let expected = ready.compute_signature(&text)?;
    let expected = sign.output.encode(&expected);
    let values = context.find_all_values(sign.signature.as_ref()?);
    let (before, value) = values.iter().find_map(|value| Some((value.find(&expected)?, value)))?;
    let after = &value[before + expected.len()..];
    let before = &value[..before];
    if before == sign.prefix && after.is_empty() {
        return None;
    }
    Some(format!(
        "a signature with {before:?} before it and {after:?} behind it: check prefix, split or a \
         parts document"
    ))
}

/// Tries the key decoded differently, and other algorithms.
pub(super) fn key_hints(
    sign: &SignRule,
    ready: &ReadyKey,
    context: TemplateContext<'_>,
    received: &[String],
) -> Vec<String> {
    let Some(secret) = ready.secret().filter(|_| sign.algorithm.key_kind() == KeyKind::Shared)
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (key, change) in other_keys(secret, &context.message.scheme().key.prefix) {
        for algorithm in SignAlgorithm::SHARED {
            let is_own = algorithm == sign.algorithm;
            if is_own && change.is_empty() {
                continue;
            }
            let Ok(ready) =
                ReadyKey::new(algorithm, Secret::from_bytes(key.clone()), KeyStrength::Any)
            else {
                continue;
            };
            let context = TemplateContext { secret: ready.secret(), ..context };
            let Ok(text) = context.render(&sign.text) else { continue };
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

/// The key as it is, and as it would be under another `[key]`, each with that change.
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
    // A key's prefix, such as whsec_, ends with an underscore.
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

/// Whether a text names a list of pairs, directly or through a text.
fn uses_lists(scheme: &Scheme, text: &Template) -> bool {
    text.tokens().iter().any(|token| match &token.source {
        TokenSource::Pairs(_) => true,
        TokenSource::Text(number) => uses_lists(scheme, &scheme.texts[*number]),
        _ => false,
    })
}

/// Tries other encodings, orders and treatments of empty values in the lists of pairs.
pub(super) fn list_hints(
    sign: &SignRule,
    ready: &ReadyKey,
    context: TemplateContext<'_>,
    received: &[String],
) -> Vec<String> {
    let scheme = context.message.scheme();
    let mut found = Vec::new();
    if !uses_lists(scheme, &sign.text) {
        return found;
    }
    for encoding in PairEncoding::ALL {
        for (order, order_name) in [
            (None, ""),
            (Some(PairOrder::Sorted), "sorted"),
            (Some(PairOrder::SortedNocase), "sorted-nocase"),
            (Some(PairOrder::AsIs), "as-is"),
        ] {
            for empty in [EmptyValues::Keep, EmptyValues::Skip] {
                let mut lists = scheme.pairs.clone();
                for list in &mut lists {
                    list.encoding = encoding;
                    list.order = order.unwrap_or(list.order);
                    list.empty = empty;
                }
                if lists == scheme.pairs {
                    continue;
                }
                let text = TemplateContext { lists: Some(&lists), ..context }.render(&sign.text);
                if text.is_ok_and(|text| is_match(sign, ready, &text, received)) {
                    let skip = if empty == EmptyValues::Skip { "skip" } else { "keep" };
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
