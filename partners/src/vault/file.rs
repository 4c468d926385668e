//! Owns the access to the vault's files: they are private, locked while they are changed, and
//! replaced whole and durably.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::vault::error::VaultError;

/// Adds the action and the file to an I/O error.
pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> VaultError {
    let path = path.to_owned();
    move |why| VaultError::Io { action, path, why }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Options for creating a file that only its owner can read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Takes the lock of the file at `path`. It is released when the handle is dropped or the process
/// ends. Errors: `Locked`, `Io`.
pub(super) fn lock(path: &Path) -> Result<File, VaultError> {
    let lock = beside(path, ".lock");
    let handle =
        private().create(true).truncate(false).open(&lock).map_err(io("open the lock", &lock))?;
    match handle.try_lock() {
        Ok(()) => Ok(handle),
        Err(TryLockError::WouldBlock) => Err(VaultError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(io("lock", &lock)(error)),
    }
}

/// The bytes of a file; `None` if it does not exist.
pub(super) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, VaultError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", path)(error)),
    }
}

/// Creates a file durably. Errors: also if it exists.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), VaultError> {
    let mut file = private().create_new(true).open(path).map_err(io("create", path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(io("write", path))?;
    sync_folder_of(path)
}

/// Replaces the file at `path` by `bytes`, durably and in one step. The caller holds the lock.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), VaultError> {
    let new = beside(path, ".new");
    let mut file = private().create(true).truncate(true).open(&new).map_err(io("create", &new))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(io("write", &new))?;
    std::fs::rename(&new, path).map_err(io("replace", path))?;
    sync_folder_of(path)
}

/// Syncs the folder of a file. A rename or a new file is durable only when its folder is.
fn sync_folder_of(path: &Path) -> Result<(), VaultError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("sync", folder))
}

/// Refuses a file that users other than its owner may read.
#[cfg(unix)]
pub(super) fn check_private(path: &Path) -> Result<(), VaultError> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(path).map_err(io("read", path))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        Ok(())
    } else {
        Err(VaultError::Exposed { path: path.to_owned(), mode })
    }
}

/// On other systems the folder's access list protects the file.
#[cfg(not(unix))]
pub(super) fn check_private(_: &Path) -> Result<(), VaultError> {
    Ok(())
}
