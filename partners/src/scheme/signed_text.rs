//! Owns the digest that names the signed text of a notice. Invariant: the text itself leaves no trace.

use std::fmt;

use payfold_schemas::digest::Digest;

/// The SHA-256 of the text that was signed. That text may hold the key's secret, so it is shown nowhere.
#[derive(Clone, Copy)]
pub(crate) struct SignedTextDigest([u8; 32]);

impl SignedTextDigest {
    pub(crate) fn of(text: &[u8]) -> Self {
        Self(*Digest::of_bytes(text).as_bytes())
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SignedTextDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignedTextDigest(..)")
    }
}
