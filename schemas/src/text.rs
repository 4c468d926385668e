//! Owns `Text`: a short string that was checked once, when it was received. Every id of the
//! vocabulary is a `Text` with its own rule; a value that breaks its rule can't be built, neither
//! by parsing nor by decoding a stored record. No value is normalised or trimmed.

use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

/// The rule of a kind of id. Implemented by an empty enum per id.
pub trait TextRule {
    /// The field's name as partners and shops write it; used in error messages.
    const NAME: &'static str;
    /// The greatest number of characters. All rules are ASCII, so this is also bytes.
    const MAX_CHARS: usize;
    /// Whether the value may contain this character.
    fn allows(character: char) -> bool;
}

/// Why a string is not a value of a kind of id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The string is empty or blank.
    #[error("{name} is empty")]
    Empty {
        /// The field's name.
        name: &'static str,
    },
    /// More characters than the rule allows.
    #[error("{name} has {chars} characters, at most {max} are allowed")]
    TooLong {
        /// The field's name.
        name: &'static str,
        /// The number of characters of the value.
        chars: usize,
        /// The most characters that the rule allows.
        max: usize,
    },
    /// A character outside the rule's set.
    #[error("{name} has an illegal character at byte {offset}")]
    IllegalCharacter {
        /// The field's name.
        name: &'static str,
        /// The character's offset in bytes.
        offset: usize,
    },
}

/// A checked short string; `R` is its rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<R> {
    /// Up to 23 bytes, like most ids, are stored inline; copies of a longer value share it.
    value: SmolStr,
    rule: PhantomData<fn() -> R>,
}

impl<R: TextRule> Text<R> {
    /// Checks `value` against the rule. Errors: `TextError`, naming the field.
    pub fn parse(value: &str) -> Result<Self, TextError> {
        // Nearly all values begin with a visible character.
        let is_seen = value.as_bytes().first().is_some_and(u8::is_ascii_graphic);
        if !is_seen && value.trim().is_empty() {
            return Err(TextError::Empty { name: R::NAME });
        }
        // Nearly all values are legal ASCII, so this loop checks all bytes without a branch. The
        // position of an illegal character is searched for only if there is one.
        let is_fine = |byte: u8| byte.is_ascii() & R::allows(char::from(byte));
        let is_plain = value.bytes().fold(true, |fine, byte| fine & is_fine(byte));
        if !is_plain && let Some((offset, _)) = value.char_indices().find(|(_, c)| !R::allows(*c)) {
            return Err(TextError::IllegalCharacter { name: R::NAME, offset });
        }
        let chars = if is_plain { value.len() } else { value.chars().count() };
        if chars > R::MAX_CHARS {
            return Err(TextError::TooLong { name: R::NAME, chars, max: R::MAX_CHARS });
        }
        Ok(Self { value: SmolStr::new(value), rule: PhantomData })
    }

    /// The value as it was received.
    pub fn as_str(&self) -> &str {
        &self.value
    }
}

impl<R> fmt::Debug for Text<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.value, f)
    }
}

impl<R> fmt::Display for Text<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.value)
    }
}

impl<R: TextRule> std::str::FromStr for Text<R> {
    type Err = TextError;

    fn from_str(value: &str) -> Result<Self, TextError> {
        Self::parse(value)
    }
}

impl<R> Serialize for Text<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.value)
    }
}

impl<'de, R: TextRule> Deserialize<'de> for Text<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&value).map_err(serde::de::Error::custom)
    }
}

impl<C, R> minicbor::Encode<C> for Text<R> {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.str(&self.value)?.ok()
    }
}

impl<'b, C, R: TextRule> minicbor::Decode<'b, C> for Text<R> {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let position = d.position();
        Self::parse(d.str()?).map_err(|error| {
            minicbor::decode::Error::message("stored id breaks its rule")
                .with_message(error)
                .at(position)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{OrderId, ProviderRef};

    #[test]
    fn a_value_is_kept_as_it_came_or_refused() {
        assert_eq!(OrderId::parse("A-1._:z").unwrap().as_str(), "A-1._:z");
        let name = "orderId";
        assert_eq!(OrderId::parse(""), Err(TextError::Empty { name }));
        assert_eq!(OrderId::parse("  "), Err(TextError::Empty { name }));
        assert_eq!(OrderId::parse("a b"), Err(TextError::IllegalCharacter { name, offset: 1 }));
        assert_eq!(OrderId::parse("аb"), Err(TextError::IllegalCharacter { name, offset: 0 }));
        assert!(OrderId::parse(&"x".repeat(64)).is_ok());
        assert_eq!(
            OrderId::parse(&"x".repeat(65)),
            Err(TextError::TooLong { name, chars: 65, max: 64 })
        );
        assert!(ProviderRef::parse("two words").is_ok());
        assert!(ProviderRef::parse("tab\there").is_err());
    }

    #[test]
    fn decoding_checks_the_rule_too() {
        let bytes = minicbor::to_vec("not ok").unwrap();
        assert!(minicbor::decode::<OrderId>(&bytes).is_err());
        assert!(serde_json::from_str::<OrderId>("\"not ok\"").is_err());
    }
}
