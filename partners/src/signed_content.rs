//! Owns the identity of a notice's signed content, by which ingest recognises a replay. Invariant:
//! `Debug` does not show it, because the signed text may contain the key's secret.

use std::fmt;

use payfold_schemas::digest::Digest;

use crate::mac::SIGNATURE_BYTES;

/// The identity of signed content: its HMAC-SHA256, or else the SHA-256 of the signed text.
#[derive(Clone, Copy)]
pub(crate) struct SignedContent([u8; 32]);

impl SignedContent {
    pub(crate) const fn by(signature: [u8; SIGNATURE_BYTES]) -> Self {
        Self(signature)
    }

    pub(crate) fn text(text: &[u8]) -> Self {
        Self(*Digest::of_bytes(text).as_bytes())
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SignedContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignedContent(..)")
    }
}
