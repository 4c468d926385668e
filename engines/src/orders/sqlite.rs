//! Owns the embedded order store: a SQLite file for each generation, one connection that writes it, readers beside it,
//! and the claims in a file of their own.
//! Invariants: a `Commit` happens whole or not at all; see `rows` (older never replaces), `views` (an entry
//! is there once) and `tables` (progress moves with the rows).

mod claims;
mod family;
mod heads;
mod money;
mod paired;
mod rows;
mod tables;
#[cfg(test)]
mod tests;
mod views;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use payfold_schemas::chain::Head;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::publication::Publication;
use payfold_schemas::record::Position;
use rusqlite::Connection;

use self::family::Family;
pub use self::paired::PairedClaims;
use crate::blocking::blocking;
use crate::orders::{
    ClaimKey, Claimed, Commit, Cursor, Footprint, MoneyPage, OrderStore, Page, Progress, Scan,
    Walked, Window,
};
use crate::sqlite::{ReadPool, at, seam_error};
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

/// A generation of the order store, in one SQLite file.
pub struct SqliteOrders {
    shared: Arc<Shared>,
    family: Arc<Family>,
}

/// One open generation.
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
        Self::first_of(Family::take(path.as_ref(), settings)?)
    }

    /// Opens a store that is there, for listings; a process that writes it may run beside. Commits are `Invalid`.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, EngineError> {
        Self::first_of(Family::look(path.as_ref()))
    }

    fn first_of(family: Family) -> Result<Self, EngineError> {
        let shared = family.generation(Publication::FIRST.tables)?;
        Ok(Self { shared, family: Arc::new(family) })
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

    /// Changes something on the connection that writes. What fails is undone, or the connection given up.
    fn change(
        &self,
        work: impl FnOnce(&Connection) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut writer = lock(&self.writer);
        if writer.is_none() {
            *writer = Some(tables::open(&self.path, &self.settings)?);
        }
        let connection = writer.as_ref().expect("it was opened above if it was not open");
        let result = work(connection);
        let left = connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
        if !left {
            *writer = None;
        }
        result.map_err(|error| at(&self.path, error))
    }
}

fn write(connection: &Connection, commit: &Commit) -> Result<(), EngineError> {
    connection.execute_batch("BEGIN IMMEDIATE").map_err(seam_error)?;
    views::store(connection, &commit.views)?;
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
        let (shared, writes) = (Arc::clone(&self.shared), self.family.writes());
        Box::pin(blocking(move || {
            if !writes {
                return Err(EngineError::Invalid(READ_ONLY.to_owned()));
            }
            shared.change(|connection| write(connection, &commit))
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

    fn money(
        &self,
        window: Window,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, MoneyPage, EngineError> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || {
            let of =
                |connection: &Connection| money::page(connection, &window, after.as_ref(), limit);
            shared.readers.with(of)
        }))
    }

    fn claim(&self, key: ClaimKey, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        Box::pin(async move {
            match self.family.writes() {
                true => self.family.claims.claim(key, record).await,
                false => Err(EngineError::Invalid(READ_ONLY.to_owned())),
            }
        })
    }

    fn claimed(&self, key: ClaimKey) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        Box::pin(self.family.claims.claimed(key))
    }

    fn check_storage(&self) -> SeamFuture<'_, (), EngineError> {
        Box::pin(self.family.claims.check_storage())
    }

    fn close(&self) -> SeamFuture<'_, (), EngineError> {
        Box::pin(self.family.claims.close())
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || shared.readers.with(tables::progress)))
    }

    fn heads(
        &self,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<(Position, Head)>, EngineError> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || {
            shared.readers.with(|connection| heads::after(connection, after, limit))
        }))
    }

    fn walk(
        &self,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Walked>, EngineError> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || {
            shared.readers.with(|connection| rows::walk(connection, after.as_ref(), limit))
        }))
    }

    fn generation(&self, tables: u32) -> SeamFuture<'_, Arc<dyn OrderStore>, EngineError> {
        let family = Arc::clone(&self.family);
        Box::pin(blocking(move || {
            let shared = family.generation(tables)?;
            Ok(Arc::new(Self { shared, family }) as Arc<dyn OrderStore>)
        }))
    }

    fn drop_generation(&self, tables: u32) -> SeamFuture<'_, (), EngineError> {
        let family = Arc::clone(&self.family);
        Box::pin(blocking(move || family.drop_generation(tables)))
    }

    fn footprint(&self) -> SeamFuture<'_, Footprint, EngineError> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || shared.readers.with(tables::footprint)))
    }
}
