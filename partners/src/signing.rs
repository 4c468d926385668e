//! Owns the signing text: the profile's fields in order, joined with its separator (contract 5).
//! Pure. An absent value is an empty text between two separators and is never dropped. If no value
//! contains the separator and none is empty, different notices have different signing texts.

use crate::field::Field;
use crate::mac::MacKey;
use crate::profile::Profile;
use crate::profile::create::{CreateField, CreateRule};

/// Appends the signing text of the values from `value_of` to `into`. Returns the first field that
/// contains the separator: the text is then ambiguous, and even a valid signature proves nothing.
pub(crate) fn signing_text<'v>(
    profile: &Profile,
    value_of: impl Fn(Field) -> Option<&'v str>,
    into: &mut Vec<u8>,
) -> Option<Field> {
    join(profile.separator(), profile.signed_fields(), value_of, into)
}

/// Appends the signing text of a create-payment request (contract 2.1). Returns the first field
/// that contains the separator.
pub fn create_signing_text<'v>(
    profile: &Profile,
    rule: &CreateRule,
    value_of: impl Fn(CreateField) -> Option<&'v str>,
    into: &mut Vec<u8>,
) -> Option<CreateField> {
    join(profile.separator(), &rule.signed_fields, value_of, into)
}

fn join<'v, F: Copy>(
    separator: u8,
    fields: &[F],
    value_of: impl Fn(F) -> Option<&'v str>,
    into: &mut Vec<u8>,
) -> Option<F> {
    let mut ambiguous = None;
    for (place, field) in fields.iter().copied().enumerate() {
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

/// Signs a notice as the partner does, in the profile's encoding; for the sandbox, the demo and the
/// bench.
pub fn sign<'v>(
    profile: &Profile,
    key: &MacKey,
    value_of: impl Fn(Field) -> Option<&'v str>,
) -> String {
    let mut text = Vec::with_capacity(256);
    signing_text(profile, value_of, &mut text);
    profile.output().write(&key.sign(&text))
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::PartnerCode;
    use proptest::prelude::*;

    use super::*;
    use crate::profile::DEFAULT_PROFILE;

    fn profile() -> Profile {
        Profile::default_for(&PartnerCode::parse("acme").unwrap())
    }

    type Values = [Option<String>; Field::COUNT];

    fn text_of(profile: &Profile, values: &Values) -> (String, Option<Field>) {
        let mut text = Vec::new();
        let ambiguous = signing_text(profile, |field| values[field.index()].as_deref(), &mut text);
        (String::from_utf8(text).unwrap(), ambiguous)
    }

    fn values(cells: &str) -> Values {
        let mut cells = cells.split_whitespace().map(|cell| (cell != "-").then(|| cell.to_owned()));
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    }

    #[test]
    fn an_absent_field_is_an_empty_text() {
        let all = values("M O R SUCCESS 100 VND 2026 2027 N sig");
        assert_eq!(text_of(&profile(), &all), ("M|O|R|SUCCESS|100|VND|2026|2027|N".into(), None));
        let some = values("M O R FAILED 100 VND - 2027 - sig");
        assert_eq!(text_of(&profile(), &some), ("M|O|R|FAILED|100|VND||2027|".into(), None));
        assert_eq!(text_of(&profile(), &Values::default()), ("||||||||".into(), None));
    }

    #[test]
    fn the_order_and_separator_are_the_profiles() {
        let text = DEFAULT_PROFILE
            .replace("\"merchantCode\", \"orderId\",", "\"orderId\", \"merchantCode\",")
            .replace("separator = \"|\"", "separator = \"&\"");
        let profile = Profile::parse(&PartnerCode::parse("acme").unwrap(), &text).unwrap();
        let all = values("M O R SUCCESS 100 VND 2026 2027 N");
        assert_eq!(text_of(&profile, &all).0, "O&M&R&SUCCESS&100&VND&2026&2027&N");
    }

    #[test]
    fn a_separator_in_a_value_is_reported() {
        let (a, b) = (values("M a|b c S 1 VND"), values("M a b|c S 1 VND"));
        assert_eq!(text_of(&profile(), &a).0, text_of(&profile(), &b).0);
        assert_eq!(text_of(&profile(), &a).1, Some(Field::OrderId));
        assert_eq!(text_of(&profile(), &b).1, Some(Field::ProviderRef));
        assert_eq!(text_of(&profile(), &values("M O R S 1 VND - - n|")).1, Some(Field::Nonce));
        assert_eq!(text_of(&profile(), &values("M O R S 1 VND - - - sig|")).1, None);
    }

    fn any_values() -> impl Strategy<Value = Values> {
        // Few letters, so that values with moved boundaries would have the same text if they could.
        proptest::array::uniform10(proptest::option::of("[ab|]{0,3}"))
    }

    proptest! {
        /// Two texts are equal only if their values are, unless a value is refused: it is empty, or
        /// contains the separator.
        #[test]
        fn the_text_distinguishes_all_values(a in any_values(), b in any_values()) {
            let judge = |values: &Values| {
                let (text, ambiguous) = text_of(&profile(), values);
                let refused = ambiguous.is_some() || values.iter().flatten().any(String::is_empty);
                (text, refused)
            };
            let ((text_a, refused_a), (text_b, refused_b)) = (judge(&a), judge(&b));
            if !refused_a {
                let slots: Vec<_> = text_a.split('|').map(str::to_owned).collect();
                let expected = a[..9].iter().map(|value| value.clone().unwrap_or_default());
                let expected: Vec<_> = expected.collect();
                prop_assert_eq!(slots, expected);
            }
            if !refused_a && !refused_b {
                prop_assert_eq!(text_a == text_b, a[..9] == b[..9]);
            }
        }
    }
}
