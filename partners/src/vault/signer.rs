//! Owns the signing of documents with the identity of a vault: Ed25519 (RFC 8032), with a key that
//! is derived from the identity and stored nowhere. Verifying a document needs only the public key;
//! signing one needs the identity. A new identity makes a new signer. Documents that the old one
//! signed can still be verified with the old public key.

use std::fmt;
use std::path::Path;

use age::secrecy::ExposeSecret;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use zeroize::Zeroizing;

use crate::mac::MacKey;
use crate::vault::encryption::read_identities;
use crate::vault::error::VaultError;

/// The length of a public key, in bytes.
pub const PUBLIC_KEY_BYTES: usize = 32;

/// Separates this key from other keys that may be derived from an identity.
const PURPOSE: &[u8] = b"payfold document signature v1";

/// Signs documents for a vault. It is as secret as the identity.
pub struct DocumentSigner(Ed25519KeyPair);

impl DocumentSigner {
    /// The signer of the newest identity in the file at this path. Errors: those of reading an
    /// identity.
    pub fn open(identity: &Path) -> Result<Self, VaultError> {
        let text = read_identities(identity)?.swap_remove(0).to_string();
        let seed = Zeroizing::new(MacKey::new(text.expose_secret().as_bytes()).sign(PURPOSE));
        let pair = Ed25519KeyPair::from_seed_unchecked(&*seed).expect("a seed has 32 bytes");
        Ok(Self(pair))
    }

    /// The public key, which verifies signatures.
    pub fn public_key(&self) -> [u8; PUBLIC_KEY_BYTES] {
        self.0.public_key().as_ref().try_into().expect("an Ed25519 public key has 32 bytes")
    }

    /// Signs a text. The signature has 64 bytes.
    pub fn sign(&self, text: &[u8]) -> Vec<u8> {
        self.0.sign(text).as_ref().to_vec()
    }
}

impl fmt::Debug for DocumentSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DocumentSigner(..)")
    }
}

/// Whether this is a signature of the text by the owner of this public key.
pub fn has_signed(public_key: &[u8; PUBLIC_KEY_BYTES], text: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public_key).verify(text, signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::age_file::{IDENTITY_FILE, Vault};

    #[test]
    fn a_signature_belongs_to_one_identity_and_one_text() {
        let signer = || {
            let folder = tempfile::tempdir().unwrap();
            Vault::create(folder.path()).unwrap();
            let path = folder.path().join(IDENTITY_FILE);
            let first = DocumentSigner::open(&path).unwrap().public_key();
            let signer = DocumentSigner::open(&path).unwrap();
            assert_eq!(signer.public_key(), first, "the key is derived, not random");
            signer
        };
        let (one, other) = (signer(), signer());
        assert_ne!(one.public_key(), other.public_key());
        let signature = one.sign(b"text");
        assert!(has_signed(&one.public_key(), b"text", &signature));
        assert!(!has_signed(&one.public_key(), b"texT", &signature));
        assert!(!has_signed(&other.public_key(), b"text", &signature));
        assert!(!has_signed(&one.public_key(), b"text", &signature[1..]));
        assert!(!has_signed(&one.public_key(), b"text", b""));
        assert_eq!(format!("{one:?}"), "DocumentSigner(..)");
    }
}
