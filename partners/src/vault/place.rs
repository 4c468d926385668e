//! Owns where a vault is: an age file with the identity that opens it, or a directory of key files.

use std::path::{Path, PathBuf};

use super::{Vault, VaultError, dir};
use crate::document::VaultDocument;

/// The ending of an identity's file.
const IDENTITY_EXTENSION: &str = "key";

/// Where a vault is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VaultPlace {
    /// An age file, which commands change.
    File {
        /// The file.
        vault: PathBuf,
        /// The file of the identity that opens it.
        identity: PathBuf,
    },
    /// A directory of key files, which somebody else fills and we only read.
    Dir(PathBuf),
}

impl VaultPlace {
    /// An age file; its identity lies beside it under the same name with the ending `key`.
    pub fn file(vault: &Path) -> Self {
        let identity = vault.with_extension(IDENTITY_EXTENSION);
        Self::File { vault: vault.to_owned(), identity }
    }

    /// Reads what is there. Errors: every `VaultError` but those of saving.
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
