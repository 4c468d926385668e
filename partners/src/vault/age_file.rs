//! Owns the vault as one file, encrypted with age.

use std::fmt;
use std::path::{Path, PathBuf};

use age::x25519::{Identity, Recipient};
use payfold_schemas::digest::Digest;
use zeroize::Zeroizing;

use crate::document::VaultDocument;
use crate::vault::encryption::{decrypt, encrypt, read_document, read_identities, recipients};
use crate::vault::error::VaultError;
use crate::vault::{file, rotation};

/// The vault's file name in a data folder.
pub const VAULT_FILE: &str = "vault.age";

/// The name of the file with the age identity that decrypts the vault.
pub const IDENTITY_FILE: &str = "vault.key";

/// The decrypted document of one vault file.
pub struct Vault {
    pub(crate) path: PathBuf,
    /// The recipients of the next save: one for each identity in the identity file.
    pub(crate) recipients: Vec<Recipient>,
    pub(crate) document: VaultDocument,
    /// The digest of the file that the document was read from or last written to; `None` before the
    /// first save.
    pub(crate) saved: Option<Digest>,
}

impl Vault {
    /// Creates an empty vault in `dir`. It also creates an identity, unless the folder has one.
    /// Errors: `Exists`, `Io`, and those of reading the identity.
    pub fn create(dir: &Path) -> Result<Self, VaultError> {
        Self::create_at(dir.join(VAULT_FILE), &dir.join(IDENTITY_FILE))
    }

    /// Creates an empty vault as `create` does, in these files.
    pub fn create_at(path: PathBuf, identity_path: &Path) -> Result<Self, VaultError> {
        if path.exists() {
            return Err(VaultError::Exists { path });
        }
        for dir in [path.parent(), identity_path.parent()].into_iter().flatten() {
            std::fs::create_dir_all(dir).map_err(file::io("make the folder", dir))?;
        }
        if !identity_path.exists() {
            let text = rotation::identity_file([&Identity::generate()].into_iter());
            file::write_new(identity_path, text.as_bytes())?;
        }
        let recipients = recipients(&read_identities(identity_path)?);
        let document = VaultDocument::default();
        let mut vault = Self { path, recipients, document, saved: None };
        vault.save()?;
        Ok(vault)
    }

    /// Opens the vault at `path` with the identity file `identity`. Errors: every `VaultError`
    /// except those of saving.
    pub fn open(path: &Path, identity: &Path) -> Result<Self, VaultError> {
        let identities = read_identities(identity)?;
        let sealed = std::fs::read(path).map_err(file::io("read", path))?;
        let plain = decrypt(&identities, &sealed, path)?;
        Ok(Self {
            path: path.to_owned(),
            recipients: recipients(&identities),
            document: read_document(path, &plain)?,
            saved: Some(Digest::of_bytes(&sealed)),
        })
    }

    /// The accounts and tokens.
    pub fn document(&self) -> &VaultDocument {
        &self.document
    }

    /// The accounts and tokens, to change them before a `save`.
    pub fn document_mut(&mut self) -> &mut VaultDocument {
        &mut self.document
    }

    /// The accounts and tokens alone.
    pub(crate) fn into_document(self) -> VaultDocument {
        self.document
    }

    /// Replaces the file durably by the document in memory. Errors: `Locked` and `Changed` (open
    /// the vault again and repeat the change), `Io`; the file is then unchanged.
    pub fn save(&mut self) -> Result<(), VaultError> {
        let _lock = file::lock(&self.path)?;
        let current = file::read_if_there(&self.path)?.map(|bytes| Digest::of_bytes(&bytes));
        // Another process has saved since this vault was read. Saving would lose its change.
        if current != self.saved {
            return Err(VaultError::Changed { path: self.path.clone() });
        }
        let plain = toml::to_string(&self.document).expect("the document has no unusual types");
        let sealed = encrypt(&self.recipients, Zeroizing::new(plain).as_bytes());
        file::replace(&self.path, &sealed)?;
        self.saved = Some(Digest::of_bytes(&sealed));
        Ok(())
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use age::secrecy::ExposeSecret;
    use payfold_schemas::ids::{MerchantCode, PartnerCode};

    use super::*;
    use crate::document::AccountEntry;
    use crate::document::VaultDocument;
    use crate::vault::encryption::random_secret;
    use crate::vault::encryption::{encrypt, read_identities, recipients};
    use crate::vault::place::VaultPlace;
    use crate::vault::watch::VaultWatch;
    use age::x25519::Identity;
    use std::path::PathBuf;

    struct VaultFolder(tempfile::TempDir);

    impl VaultFolder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn open(&self) -> Result<Vault, VaultError> {
            Vault::open(&self.path(VAULT_FILE), &self.path(IDENTITY_FILE))
        }

        /// Replaces the vault's content by this text, encrypted to its identity.
        fn seal(&self, text: &str) {
            let identities = read_identities(&self.path(IDENTITY_FILE)).unwrap();
            let sealed = encrypt(&recipients(&identities), text.as_bytes());
            file::replace(&self.path(VAULT_FILE), &sealed).unwrap();
        }
    }

    fn add_account(vault: &mut Vault, merchant: &str) {
        let partner = PartnerCode::parse("acme").unwrap();
        let account = AccountEntry::new(partner, MerchantCode::parse(merchant).unwrap());
        vault.document_mut().add_account(account).unwrap();
    }

    fn merchants(document: &VaultDocument) -> Vec<String> {
        document.accounts.iter().map(|a| a.merchant_code.to_string()).collect()
    }

    #[test]
    fn a_saved_vault_can_be_opened() {
        let folder = VaultFolder::new();
        let mut vault = Vault::create(&folder.path("")).unwrap();
        add_account(&mut vault, "SHOP");
        vault.save().unwrap();
        add_account(&mut vault, "SHOP-2");
        vault.save().unwrap();
        assert_eq!(merchants(folder.open().unwrap().document()), ["SHOP", "SHOP-2"]);
        let sealed = std::fs::read(folder.path(VAULT_FILE)).unwrap();
        assert!(sealed.starts_with(b"age-encryption.org/v1"));
        assert!(!sealed.windows(4).any(|bytes| bytes == b"SHOP"));
        let exists = Vault::create(&folder.path("")).unwrap_err();
        assert!(matches!(exists, VaultError::Exists { .. }), "{exists}");
    }

    #[test]
    fn an_identity_of_age_keygen_is_accepted() {
        let folder = VaultFolder::new();
        let text = Identity::generate().to_string();
        let text = format!("# created: today\n# public key: age1\n\n{}\n", text.expose_secret());
        file::write_new(&folder.path(IDENTITY_FILE), text.as_bytes()).unwrap();
        Vault::create(&folder.path("")).unwrap();
        folder.open().unwrap();
        assert_eq!(std::fs::read_to_string(folder.path(IDENTITY_FILE)).unwrap(), text);
    }

    #[test]
    fn a_change_on_top_of_another_is_refused() {
        let folder = VaultFolder::new();
        let mut first = Vault::create(&folder.path("")).unwrap();
        let mut second = folder.open().unwrap();
        add_account(&mut first, "SHOP");
        first.save().unwrap();
        add_account(&mut second, "OTHER");
        assert!(matches!(second.save().unwrap_err(), VaultError::Changed { .. }));
        assert_eq!(merchants(folder.open().unwrap().document()), ["SHOP"]);

        let lock = file::lock(&folder.path(VAULT_FILE)).unwrap();
        assert!(matches!(first.save().unwrap_err(), VaultError::Locked { .. }));
        drop(lock);
        first.save().unwrap();

        std::fs::remove_file(folder.path(VAULT_FILE)).unwrap();
        assert!(matches!(first.save().unwrap_err(), VaultError::Changed { .. }));
    }

    #[test]
    fn the_error_of_an_unreadable_vault_shows_none_of_its_content() {
        let folder = VaultFolder::new();
        Vault::create(&folder.path("")).unwrap();
        for (text, expected) in [
            ("version = 2\nnew = 1", "has version 2"),
            ("version = 1\nhush = 1", "line 2 is not understood"),
            ("version = 1\n\n[[accounts]]\npartner = \"hush!\"\n", "line 4 is not understood"),
            ("hush", "line 1 is not understood"),
            ("\u{0}", "line 1 is not understood"),
        ] {
            folder.seal(text);
            let error = folder.open().unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
            assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
        }
        std::fs::write(folder.path(VAULT_FILE), b"age-encryption.org/v1\n").unwrap();
        assert!(matches!(folder.open().unwrap_err(), VaultError::Sealed { .. }));
        let other = VaultFolder::new();
        Vault::create(&other.path("")).unwrap();
        let error = Vault::open(&other.path(VAULT_FILE), &folder.path(IDENTITY_FILE)).unwrap_err();
        assert!(matches!(error, VaultError::Sealed { .. }), "{error}");
        std::fs::remove_file(other.path(VAULT_FILE)).unwrap();
        assert!(matches!(other.open().unwrap_err(), VaultError::Io { .. }));
        std::fs::write(folder.path(IDENTITY_FILE), "hush").unwrap();
        let error = folder.open().unwrap_err();
        assert!(matches!(error, VaultError::NoIdentity { .. }), "{error}");
        assert!(!error.to_string().contains("hush"));
    }

    #[cfg(unix)]
    #[test]
    fn files_are_private_or_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = VaultFolder::new();
        Vault::create(&folder.path("")).unwrap();
        let mode =
            |name: &str| std::fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(VAULT_FILE), mode(IDENTITY_FILE)), (0o600, 0o600));
        for (bits, opens) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            let permissions = std::fs::Permissions::from_mode(bits);
            std::fs::set_permissions(folder.path(IDENTITY_FILE), permissions).unwrap();
            match folder.open() {
                Ok(_) => assert!(opens, "{bits:o}"),
                Err(error) => {
                    assert!(!opens && error.to_string().contains("run chmod 600 /"), "{error}");
                }
            }
        }
    }

    #[test]
    fn a_watch_reloads_a_change_and_retries_a_failed_load() {
        let folder = VaultFolder::new();
        let mut vault = Vault::create(&folder.path("")).unwrap();
        let place = VaultPlace::file(&folder.path(VAULT_FILE));
        let (mut watch, _) = VaultWatch::open(place).unwrap();
        assert!(!watch.changed() && watch.reload_if_changed().unwrap().is_none());
        add_account(&mut vault, "SHOP");
        vault.save().unwrap();
        assert!(watch.changed());
        assert_eq!(merchants(&watch.reload_if_changed().unwrap().unwrap()), ["SHOP"]);
        assert!(!watch.changed());
        folder.seal("version = 9");
        assert!(watch.reload_if_changed().is_err() && watch.reload_if_changed().is_err());
        folder.seal("version = 1");
        assert_eq!(merchants(&watch.reload_if_changed().unwrap().unwrap()), [""; 0]);
        std::fs::remove_file(folder.path(VAULT_FILE)).unwrap();
        assert!(watch.changed() && watch.reload_if_changed().is_err());
    }

    #[test]
    fn a_random_secret_is_long_and_new() {
        let (a, b) = (random_secret().unwrap(), random_secret().unwrap());
        assert_eq!(a.expose().len(), 32);
        assert_ne!(a.expose(), b.expose());
    }
}
