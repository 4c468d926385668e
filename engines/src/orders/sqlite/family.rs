//! Owns what the generations of one store share: where their files are, the lock, the claims, and which are open.
//! Invariants: a generation is a file of its own (the first is the store's), so that one is built, read and thrown away
//! without the others waiting; each is open once in the process, whoever asks for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use super::claims::Claims;
use super::{READ_ONLY, Shared, SqliteOrdersSettings, tables};
use crate::sqlite::{LockFile, at, seam_error};
use crate::{EngineError, lock};

/// The generation whose file is the store's own.
const FIRST: u32 = 1;

pub(super) struct Family {
    path: PathBuf,
    settings: SqliteOrdersSettings,
    open: Mutex<BTreeMap<u32, Weak<Shared>>>,
    pub(super) claims: Claims,
    /// None when opened for reading only. Dropped last, for it guards the files of all.
    lock: Option<LockFile>,
}

impl Family {
    /// Takes the store at `path` for this process.
    pub(super) fn take(path: &Path, settings: SqliteOrdersSettings) -> Result<Self, EngineError> {
        let lock = LockFile::take(path)?;
        let claims = Claims::open(path)?;
        let (path, open) = (path.to_owned(), Mutex::default());
        Ok(Self { path, settings, open, claims, lock: Some(lock) })
    }

    /// Looks at the store at `path`, beside whoever writes it.
    pub(super) fn look(path: &Path) -> Self {
        let (settings, open) = (SqliteOrdersSettings::default(), Mutex::default());
        let claims = Claims::open_read_only(path);
        Self { path: path.to_owned(), settings, open, claims, lock: None }
    }

    pub(super) fn writes(&self) -> bool {
        self.lock.is_some()
    }

    /// The file of a generation.
    fn file(&self, generation: u32) -> PathBuf {
        match generation {
            FIRST => self.path.clone(),
            other => self.path.with_extension(format!("g{other}.db")),
        }
    }

    /// A generation, opened if it is not. Blocks.
    pub(super) fn generation(&self, generation: u32) -> Result<Arc<Shared>, EngineError> {
        let mut open = lock(&self.open);
        if let Some(shared) = open.get(&generation).and_then(Weak::upgrade) {
            return Ok(shared);
        }
        let path = self.file(generation);
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
        open.insert(generation, Arc::downgrade(&shared));
        Ok(shared)
    }

    /// Throws a generation away: its file, or what is in the store's own file. Blocks.
    pub(super) fn drop_generation(&self, generation: u32) -> Result<(), EngineError> {
        if !self.writes() {
            return Err(EngineError::Invalid(READ_ONLY.to_owned()));
        }
        if generation == FIRST {
            return self
                .generation(FIRST)?
                .change(|connection| tables::empty(connection).map_err(seam_error));
        }
        lock(&self.open).remove(&generation);
        let path = self.file(generation);
        // The database last: a file that is there is opened, and its write-ahead log would be missed.
        for suffix in ["-shm", "-wal", ""] {
            let mut file = path.clone().into_os_string();
            file.push(suffix);
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
