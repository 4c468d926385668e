//! Owns the vault: the accounts document in an age-encrypted file (contract 2.5), or read from a directory of key files.
//! The file is replaced whole, under a lock, and never half: a reader sees the old one or the new one.
//! A change made on top of something else than what was read is refused, so no key is lost.

mod dir;
mod file;
mod place;
mod rotation;
pub mod signer;
mod stamp;
mod watch;

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use age::x25519::{Identity, Recipient};
use payfold_schemas::digest::Digest;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::document::{DOCUMENT_VERSION, VaultDocument};
use crate::secret::Secret;

pub use self::dir::{FileProblem, PLAIN_FILE};
pub use self::place::VaultPlace;
pub use self::rotation::{Rotated, rotate_identity};
pub use self::watch::VaultWatch;

/// The vault's file name in a data folder.
pub const VAULT_FILE: &str = "vault.age";

/// The name of the file with the identity that opens the vault.
pub const IDENTITY_FILE: &str = "vault.key";

/// Bytes of a secret this program makes.
pub const RANDOM_SECRET_BYTES: usize = 32;

/// The decrypted document of one vault file.
pub struct Vault {
    path: PathBuf,
    /// One for each identity that opens it, so that a copy of any of them does.
    recipients: Vec<Recipient>,
    document: VaultDocument,
    /// The digest of the file this was read from or written to; `None` before the first save.
    saved: Option<Digest>,
}

/// Why a vault can't be opened or saved. Never holds a part of its content.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The file system refused.
    // No cause of its own: it would be told twice.
    #[error("can't {action} {}: {why}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// A new vault where one is.
    #[error("{} is there already; open it, or choose another folder", path.display())]
    Exists {
        /// The vault.
        path: PathBuf,
    },
    /// Others than its owner may read the identity.
    #[error("{0} has mode {mode:03o} and others may read it; run chmod 600 {0}", path.display())]
    Exposed {
        /// The identity file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The identity file holds none.
    #[error("{} holds no age identity; it needs a line that begins with AGE-SECRET-KEY-1", path.display())]
    NoIdentity {
        /// The identity file.
        path: PathBuf,
    },
    /// Another identity's vault, or a damaged one.
    #[error("{} does not open with this identity; give the one it was made with or restore it", path.display())]
    Sealed {
        /// The vault.
        path: PathBuf,
    },
    /// A document of a later program.
    #[error("{} has version {version}, this program reads {DOCUMENT_VERSION}; run the later program", path.display())]
    Version {
        /// The vault.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// It opens and is not a document of accounts.
    #[error("{} line {line} is not understood; restore the vault from its backup", path.display())]
    Content {
        /// The vault.
        path: PathBuf,
        /// Where, from 1, in the decrypted text.
        line: usize,
    },
    /// Another process is saving.
    #[error("another process is changing {}; run the command again", path.display())]
    Locked {
        /// The vault.
        path: PathBuf,
    },
    /// Another process has saved since this was read.
    #[error("{} was changed by another process; run the command again", path.display())]
    Changed {
        /// The vault.
        path: PathBuf,
    },
    /// A directory without a single file.
    #[error(
        "{} holds no file at all; look whether the secret is mounted there, and name its files PARTNER.MERCHANT.CHANNEL.KEYID",
        path.display()
    )]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// A directory that was never still.
    #[error("{} is being changed; let the change come to its end, then try again", path.display())]
    Changing {
        /// The directory.
        path: PathBuf,
    },
    /// A directory with files that can't be used.
    #[error("{} can't be used:{}", path.display(), by_line(problems))]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// Everything that is wrong, by file.
        problems: Vec<FileProblem>,
    },
    /// The system gives no randomness.
    #[error("no random bytes for a new secret: {0}")]
    Random(String),
}

impl Vault {
    /// Makes an empty vault in `dir`, with a new identity unless one is there. Errors: `Exists`, `Io`,
    /// and those of the identity.
    pub fn create(dir: &Path) -> Result<Self, VaultError> {
        Self::create_at(dir.join(VAULT_FILE), &dir.join(IDENTITY_FILE))
    }

    /// The same in files of these names.
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

    /// Opens the vault at `path` with the identity file `identity`. Errors: every `VaultError` but
    /// those of saving.
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
    pub fn into_document(self) -> VaultDocument {
        self.document
    }

    /// Replaces the file, durably, by what is in memory. Errors: `Locked` and `Changed` (open it again
    /// and repeat the change), `Io`; then the file is as it was.
    pub fn save(&mut self) -> Result<(), VaultError> {
        let _lock = file::lock(&self.path)?;
        let now_there = file::read_if_there(&self.path)?.map(|bytes| Digest::of_bytes(&bytes));
        if now_there != self.saved {
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

/// A new secret. Errors: `Random`.
pub fn random_secret() -> Result<Secret, VaultError> {
    let mut bytes = vec![0; RANDOM_SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| VaultError::Random(error.to_string()))?;
    Ok(Secret::from_bytes(bytes))
}

fn by_line(problems: &[FileProblem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}

fn recipients(identities: &[Identity]) -> Vec<Recipient> {
    identities.iter().map(Identity::to_public).collect()
}

/// The identities of a file: one, or while it is rotated the new one and those before it.
fn read_identities(path: &Path) -> Result<Vec<Identity>, VaultError> {
    file::check_private(path)?;
    let text = std::fs::read_to_string(path).map_err(file::io("read", path))?;
    let text = Zeroizing::new(text);
    // age-keygen writes comments above an identity.
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let identities: Result<Vec<_>, _> = lines.map(Identity::from_str).collect();
    let identities = identities.ok().filter(|identities| !identities.is_empty());
    identities.ok_or_else(|| VaultError::NoIdentity { path: path.to_owned() })
}

fn decrypt(
    identities: &[Identity],
    sealed: &[u8],
    path: &Path,
) -> Result<Zeroizing<Vec<u8>>, VaultError> {
    let sealed_to_others = || VaultError::Sealed { path: path.to_owned() };
    let decryptor = age::Decryptor::new_buffered(sealed).map_err(|_| sealed_to_others())?;
    let identities = identities.iter().map(|identity| identity as &dyn age::Identity);
    let mut reader = decryptor.decrypt(identities).map_err(|_| sealed_to_others())?;
    let mut plain = Zeroizing::new(Vec::with_capacity(sealed.len()));
    reader.read_to_end(&mut plain).map_err(|_| sealed_to_others())?;
    Ok(plain)
}

fn encrypt(recipients: &[Recipient], plain: &[u8]) -> Vec<u8> {
    const WHY: &str = "a recipient there is, and memory to write to";
    let recipients = recipients.iter().map(|recipient| recipient as &dyn age::Recipient);
    let mut sealed = Vec::with_capacity(plain.len() + 512);
    let encryptor = age::Encryptor::with_recipients(recipients).expect(WHY);
    let mut writer = encryptor.wrap_output(&mut sealed).expect(WHY);
    std::io::Write::write_all(&mut writer, plain).expect(WHY);
    writer.finish().expect(WHY);
    sealed
}

/// Errors name the line only: the parser's message may quote a secret.
fn read_document(path: &Path, plain: &[u8]) -> Result<VaultDocument, VaultError> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let content = |line| VaultError::Content { path: path.to_owned(), line };
    let text = std::str::from_utf8(plain).map_err(|_| content(1))?;
    let at = |error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        content(text.get(..start).unwrap_or(text).matches('\n').count() + 1)
    };
    let Versioned { version } = toml::from_str(text).map_err(at)?;
    if version != DOCUMENT_VERSION {
        return Err(VaultError::Version { path: path.to_owned(), version });
    }
    toml::from_str(text).map_err(at)
}

#[cfg(test)]
mod tests {
    use age::secrecy::ExposeSecret;
    use payfold_schemas::ids::{MerchantCode, PartnerCode};

    use super::*;
    use crate::document::AccountEntry;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn open(&self) -> Result<Vault, VaultError> {
            Vault::open(&self.path(VAULT_FILE), &self.path(IDENTITY_FILE))
        }

        /// Puts this text into the vault, sealed for its identity.
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
    fn what_is_saved_is_opened_again() {
        let folder = Folder::new();
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
    fn an_identity_of_age_keygen_is_taken() {
        let folder = Folder::new();
        let text = Identity::generate().to_string();
        let text = format!("# created: today\n# public key: age1\n\n{}\n", text.expose_secret());
        file::write_new(&folder.path(IDENTITY_FILE), text.as_bytes()).unwrap();
        Vault::create(&folder.path("")).unwrap();
        folder.open().unwrap();
        assert_eq!(std::fs::read_to_string(folder.path(IDENTITY_FILE)).unwrap(), text);
    }

    #[test]
    fn a_change_on_top_of_another_is_refused() {
        let folder = Folder::new();
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
    fn a_vault_that_can_t_be_read_says_why_and_shows_nothing() {
        let folder = Folder::new();
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
        let other = Folder::new();
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
        let folder = Folder::new();
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
    fn a_watch_reloads_what_changed_and_tries_again_what_failed() {
        let folder = Folder::new();
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
