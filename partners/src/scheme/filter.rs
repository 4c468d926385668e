//! Owns the filters of a template: what changes a value before it is written into a text. A
//! filter's argument follows a colon: `after:_`. A filter that cuts returns an empty value if it
//! can't be applied, so that the value is reported as missing. A filter of text leaves what is not
//! UTF-8 as it is, so that it is reported as that.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use payfold_schemas::time::Time;

use super::clock::{TimeFormat, ZoneRule, is_pattern};
use super::encoding::PairEncoding;
use crate::scheme::template::error::TemplateError;

/// A filter of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// CRC-32 (IEEE) as decimal digits.
    Crc32,
    Md5Hex,
    Sha1Hex,
    Sha256Hex,
    Sha256Base64,
    Sha512Hex,
    Base64,
    Upper,
    Lower,
    /// Reverses the order of the characters.
    Reverse,
    /// Removes white space at both ends.
    Trim,
    /// The value as received: the JSON source, or the encoded parameter.
    Raw,
    /// Escapes quotes, backslashes and control characters for a JSON string.
    Json,
    /// Percent-encodes (RFC 3986): only letters, digits and `- . _ ~` are kept.
    Url,
    /// Removes hyphens.
    Compact,
    /// Writes a UUID with hyphens, from one with or without them. Empty for any other text.
    Uuid,
    /// Replaces every character except ASCII letters and digits by a blank.
    Ascii,
    /// The part after the first occurrence of this text. Empty if there is none.
    After(String),
    /// The part before the first occurrence of this text. Empty if there is none.
    Before(String),
    /// The first characters, this many at most.
    First(usize),
    /// The creation time of a version 7 UUID at the end of the value, in this format.
    UuidTime(TimeFormat),
}

/// How well a signature over the filtered value protects the value. Ordered from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SignatureCoverage {
    Nothing,
    ButForCase,
    Weakly,
    All,
}

const ALL: [(&str, Filter); 17] = [
    ("crc32", Filter::Crc32),
    ("md5_hex", Filter::Md5Hex),
    ("sha1_hex", Filter::Sha1Hex),
    ("sha256_hex", Filter::Sha256Hex),
    ("sha256_b64", Filter::Sha256Base64),
    ("sha512_hex", Filter::Sha512Hex),
    ("base64", Filter::Base64),
    ("upper", Filter::Upper),
    ("lower", Filter::Lower),
    ("reverse", Filter::Reverse),
    ("trim", Filter::Trim),
    ("raw", Filter::Raw),
    ("json", Filter::Json),
    ("url", Filter::Url),
    ("compact", Filter::Compact),
    ("uuid", Filter::Uuid),
    ("ascii", Filter::Ascii),
];

/// The filters with an argument, for messages.
const WITH_ARGUMENT: &str =
    "after:<text>, before:<text>, first:<number>, uuid_time:<pattern> <zone>";

impl Filter {
    pub(crate) fn parse(name: &str) -> Result<Self, TemplateError> {
        let plain = ALL.iter().find(|(known, _)| *known == name).map(|(_, filter)| filter.clone());
        let with = || name.split_once(':').and_then(|(name, argument)| Self::with(name, argument));
        plain.or_else(with).ok_or_else(|| {
            let known: Vec<_> = ALL.iter().map(|(name, _)| *name).collect();
            TemplateError(format!(
                "there is no filter {name}; there are: {}, {WITH_ARGUMENT}",
                known.join(", ")
            ))
        })
    }

    /// Whether its result may hold punctuation of the value.
    pub(crate) const fn lets_marks_through(&self) -> bool {
        matches!(
            self,
            Self::Upper
                | Self::Lower
                | Self::Reverse
                | Self::Trim
                | Self::Raw
                | Self::Json
                | Self::Compact
                | Self::After(_)
                | Self::Before(_)
                | Self::First(_)
        )
    }

    /// Parses a filter with an argument. `None` if the name is unknown or the argument is invalid.
    fn with(name: &str, argument: &str) -> Option<Self> {
        let text = Some(argument.to_owned()).filter(|text| !text.is_empty());
        match name {
            "after" => text.map(Self::After),
            "before" => text.map(Self::Before),
            "first" => argument.parse().ok().filter(|count| *count > 0).map(Self::First),
            "uuid_time" => {
                let (pattern, zone) = argument.rsplit_once(' ')?;
                let zone = ZoneRule::parse(zone).filter(|_| is_pattern(pattern))?;
                let format = TimeFormat::Pattern(pattern.to_owned(), zone);
                format.writes().then_some(Self::UuidTime(format))
            }
            _ => None,
        }
    }

    /// Applies the filter. `Raw` is applied where the value is read.
    pub(crate) fn apply(&self, value: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Crc32 => crc32fast::hash(&value).to_string().into_bytes(),
            Self::Md5Hex => hex::encode(Md5::digest(&value)).into_bytes(),
            Self::Sha1Hex => hex::encode(Sha1::digest(&value)).into_bytes(),
            Self::Sha256Hex => hex::encode(Sha256::digest(&value)).into_bytes(),
            Self::Sha256Base64 => STANDARD.encode(Sha256::digest(&value)).into_bytes(),
            Self::Sha512Hex => hex::encode(Sha512::digest(&value)).into_bytes(),
            Self::Base64 => STANDARD.encode(&value).into_bytes(),
            Self::Raw => value,
            Self::Upper => text(value, str::to_uppercase),
            Self::Lower => text(value, str::to_lowercase),
            Self::Reverse => text(value, |text| text.chars().rev().collect()),
            Self::Trim => text(value, |text| text.trim().to_owned()),
            Self::Json => escape_json(&value),
            Self::Url => {
                let mut encoded = Vec::with_capacity(value.len());
                PairEncoding::Rfc3986.write(&value, b"", &mut encoded);
                encoded
            }
            Self::Compact => text(value, |text| text.replace('-', "")),
            Self::Uuid => text(value, |text| uuid(text).unwrap_or_default()),
            Self::Ascii => text(value, |text| {
                let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { ' ' };
                text.chars().map(plain).collect()
            }),
            Self::After(mark) => text(value, |text| {
                text.split_once(mark.as_str()).map_or("", |(_, behind)| behind).to_owned()
            }),
            Self::Before(mark) => text(value, |text| {
                text.split_once(mark.as_str()).map_or("", |(before, _)| before).to_owned()
            }),
            Self::First(count) => text(value, |text| text.chars().take(*count).collect()),
            Self::UuidTime(format) => text(value, |text| {
                let made = uuid_ms(text).map(|ms| format.write(Time::from_unix_ms(ms)));
                made.unwrap_or_default()
            }),
        }
    }

    /// A pattern that every result matches. `None` if the result depends on the value.
    pub(crate) const fn shape(&self) -> Option<&'static str> {
        match self {
            Self::Crc32 => Some("[0-9]{1,10}"),
            Self::Md5Hex => Some("[0-9a-f]{32}"),
            Self::Sha1Hex => Some("[0-9a-f]{40}"),
            Self::Sha256Hex => Some("[0-9a-f]{64}"),
            Self::Sha256Base64 => Some("[A-Za-z0-9+/]{43}="),
            Self::Sha512Hex => Some("[0-9a-f]{128}"),
            _ => None,
        }
    }

    /// How well a signature over the result protects the value.
    pub(crate) const fn keeps(&self) -> SignatureCoverage {
        match self {
            Self::Sha256Hex
            | Self::Sha256Base64
            | Self::Sha512Hex
            | Self::Base64
            | Self::Reverse
            | Self::Raw
            | Self::Json
            | Self::Url => SignatureCoverage::All,
            // Collisions of MD5 and SHA-1 are practical, yet one with two meaningful values is hard
            // to find.
            Self::Md5Hex | Self::Sha1Hex => SignatureCoverage::Weakly,
            Self::Upper | Self::Lower | Self::Trim => SignatureCoverage::ButForCase,
            // A CRC can be corrected: a change in one place is undone by a change in another.
            Self::Crc32 => SignatureCoverage::Nothing,
            // The part that is left out can be changed.
            Self::Compact
            | Self::Uuid
            | Self::Ascii
            | Self::After(_)
            | Self::Before(_)
            | Self::First(_)
            | Self::UuidTime(_) => SignatureCoverage::Nothing,
        }
    }

    /// Whether two values may have the same result, so that the order can't be found from it.
    pub(crate) const fn loses(&self) -> bool {
        !matches!(self, Self::Raw | Self::Json | Self::Url | Self::Base64)
    }
}

/// Escapes for a JSON string. What is not UTF-8 stays, and what is about it is escaped.
fn escape_json(value: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(value.len());
    for chunk in value.utf8_chunks() {
        let quoted = serde_json::Value::from(chunk.valid()).to_string();
        escaped.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
        escaped.extend_from_slice(chunk.invalid());
    }
    escaped
}

fn text(value: Vec<u8>, change: impl Fn(&str) -> String) -> Vec<u8> {
    match std::str::from_utf8(&value) {
        Ok(text) => change(text).into_bytes(),
        Err(_) => value,
    }
}

/// Formats 32 hex digits as 8-4-4-4-12. `None` for any other text.
fn uuid(text: &str) -> Option<String> {
    let digits = text.replace('-', "");
    let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hyphened = is_hex.then(|| {
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &digits[range]);
        parts.join("-")
    })?;
    (text == digits || text == hyphened).then_some(hyphened)
}

/// The creation time of a version 7 UUID at the end of a text, ms (RFC 9562, 5.7).
fn uuid_ms(text: &str) -> Option<i64> {
    let start = text.len().checked_sub(36).filter(|start| text.is_char_boundary(*start))?;
    let digits = text[start..].replace('-', "");
    let is_seven = uuid(&digits).is_some_and(|hyphened| {
        hyphened.eq_ignore_ascii_case(&text[start..]) && hyphened.as_bytes()[14] == b'7'
    });
    is_seven.then(|| i64::from_str_radix(&digits[..12], 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_change_values() {
        for (name, value, expected) in [
            ("crc32", "123456789", "3421780262"),
            ("md5_hex", "abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("sha1_hex", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("sha256_hex", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("sha256_b64", "", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
            ("base64", "f\u{fc}", "ZsO8"),
            ("upper", "aé", "AÉ"),
            ("lower", "ABC", "abc"),
            ("reverse", "añb", "bña"),
            ("trim", " a ", "a"),
            ("url", "a b/é~", "a%20b%2F%C3%A9~"),
            ("json", "a\"\\\n", "a\\\"\\\\\\n"),
            ("compact", "a-b--c", "abc"),
            ("uuid", "019c137ec10070008000000000000001", "019c137e-c100-7000-8000-000000000001"),
            (
                "uuid",
                "019c137e-c100-7000-8000-000000000001",
                "019c137e-c100-7000-8000-000000000001",
            ),
            ("uuid", "019c137ec100-7000-8000-0000000-00000001", ""),
            ("uuid", "019c137ec1007000800000000000000", ""),
            ("uuid", "019c137ec10070008000000000000x01", ""),
            ("ascii", "Vé số_1!", "V  s  1 "),
            ("after:_", "260131_x_y", "x_y"),
            ("after:_", "260131", ""),
            ("after:ord-", "ord-7", "7"),
            ("before:::", "a:b::c", "a:b"),
            ("before:x", "abc", ""),
            ("first:3", "éàüx", "éàü"),
            ("first:3", "é", "é"),
            (
                "uuid_time:%y%m%d %H:%M +07:00",
                "ord-019c137e-c100-7000-8000-000000000001",
                "260131 17:00",
            ),
            ("uuid_time:%y%m%d UTC", "019c137e-c100-4000-8000-000000000001", ""),
            ("uuid_time:%y%m%d UTC", "ord-1", ""),
        ] {
            let done = Filter::parse(name).unwrap().apply(value.as_bytes().to_vec());
            assert_eq!(String::from_utf8(done).unwrap(), expected, "{name} {value}");
        }
    }

    #[test]
    fn an_argument_that_can_t_be_is_refused() {
        for name in [
            "after",
            "after:",
            "first:",
            "first:0",
            "first:x",
            "first:-1",
            "shout:x",
            "uuid_time:%y%m%d",
            "uuid_time:%y%m%d Mars",
            "uuid_time:%Q UTC",
            "uuid_time:y UTC",
        ] {
            let error = Filter::parse(name).unwrap_err();
            assert!(error.0.starts_with(&format!("there is no filter {name}; there are: crc32")));
        }
    }

    /// An order id is shortened for a gateway, and restored.
    #[test]
    fn a_shortened_order_id_can_be_restored() {
        let order = "ord-019c137e-c100-7abc-8000-00000000000f";
        let through = |names: &[&str], text: &str| {
            let apply = |value, name: &&str| Filter::parse(name).unwrap().apply(value);
            String::from_utf8(names.iter().fold(text.as_bytes().to_vec(), apply)).unwrap()
        };
        let short = through(&["after:ord-", "compact"], order);
        let sent = format!("{}_{short}", through(&["uuid_time:%y%m%d +07:00"], order));
        assert_eq!(sent, "260131_019c137ec1007abc800000000000000f");
        assert_eq!(format!("ord-{}", through(&["after:_", "uuid"], &sent)), order);
    }
}
