//! Owns what the builds of one store share: the folder of their files, the lock, the claims, and
//! the list of open builds. Invariants: each build has its own file (the first build has the
//! store's), so building, reading or dropping one never blocks the others; each build is open at
//! most once in the process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use super::claims::SqliteClaims;
use super::settings::SqliteOrdersSettings;
use super::shared::{READ_ONLY, Shared};
use super::tables;
use crate::sqlite::{LockFile, at, beside, seam_error};
use crate::{EngineError, lock};

/// The build in the store's own file.
const FIRST: u32 = 1;

pub(super) struct Family {
    path: PathBuf,
    settings: SqliteOrdersSettings,
    open: Mutex<BTreeMap<u32, Weak<Shared>>>,
    pub(super) claims: SqliteClaims,
    /// `None` when opened for listings. Dropped last, because it guards every file.
    lock: Option<LockFile>,
}

impl Family {
    /// Locks and opens the store at `path` for writing.
    pub(super) fn open(path: &Path, settings: SqliteOrdersSettings) -> Result<Self, EngineError> {
        let lock = LockFile::take(path)?;
        let claims = SqliteClaims::open(path)?;
        let (path, open) = (path.to_owned(), Mutex::default());
        Ok(Self { path, settings, open, claims, lock: Some(lock) })
    }

    /// Opens the store at `path` for listings; another process may write it.
    pub(super) fn open_read_only(path: &Path) -> Self {
        let (settings, open) = (SqliteOrdersSettings::default(), Mutex::default());
        let claims = SqliteClaims::open_read_only(path);
        Self { path: path.to_owned(), settings, open, claims, lock: None }
    }

    pub(super) fn writes(&self) -> bool {
        self.lock.is_some()
    }

    /// The file of a build.
    fn file(&self, build: u32) -> PathBuf {
        match build {
            FIRST => self.path.clone(),
            other => self.path.with_extension(format!("g{other}.db")),
        }
    }

    /// A build, opened if it is not. Blocks.
    pub(super) fn build(&self, build: u32) -> Result<Arc<Shared>, EngineError> {
        let mut open = lock(&self.open);
        if let Some(shared) = open.get(&build).and_then(Weak::upgrade) {
            return Ok(shared);
        }
        let path = self.file(build);
        let writer = match self.writes() {
            true => {
                let connection = tables::open(&path, &self.settings)?;
                tables::check(&connection).map_err(|error| at(&path, error))?;
                Some(connection)
            }
            false => None,
        };
        let shared = Arc::new(Shared::new(&path, self.settings, writer));
        if !self.writes() {
            shared.readers.with(tables::check)?;
        }
        open.insert(build, Arc::downgrade(&shared));
        Ok(shared)
    }

    /// Throws a build away: its file, or what is in the store's own file. Blocks.
    pub(super) fn drop_build(&self, build: u32) -> Result<(), EngineError> {
        if !self.writes() {
            return Err(EngineError::Invalid(READ_ONLY.to_owned()));
        }
        if build == FIRST {
            return self
                .build(FIRST)?
                .change(|connection| tables::empty(connection).map_err(seam_error));
        }
        lock(&self.open).remove(&build);
        let path = self.file(build);
        // The database last: a file that is there is opened, and its write-ahead log would be
        // missed.
        for suffix in ["-shm", "-wal", ""] {
            let file = beside(&path, suffix);
            match std::fs::remove_file(&file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    let text = format!("{}: {error}", file.display());
                    return Err(EngineError::Unavailable(text));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}
