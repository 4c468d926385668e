//! Owns the checks that serde_json does not do in values that it skips: lone surrogates, depth, and
//! duplicate keys. `check` walks text that is valid JSON once and without recursion, so that its
//! cost grows linearly with the body. `lone_surrogate` takes any text.

use std::borrow::Cow;

use crate::limits::BodyLimits;
use crate::rejection::RejectCode;

/// The offset of the first `\u` escape that is a lone surrogate. The parser refuses escapes that
/// are not hex.
pub(crate) fn lone_surrogate(text: &[u8]) -> Option<usize> {
    // Most bodies have no escape, and `contains` is vectorised.
    if !text.contains(&b'\\') {
        return None;
    }
    let mut at = 0;
    while let Some(offset) = text.get(at..)?.iter().position(|b| *b == b'\\') {
        at += offset;
        match escaped_unit(text, at) {
            Some(0xD800..=0xDBFF) => match escaped_unit(text, at + 6) {
                Some(0xDC00..=0xDFFF) => at += 12,
                _ => return Some(at),
            },
            Some(0xDC00..=0xDFFF) => return Some(at),
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    None
}

/// The UTF-16 code unit of a `\uXXXX` escape at `at`.
fn escaped_unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0_u16, |unit, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}

/// Decodes a valid JSON string in quotes, without lone surrogates.
pub(crate) fn decode(source: &str) -> Cow<'_, str> {
    if source.contains('\\') {
        Cow::Owned(serde_json::from_str(source).expect("the string was parsed before"))
    } else {
        Cow::Borrowed(&source[1..source.len() - 1])
    }
}

/// Checks an object or array at `depth` levels in a body with `keys` keys so far. Returns the
/// number of keys with those inside. Errors: `TooComplex`, `DuplicateField`.
pub(crate) fn check(
    source: &str,
    depth: usize,
    mut keys: usize,
    limits: BodyLimits,
) -> Result<usize, RejectCode> {
    let bytes = source.as_bytes();
    let mut levels: Vec<Vec<Cow<'_, str>>> = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => {
                levels.push(Vec::new());
                if depth + levels.len() > limits.depth {
                    return Err(RejectCode::TooComplex);
                }
            }
            b'}' | b']' => {
                levels.pop();
            }
            b'"' => {
                let end = string_end(bytes, at);
                if is_key(bytes, end) {
                    keys += 1;
                    if keys > limits.keys {
                        return Err(RejectCode::TooComplex);
                    }
                    let key = decode(&source[at..end]);
                    let siblings = levels.last_mut().expect("a key is inside an object");
                    if siblings.iter().any(|other| other.eq_ignore_ascii_case(&key)) {
                        return Err(RejectCode::DuplicateField);
                    }
                    siblings.push(key);
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(keys)
}

/// The offset after the closing quote of the string that opens at `at`.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// Whether the string that ends at `end` is a key: in valid JSON nothing else is followed by a
/// colon.
fn is_key(bytes: &[u8], end: usize) -> bool {
    bytes[end..].trim_ascii_start().first() == Some(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_surrogate_is_found() {
        let cases: [(&str, Option<usize>); 14] = [
            (r"plain", None),
            (r"\u0041\n\\", None),
            (r"\ud83d\ude00", None),
            (r"x\uD83D\uDE00y", None),
            (r"\ud83d", Some(0)),
            (r"ab\ude00", Some(2)),
            (r"\ud83d\ud83d\ude00", Some(0)),
            (r"\ud83d \ude00", Some(0)),
            (r"\ud83d\n", Some(0)),
            (r"\\ud83d", None),
            (r"\\\ud83d", Some(2)),
            (r"\ud83d\ude00\ude00", Some(12)),
            (r"\uzzzz\", None),
            (r"\ud8", None),
        ];
        for (text, expected) in cases {
            assert_eq!(lone_surrogate(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn every_text_can_be_scanned() {
        // All short texts of the pieces that the scan distinguishes: none may make it panic.
        let letters = [b"\\".as_slice(), b"u", b"d83d", b"dc00", b"\"", b"\xff"];
        let mut texts = vec![Vec::new()];
        for _ in 0..5 {
            for text in &texts {
                lone_surrogate(text);
            }
            texts = texts
                .iter()
                .flat_map(|text| letters.map(|letter| [text.as_slice(), letter].concat()))
                .collect();
        }
    }
}
