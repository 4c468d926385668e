//! Owns the signing text: the profile's fields in order, joined with its separator (contract 5). Pure.
//! An absent value is an empty slot and never dropped. If no value holds the separator and none is
//! empty, two different notices have two different texts.

use crate::mac::MacKey;
use crate::profile::{Field, Profile};

/// Appends the signing text of the values `value_of` gives to `into`. Says which field, if any, holds
/// the separator: then the text is ambiguous and even a valid signature proves nothing.
pub fn signing_text<'v>(
    profile: &Profile,
    value_of: impl Fn(Field) -> Option<&'v str>,
    into: &mut Vec<u8>,
) -> Option<Field> {
    let separator = profile.separator();
    let mut ambiguous = None;
    for (place, field) in profile.signed_fields().iter().copied().enumerate() {
        if place > 0 {
            into.push(separator);
        }
        let value = value_of(field).unwrap_or_default().as_bytes();
        if value.contains(&separator) {
            ambiguous = ambiguous.or(Some(field));
        }
        into.extend_from_slice(value);
    }
    ambiguous
}

/// Signs as the partner would, written as the profile says: for the sandbox, the demo and the bench.
pub fn sign<'v>(
    profile: &Profile,
    key: &MacKey,
    value_of: impl Fn(Field) -> Option<&'v str>,
) -> String {
    let mut text = Vec::with_capacity(256);
    signing_text(profile, value_of, &mut text);
    profile.output().write(&key.sign(&text))
}
