//! Owns the text encodings of a signature. Invariant: a signature is decoded only from the encoding
//! that the profile names; `hex-lower` and `hex-upper` refuse the other case.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use schemars::JsonSchema;
use serde::Deserialize;

/// The encoding of a signature, `output` in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SignatureEncoding {
    /// Lower-case hex digits.
    HexLower,
    /// Upper-case hex digits.
    HexUpper,
    /// Upper or lower case.
    Hex,
    /// The alphabet with `+` and `/`, padded.
    Base64,
    /// The alphabet with `-` and `_`, padded or not.
    Base64url,
    /// The bytes themselves, for tokens.
    Text,
}

impl SignatureEncoding {
    /// Decodes a signature. `None` if the text has another encoding.
    pub(crate) fn decode(self, text: &str) -> Option<Vec<u8>> {
        let wrong_case = match self {
            Self::HexLower => Some(b'A'..=b'F'),
            Self::HexUpper => Some(b'a'..=b'f'),
            Self::Hex | Self::Base64 | Self::Base64url | Self::Text => None,
        };
        match self {
            Self::HexLower | Self::HexUpper | Self::Hex => {
                let is_right = !text
                    .bytes()
                    .any(|byte| wrong_case.as_ref().is_some_and(|case| case.contains(&byte)));
                hex::decode(text).ok().filter(|_| is_right)
            }
            Self::Base64 => STANDARD.decode(text).ok(),
            Self::Base64url => {
                let bare = text.trim_end_matches('=');
                URL_SAFE_NO_PAD.decode(bare).ok()
            }
            Self::Text => Some(text.as_bytes().to_vec()),
        }
    }

    pub(crate) fn encode(self, signature: &[u8]) -> String {
        match self {
            Self::HexLower | Self::Hex => hex::encode(signature),
            Self::HexUpper => hex::encode_upper(signature),
            Self::Base64 => STANDARD.encode(signature),
            Self::Base64url => URL_SAFE_NO_PAD.encode(signature),
            Self::Text => String::from_utf8_lossy(signature).into_owned(),
        }
    }
}
