//! Owns `Secret`: the bytes of a shared secret or private key. They are wiped when dropped, and no
//! `Debug` shows them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// The beginning of a PEM file of keys or certificates (RFC 7468).
pub(crate) const PEM: &str = "-----BEGIN ";

/// The bytes of a secret. The vault stores them as hex.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

/// The text of a secret has no known encoding as its prefix, or is malformed in that encoding. The
/// error does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the secret can't be read; write it as text:…, hex:… or base64:…, whichever the partner means, \
     PEM as it is"
)]
pub struct SecretError;

impl Secret {
    /// Wraps the bytes of a secret.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Parses `text:…` (the UTF-8 bytes), `hex:…`, `base64:…` or PEM. A prefix is required, because
    /// a key of hex digits may mean the digits or the bytes. Errors: `SecretError`.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        if text.starts_with(PEM) {
            return Ok(Self::from_bytes(text.as_bytes().to_vec()));
        }
        let (encoding, value) = text.split_once(':').ok_or(SecretError)?;
        match encoding {
            "text" => Ok(value.as_bytes().to_vec()),
            "hex" => hex::decode(value).map_err(|_| SecretError),
            "base64" => STANDARD.decode(value).map_err(|_| SecretError),
            _ => Err(SecretError),
        }
        .map(Self::from_bytes)
    }

    /// The bytes, for keying an algorithm.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Zeroizing::new(hex::encode(&*self.0)))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        // The decoder's own error would quote a digit of the secret.
        let bytes = hex::decode(&*text).map_err(|_| serde::de::Error::custom("a secret is hex"))?;
        Ok(Self::from_bytes(bytes))
    }
}

/// The shortest accepted secret for HMAC, in bytes.
pub const SECRET_BYTES_MIN: usize = 24;

/// The shortest secret that a custom scheme may accept, in bytes: for plain digests, for tokens,
/// and for HMAC if the profile allows it.
pub const SECRET_BYTES_LEAST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_needs_the_prefix_of_its_encoding() {
        let read = |text| Secret::parse(text).map(|secret| secret.expose().to_vec());
        assert_eq!(read("text:6869"), Ok(b"6869".to_vec()));
        assert_eq!(read("text:a:b c"), Ok(b"a:b c".to_vec()));
        assert_eq!(read("hex:6869"), Ok(b"hi".to_vec()));
        assert_eq!(read("-----BEGIN X-----\n"), Ok(b"-----BEGIN X-----\n".to_vec()));
        assert_eq!(read("base64:aGk="), Ok(b"hi".to_vec()));
        for text in ["", "6869", "hex:686", "hex:zz", "base64:aGk", "base64:?", "utf8:hi"] {
            assert_eq!(read(text), Err(SecretError), "{text}");
        }
    }

    #[test]
    fn a_secret_is_stored_as_hex_and_read_back() {
        let secret = Secret::from_bytes(vec![0, 0xff, b'"']);
        let stored = serde_json::to_string(&secret).unwrap();
        assert_eq!(stored, "\"00ff22\"");
        assert_eq!(serde_json::from_str::<Secret>(&stored).unwrap().expose(), secret.expose());
        let error = serde_json::from_str::<Secret>("\"hush\"").unwrap_err();
        assert!(!error.to_string().contains("hush"), "{error}");
    }

    #[test]
    fn debug_shows_no_secret() {
        assert_eq!(format!("{:?}", Secret::from_bytes(b"hush".to_vec())), "Secret(..)");
    }
}
