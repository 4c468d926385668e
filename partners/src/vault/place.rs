//! Owns the place of a vault: an age file with its identity file, or a directory of key files.

use std::path::{Path, PathBuf};

use super::dir;
use crate::document::VaultDocument;
use crate::vault::age_file::Vault;
use crate::vault::error::VaultError;

/// The file name extension of an identity.
const IDENTITY_EXTENSION: &str = "key";

/// The place of a vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VaultPlace {
    /// An age file, which our commands change.
    File {
        /// The vault's file.
        vault: PathBuf,
        /// The file with the identity that decrypts it.
        identity: PathBuf,
    },
    /// A directory of key files, which a secret operator fills and we only read.
    Dir(PathBuf),
}

impl VaultPlace {
    /// An age file. Its identity has the same path with the extension `key`.
    pub fn file(vault: &Path) -> Self {
        let identity = vault.with_extension(IDENTITY_EXTENSION);
        Self::File { vault: vault.to_owned(), identity }
    }

    /// Reads the vault's document. Errors: every `VaultError` except those of saving.
    pub fn read(&self) -> Result<VaultDocument, VaultError> {
        match self {
            Self::File { vault, identity } => {
                Vault::open(vault, identity).map(Vault::into_document)
            }
            Self::Dir(dir) => dir::read_settled(dir).map(|(_, document)| document),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_lies_beside_its_vault() {
        let place = VaultPlace::file(Path::new("/keys/main.age"));
        let identity = PathBuf::from("/keys/main.key");
        assert_eq!(place, VaultPlace::File { vault: "/keys/main.age".into(), identity });
    }
}
