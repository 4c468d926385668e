//! Owns the filters of a template: what a value is turned into on its way into a text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::encoding::Encoding;
use super::template::TemplateError;

/// One filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The characters in the opposite order.
    Reverse,
    /// White space at both ends removed.
    Trim,
    /// As received: of JSON the text that stood there, of a parameter the encoded one.
    Raw,
    /// Inside a JSON string: quotes, backslashes and control characters escaped.
    Json,
    /// Percent-encoded (RFC 3986): only letters, digits and `- . _ ~` stay.
    Url,
}

/// How much of a value a filter leaves in a signed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Keeps {
    Nothing,
    ButForCase,
    Weakly,
    All,
}

const ALL: [(&str, Filter); 14] = [
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
];

impl Filter {
    pub(crate) fn parse(name: &str) -> Result<Self, TemplateError> {
        ALL.iter().find(|(known, _)| *known == name).map(|(_, filter)| *filter).ok_or_else(|| {
            let known: Vec<_> = ALL.iter().map(|(name, _)| *name).collect();
            TemplateError(format!("there is no filter {name}; there are: {}", known.join(", ")))
        })
    }

    /// What becomes of a value. `Raw` is done where the value is found.
    pub(crate) fn apply(self, value: Vec<u8>) -> Vec<u8> {
        let text = |value: Vec<u8>, change: fn(&str) -> String| match std::str::from_utf8(&value) {
            Ok(text) => change(text).into_bytes(),
            Err(_) => value,
        };
        match self {
            Self::Crc32 => crc32fast::hash(&value).to_string().into_bytes(),
            Self::Md5Hex => hex::encode(Md5::digest(&value)).into_bytes(),
            Self::Sha1Hex => hex::encode(Sha1::digest(&value)).into_bytes(),
            Self::Sha256Hex => hex::encode(Sha256::digest(&value)).into_bytes(),
            Self::Sha256Base64 => STANDARD.encode(Sha256::digest(&value)).into_bytes(),
            Self::Sha512Hex => hex::encode(Sha512::digest(&value)).into_bytes(),
            Self::Base64 => STANDARD.encode(&value).into_bytes(),
            Self::Upper => text(value, str::to_uppercase),
            Self::Lower => text(value, str::to_lowercase),
            Self::Reverse => text(value, |text| text.chars().rev().collect()),
            Self::Trim => text(value, |text| text.trim().to_owned()),
            Self::Raw => value,
            Self::Json => text(value, |text| {
                let quoted = serde_json::Value::from(text).to_string();
                quoted[1..quoted.len() - 1].to_owned()
            }),
            Self::Url => {
                let mut encoded = Vec::with_capacity(value.len());
                let text = String::from_utf8_lossy(&value);
                Encoding::Rfc3986.write(&text, "", &mut encoded);
                encoded
            }
        }
    }

    /// What a signature over what comes out says of the value that went in.
    pub(crate) const fn keeps(self) -> Keeps {
        match self {
            Self::Sha256Hex
            | Self::Sha256Base64
            | Self::Sha512Hex
            | Self::Base64
            | Self::Reverse
            | Self::Raw
            | Self::Json
            | Self::Url => Keeps::All,
            // Nobody finds another value of the same digest that also means something; yet it is possible.
            Self::Md5Hex | Self::Sha1Hex => Keeps::Weakly,
            Self::Upper | Self::Lower | Self::Trim => Keeps::ButForCase,
            // Whoever changes one place can put another right.
            Self::Crc32 => Keeps::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_does_what_its_name_says() {
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
        ] {
            let done = Filter::parse(name).unwrap().apply(value.as_bytes().to_vec());
            assert_eq!(String::from_utf8(done).unwrap(), expected, "{name}");
        }
    }
}
