//! Owns HMAC-SHA256 (RFC 2104, contract 5): keyed once, compared in constant time.
//! A received signature has exactly one spelling; any other is no signature.

use std::fmt;

use hmac::{Hmac, Mac};
use serde::Deserialize;
use sha2::Sha256;

/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 32;

/// How a signature is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Output {
    /// 64 hex digits, `a` to `f`.
    #[serde(rename = "hex-lower")]
    HexLower,
    /// 64 hex digits, `A` to `F`.
    #[serde(rename = "hex-upper")]
    HexUpper,
}

impl Output {
    /// Writes a signature.
    pub fn write(self, signature: &[u8; SIGNATURE_BYTES]) -> String {
        match self {
            Self::HexLower => hex::encode(signature),
            Self::HexUpper => hex::encode_upper(signature),
        }
    }

    /// Reads a signature that is written exactly this way; `None` for any other text.
    pub fn read(self, text: &str) -> Option<[u8; SIGNATURE_BYTES]> {
        // The hex crate takes either case; this system takes the profile's.
        let other_case = match self {
            Self::HexLower => b'A'..=b'F',
            Self::HexUpper => b'a'..=b'f',
        };
        let mut signature = [0; SIGNATURE_BYTES];
        hex::decode_to_slice(text, &mut signature).ok()?;
        text.bytes().all(|b| !other_case.contains(&b)).then_some(signature)
    }
}

/// An HMAC-SHA256 that has taken its key in, ready for any number of texts. Worth as much as the key.
#[derive(Clone)]
pub struct MacKey(Hmac<Sha256>);

impl MacKey {
    /// Takes a key of any length in.
    pub fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes a key of any length"))
    }

    /// The signature of `text`.
    pub fn sign(&self, text: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.0.clone().chain_update(text).finalize().into_bytes().into()
    }

    /// Whether `claimed` is the signature of `text`, in a time that doesn't depend on where they differ.
    pub fn verifies(&self, text: &[u8], claimed: &[u8; SIGNATURE_BYTES]) -> bool {
        self.0.clone().chain_update(text).verify_slice(claimed).is_ok()
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(..)")
    }
}
