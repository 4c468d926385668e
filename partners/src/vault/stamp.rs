//! Owns what tells a file from the one before it, without reading it.

use std::path::Path;
use std::time::SystemTime;

/// What tells a file from the one before it: a rename gives another inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    modified: Option<SystemTime>,
    bytes: u64,
}

impl FileStamp {
    /// Of the file at `path`, links followed; `None` if there is none.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Some(Self { inode, modified: metadata.modified().ok(), bytes: metadata.len() })
    }
}
