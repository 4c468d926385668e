//! Owns the stamp of a file, which shows without reading it that the file was changed or replaced.

use std::path::Path;
use std::time::SystemTime;

/// The inode, time and size of a file. A file that is replaced by a rename has another inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    modified: Option<SystemTime>,
    bytes: u64,
}

impl FileStamp {
    /// The stamp of the file at `path`, links followed; `None` if it does not exist.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Some(Self { inode, modified: metadata.modified().ok(), bytes: metadata.len() })
    }
}
