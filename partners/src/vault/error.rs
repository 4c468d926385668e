//! Owns the reasons why a vault can't be read or written.

use std::io::{self};
use std::path::PathBuf;

use crate::document::DOCUMENT_VERSION;
use crate::vault::dir::problem::{FileProblem, by_line};

/// Why a vault can't be opened or saved. It never contains a part of the vault's content.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The file system refused.
    // `why` is not a `#[source]`: the message has it already, and a log of the chain would repeat
    // it.
    #[error("can't {action} {}: {why}", path.display())]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        why: io::Error,
    },
    /// There is a vault already, so that a new one can't be created.
    #[error("{} is there already; open it, or choose another folder", path.display())]
    Exists {
        /// The vault.
        path: PathBuf,
    },
    /// Users other than the owner may read the identity.
    #[error("{0} has mode {mode:03o} and others may read it; run chmod 600 {0}", path.display())]
    Exposed {
        /// The identity file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The identity file does not exist.
    #[error(
        "{} does not exist, and only it opens the vault; restore it from its backup",
        path.display()
    )]
    IdentityMissing {
        /// The identity file.
        path: PathBuf,
    },
    /// The identity file contains no identity.
    #[error(
        "{} holds no age identity that can be read; it needs its line that begins with \
         AGE-SECRET-KEY-1, whole and unchanged; restore it from its backup, \
         a new one does not open this vault",
        path.display()
    )]
    NoIdentity {
        /// The identity file.
        path: PathBuf,
    },
    /// The vault belongs to another identity, or is damaged.
    #[error(
        "{} does not open with its identity, the file beside it that ends in .key; put back the \
         identity it was encrypted to, or the vault, from its backup",
        path.display()
    )]
    Sealed {
        /// The vault.
        path: PathBuf,
    },
    /// The document was written by a later version of the program.
    #[error(
        "{} has version {version}, this program reads {DOCUMENT_VERSION}; run the later program",
        path.display()
    )]
    Version {
        /// The vault.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The decrypted content is not a document of accounts.
    #[error("{} line {line} is not understood; restore the vault from its backup", path.display())]
    Content {
        /// The vault.
        path: PathBuf,
        /// The line in the decrypted text, from 1.
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
    /// The directory has no files.
    #[error(
        "{} holds no file at all; check that the secret is mounted there, and name its files \
         PARTNER.MERCHANT.CHANNEL.KEYID",
        path.display()
    )]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// The directory changed during every attempt to read it.
    #[error(
        "{} is being changed; wait until the change is complete, then try again",
        path.display()
    )]
    Changing {
        /// The directory.
        path: PathBuf,
    },
    /// The directory has files that can't be used.
    #[error("{} can't be used:{}", path.display(), by_line(problems))]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// All problems, by file.
        problems: Vec<FileProblem>,
    },
    /// The system returned no random bytes.
    #[error("the system returned no random bytes for a new secret: {0}")]
    Random(String),
}
