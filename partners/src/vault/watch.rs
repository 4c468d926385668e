//! Owns the watch on a vault: two `stat` calls a poll, and a reload when one of the files is another.
//! A change that can't be loaded is tried again at every poll; the caller keeps what it has meanwhile.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Vault, VaultError};

/// Tells when a vault's file or its identity was replaced.
#[derive(Debug)]
pub struct VaultWatch {
    vault: PathBuf,
    identity: PathBuf,
    loaded: [Option<FileStamp>; 2],
}

/// What tells a file from the one before it: a rename gives another inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    modified: Option<SystemTime>,
    bytes: u64,
}

impl VaultWatch {
    /// Opens a vault and watches it from then on. Errors: those of `Vault::open`.
    pub fn open(vault: &Path, identity: &Path) -> Result<(Self, Vault), VaultError> {
        let mut watch =
            Self { vault: vault.to_owned(), identity: identity.to_owned(), loaded: [None; 2] };
        let opened = watch.reload()?;
        Ok((watch, opened))
    }

    /// Whether a file is another than the one that was loaded.
    pub fn changed(&self) -> bool {
        self.stamps() != self.loaded
    }

    /// Opens the vault again if it changed. Errors: those of `Vault::open`; keep the old one, log it.
    pub fn reload_if_changed(&mut self) -> Result<Option<Vault>, VaultError> {
        if self.changed() { self.reload().map(Some) } else { Ok(None) }
    }

    fn reload(&mut self) -> Result<Vault, VaultError> {
        // Before reading: a change in between is then seen at the next poll.
        let stamps = self.stamps();
        let vault = Vault::open(&self.vault, &self.identity)?;
        self.loaded = stamps;
        Ok(vault)
    }

    fn stamps(&self) -> [Option<FileStamp>; 2] {
        [&self.vault, &self.identity].map(|path| FileStamp::of(path))
    }
}

impl FileStamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Some(Self { inode, modified: metadata.modified().ok(), bytes: metadata.len() })
    }
}
