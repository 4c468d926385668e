//! Owns the embedded order store: one SQLite file, one connection that writes, readers beside it, and the
//! claims in a file of their own.
//! Invariants: a `Commit` happens whole or not at all; see `rows` (older never replaces), `views` (an entry
//! is there once) and `tables` (progress moves with the rows).

mod claims;
mod rows;
mod tables;
#[cfg(test)]
mod tests;
mod views;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use rusqlite::Connection;

use crate::blocking::blocking;
use crate::orders::{Claimed, Commit, Cursor, OrderStore, Page, Progress, Scan};
use crate::sqlite::{LockFile, ReadPool, at, seam_error};
use crate::{EngineError, SeamFuture, lock};

const READ_ONLY: &str = "this order store is open for reading only";

/// How a store is run. The caches are all the memory that grows with use.
#[derive(Clone, Copy, Debug)]
pub struct SqliteOrdersSettings {
    /// Page cache of the connection that writes, and that loads for whoever writes, KiB.
    pub writer_cache_kib: u32,
    /// Page cache of each of the few connections that serve other reads, KiB.
    pub reader_cache_kib: u32,
}

impl Default for SqliteOrdersSettings {
    fn default() -> Self {
        Self { writer_cache_kib: 64 << 10, reader_cache_kib: 2 << 10 }
    }
}

/// The order store in one SQLite file.
pub struct SqliteOrders {
    shared: Arc<Shared>,
    /// None when opened for reading only. Dropped before the lock, which guards its file too.
    claims: Option<claims::Claims>,
    /// None when opened for reading only.
    lock: Option<LockFile>,
}

struct Shared {
    path: PathBuf,
    settings: SqliteOrdersSettings,
    /// None for a store opened for reading only, and after it broke until the next commit.
    writer: Mutex<Option<Connection>>,
    readers: ReadPool,
}

/// Where the claims of the store at `orders` are kept.
pub fn claims_beside(orders: &Path) -> PathBuf {
    claims::path_beside(orders)
}

impl SqliteOrders {
    /// Opens the store at `path` with default settings, making it if there is none.
    /// Errors: `Unavailable` (another process has it, the disk fails), `Corrupt`, `Invalid` (made by another version).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, EngineError> {
        Self::open_with(path, SqliteOrdersSettings::default())
    }

    /// As `open`, with settings.
    pub fn open_with(
        path: impl AsRef<Path>,
        settings: SqliteOrdersSettings,
    ) -> Result<Self, EngineError> {
        let path = path.as_ref();
        let lock = LockFile::take(path)?;
        let connection = tables::open(path, &settings)?;
        tables::check(&connection).map_err(|error| at(path, error))?;
        Ok(Self {
            shared: Arc::new(Shared::new(path, settings, Some(connection))),
            claims: Some(claims::Claims::open(path)?),
            lock: Some(lock),
        })
    }

    /// Opens a store that is there, for listings; a process that writes it may run beside. Commits are `Invalid`.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, EngineError> {
        let shared = Shared::new(path.as_ref(), SqliteOrdersSettings::default(), None);
        shared.readers.with(tables::check)?;
        Ok(Self { shared: Arc::new(shared), lock: None, claims: None })
    }
}

impl Shared {
    fn new(path: &Path, settings: SqliteOrdersSettings, writer: Option<Connection>) -> Self {
        let readers = ReadPool::new(path, settings.reader_cache_kib);
        Self { path: path.to_owned(), settings, writer: Mutex::new(writer), readers }
    }

    /// Reads on the connection that writes unless it is at work: its cache is warm, and the one who loads
    /// before a commit is the one who commits.
    fn load(&self, keys: &[OrderKey]) -> Result<Vec<Option<Order>>, EngineError> {
        let writer = match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(error)) => Some(PoisonError::into_inner(error)),
            Err(TryLockError::WouldBlock) => None,
        };
        match writer.as_deref() {
            Some(Some(connection)) => {
                rows::load(connection, keys).map_err(|error| at(&self.path, error))
            }
            Some(None) | None => self.readers.with(|connection| rows::load(connection, keys)),
        }
    }

    fn commit(&self, commit: Commit) -> Result<(), EngineError> {
        let mut writer = lock(&self.writer);
        if writer.is_none() {
            *writer = Some(tables::open(&self.path, &self.settings)?);
        }
        let connection = writer.as_ref().expect("it was opened above if it was not open");
        let result = write(connection, commit);
        let left = connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
        if !left {
            *writer = None;
        }
        result.map_err(|error| at(&self.path, error))
    }
}

fn write(connection: &Connection, commit: Commit) -> Result<(), EngineError> {
    connection.execute_batch("BEGIN IMMEDIATE").map_err(seam_error)?;
    views::store(connection, commit.views)?;
    rows::store(connection, &commit.orders)?;
    tables::advance(connection, commit.log_id, &commit.folded)?;
    connection.execute_batch("COMMIT").map_err(seam_error)
}

impl OrderStore for SqliteOrders {
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || shared.load(&keys)))
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        let shared = Arc::clone(&self.shared);
        let writes = self.lock.is_some();
        Box::pin(blocking(move || {
            if !writes {
                let text = "this order store is open for reading only";
                return Err(EngineError::Invalid(text.to_owned()));
            }
            shared.commit(commit)
        }))
    }

    fn scan(
        &self,
        scan: Scan,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Page, EngineError> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || {
            shared.readers.with(|connection| views::scan(connection, &scan, after.as_ref(), limit))
        }))
    }

    fn claim(&self, key: String, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        Box::pin(async move {
            match &self.claims {
                Some(claims) => claims.claim(key, record).await,
                None => Err(EngineError::Invalid(READ_ONLY.to_owned())),
            }
        })
    }

    fn claimed(&self, key: String) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        Box::pin(async move {
            match &self.claims {
                Some(claims) => claims.claimed(key).await,
                None => Err(EngineError::Invalid(READ_ONLY.to_owned())),
            }
        })
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || shared.readers.with(tables::progress)))
    }
}
