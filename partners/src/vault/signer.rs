//! Owns the signature of documents in a vault's name: Ed25519 (RFC 8032), with a key derived from the vault's identity
//! and kept nowhere. Whoever has the public key can check a document; only who holds the identity can sign one.
//! Another identity is another signer: what the old one signed stays checkable with its public key.

use std::fmt;
use std::path::Path;

use age::secrecy::ExposeSecret;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use zeroize::Zeroizing;

use super::{VaultError, read_identities};
use crate::mac::MacKey;

/// Bytes of a public key.
pub const PUBLIC_KEY_BYTES: usize = 32;

/// Sets this key apart from any other that may be derived from an identity.
const PURPOSE: &[u8] = b"payfold document signature v1";

/// Signs in a vault's name. Worth as much as the identity.
pub struct Signer(Ed25519KeyPair);

impl Signer {
    /// The signer of the identity file at this path, the newest one in it. Errors: those of an identity.
    pub fn open(identity: &Path) -> Result<Self, VaultError> {
        let text = read_identities(identity)?.swap_remove(0).to_string();
        let seed = Zeroizing::new(MacKey::new(text.expose_secret().as_bytes()).sign(PURPOSE));
        let pair = Ed25519KeyPair::from_seed_unchecked(&*seed).expect("a seed has 32 bytes");
        Ok(Self(pair))
    }

    /// What others check with.
    pub fn public_key(&self) -> [u8; PUBLIC_KEY_BYTES] {
        self.0.public_key().as_ref().try_into().expect("an Ed25519 public key has 32 bytes")
    }

    /// The signature of a text, 64 bytes.
    pub fn sign(&self, text: &[u8]) -> Vec<u8> {
        self.0.sign(text).as_ref().to_vec()
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(..)")
    }
}

/// Whether the holder of this public key has signed this text.
pub fn has_signed(public_key: &[u8; PUBLIC_KEY_BYTES], text: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public_key).verify(text, signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::{IDENTITY_FILE, Vault};
    use super::*;

    #[test]
    fn what_one_identity_signed_no_other_did() {
        let signer = || {
            let folder = tempfile::tempdir().unwrap();
            Vault::create(folder.path()).unwrap();
            let path = folder.path().join(IDENTITY_FILE);
            let again = Signer::open(&path).unwrap().public_key();
            let signer = Signer::open(&path).unwrap();
            assert_eq!(signer.public_key(), again, "derived, not drawn");
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
        assert_eq!(format!("{one:?}"), "Signer(..)");
    }
}
