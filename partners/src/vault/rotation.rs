//! Owns the rotation of the identity that decrypts an age vault. Invariant: after every step, and
//! so after a crash at any point, an identity in the identity file decrypts the vault. First the
//! new identity is added to the file, then the vault is encrypted to it, then the old identities
//! are removed. Another rotation completes one that was interrupted.

use std::fs::File;
use std::path::{Path, PathBuf};

use age::secrecy::ExposeSecret;
use age::x25519::{Identity, Recipient};
use zeroize::Zeroizing;

use super::file;
use crate::vault::encryption::{decrypt, encrypt, read_document, read_identities};
use crate::vault::error::VaultError;

/// The identities before and after a rotation, by their public keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotatedIdentity {
    /// The identities that decrypted the vault before the rotation.
    pub old: Vec<String>,
    /// The identity that decrypts the vault after the rotation.
    pub new: String,
}

/// Encrypts the vault to a new identity, which replaces the old one in the identity file. Errors:
/// those of opening and saving a vault; the identity file then still decrypts the vault.
pub fn rotate_identity(vault: &Path, identity: &Path) -> Result<RotatedIdentity, VaultError> {
    let rotation = Rotation::begin(vault, identity)?;
    rotation.keep_both()?;
    rotation.seal()?;
    rotation.drop_old()
}

struct Rotation {
    vault: PathBuf,
    /// The identity file with links followed: the path beside the vault may be a link.
    identity: PathBuf,
    old: Vec<Identity>,
    new: Identity,
    plain: Zeroizing<Vec<u8>>,
    /// Held so that no other process saves during the rotation.
    _lock: File,
}

impl Rotation {
    fn begin(vault: &Path, identity: &Path) -> Result<Self, VaultError> {
        let lock = file::lock(vault)?;
        let old = read_identities(identity)?;
        let sealed = std::fs::read(vault).map_err(file::io("read", vault))?;
        let plain = decrypt(&old, &sealed, vault)?;
        read_document(vault, &plain)?;
        let real = |path: &Path| std::fs::canonicalize(path).map_err(file::io("find", path));
        Ok(Self {
            vault: real(vault)?,
            identity: real(identity)?,
            old,
            new: Identity::generate(),
            plain,
            _lock: lock,
        })
    }

    fn keep_both(&self) -> Result<(), VaultError> {
        let all = [&self.new].into_iter().chain(&self.old);
        file::replace(&self.identity, identity_file(all).as_bytes())
    }

    fn seal(&self) -> Result<(), VaultError> {
        file::replace(&self.vault, &encrypt(&[self.new.to_public()], &self.plain))
    }

    fn drop_old(&self) -> Result<RotatedIdentity, VaultError> {
        file::replace(&self.identity, identity_file([&self.new].into_iter()).as_bytes())?;
        let name = |identity: &Identity| identity.to_public().to_string();
        Ok(RotatedIdentity { old: self.old.iter().map(name).collect(), new: name(&self.new) })
    }
}

/// The text of an identity file with these identities, each below its public key, as age-keygen
/// writes it.
pub(super) fn identity_file<'i>(
    identities: impl Iterator<Item = &'i Identity>,
) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::new());
    for identity in identities {
        let (public, secret): (Recipient, _) = (identity.to_public(), identity.to_string());
        text.push_str(&format!("# public key: {public}\n"));
        text.push_str(secret.expose_secret());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::age_file::{IDENTITY_FILE, VAULT_FILE, Vault};

    struct RotationFolder(tempfile::TempDir);

    impl RotationFolder {
        fn new() -> Self {
            let folder = Self(tempfile::tempdir().unwrap());
            Vault::create(folder.0.path()).unwrap();
            folder
        }

        fn paths(&self) -> [PathBuf; 2] {
            [VAULT_FILE, IDENTITY_FILE].map(|name| self.0.path().join(name))
        }

        fn begin(&self) -> Rotation {
            let [vault, identity] = self.paths();
            Rotation::begin(&vault, &identity).unwrap()
        }

        fn identities(&self) -> Vec<String> {
            let [_, identity] = self.paths();
            let all = read_identities(&identity).unwrap();
            all.iter().map(|identity| identity.to_public().to_string()).collect()
        }

        fn opens(&self) -> Vault {
            let [vault, identity] = self.paths();
            Vault::open(&vault, &identity).unwrap()
        }
    }

    #[test]
    fn a_new_identity_opens_the_vault_and_the_old_one_does_not() {
        let folder = RotationFolder::new();
        let [vault, identity] = folder.paths();
        let old = std::fs::read_to_string(&identity).unwrap();
        let before = folder.identities();
        let rotated = rotate_identity(&vault, &identity).unwrap();
        assert_eq!((&rotated.old, vec![rotated.new]), (&before, folder.identities()));
        assert!(!std::fs::read_to_string(&identity).unwrap().contains(old.lines().last().unwrap()));
        folder.opens().save().unwrap();
        file::replace(&identity, old.as_bytes()).unwrap();
        let error = Vault::open(&vault, &identity).unwrap_err();
        assert!(matches!(error, VaultError::Sealed { .. }), "{error}");
    }

    #[test]
    fn a_crash_after_any_step_leaves_a_vault_that_opens() {
        type Step = fn(&Rotation) -> Result<(), VaultError>;
        let steps: [Step; 3] =
            [Rotation::keep_both, Rotation::seal, |rotation| rotation.drop_old().map(drop)];
        for done in 0..=steps.len() {
            let folder = RotationFolder::new();
            let rotation = folder.begin();
            for step in &steps[..done] {
                step(&rotation).unwrap();
            }
            drop(rotation);
            let expected = if matches!(done, 1 | 2) { 2 } else { 1 };
            assert_eq!(folder.identities().len(), expected, "{done} steps");
            // The vault can be changed, and another rotation leaves one identity.
            folder.opens().save().unwrap();
            folder.opens();
            let [vault, identity] = folder.paths();
            let rotated = rotate_identity(&vault, &identity).unwrap();
            assert_eq!(rotated.old.len(), expected, "{done} steps");
            assert_eq!(folder.identities(), [rotated.new], "{done} steps");
            folder.opens();
        }
    }

    #[test]
    fn a_rotation_prevents_other_saves() {
        let folder = RotationFolder::new();
        let mut opened = folder.opens();
        let rotation = folder.begin();
        assert!(matches!(opened.save().unwrap_err(), VaultError::Locked { .. }));
        rotation.keep_both().unwrap();
        rotation.seal().unwrap();
        drop(rotation);
        assert!(matches!(opened.save().unwrap_err(), VaultError::Changed { .. }));
    }

    #[cfg(unix)]
    #[test]
    fn an_identity_that_is_linked_to_is_replaced_where_it_is() {
        let folder = RotationFolder::new();
        let [vault, identity] = folder.paths();
        let other_folder = tempfile::tempdir().unwrap();
        let real = other_folder.path().join("identity");
        std::fs::rename(&identity, &real).unwrap();
        std::os::unix::fs::symlink(&real, &identity).unwrap();
        rotate_identity(&vault, &identity).unwrap();
        assert!(std::fs::symlink_metadata(&identity).unwrap().is_symlink());
        folder.opens();
    }
}
