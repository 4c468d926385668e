//! Owns one open build: the connection that writes it, and readers beside it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, TryLockError};

use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use rusqlite::Connection;

use super::settings::SqliteOrdersSettings;
use super::{rows, tables};
use crate::sqlite::{ReadPool, at};
use crate::{EngineError, lock};

/// The error of a change to a store that was opened for listings.
pub(super) const READ_ONLY: &str = "this order store is open for reading only";

/// One open build.
pub(super) struct Shared {
    path: PathBuf,
    settings: SqliteOrdersSettings,
    /// `None` for a store opened for reading only, and after the connection failed until the next
    /// commit.
    writer: Mutex<Option<Connection>>,
    pub(super) readers: ReadPool,
}

impl Shared {
    pub(super) fn new(
        path: &Path,
        settings: SqliteOrdersSettings,
        writer: Option<Connection>,
    ) -> Self {
        let readers = ReadPool::new(path, settings.reader_cache_kib);
        Self { path: path.to_owned(), settings, writer: Mutex::new(writer), readers }
    }

    /// Loads rows on the writing connection, unless it is busy: its cache is warm, because the
    /// projector that loads rows is also the one that commits them.
    pub(super) fn load(&self, keys: &[OrderKey]) -> Result<Vec<Option<Order>>, EngineError> {
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

    /// Runs a change on the writing connection. A failed change is rolled back; if that fails, too,
    /// the connection is closed.
    pub(super) fn change(
        &self,
        work: impl FnOnce(&Connection) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut writer = lock(&self.writer);
        if writer.is_none() {
            *writer = Some(tables::open(&self.path, &self.settings)?);
        }
        let connection = writer.as_ref().expect("it was opened above if it was not open");
        let result = work(connection);
        let rolled_back =
            connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
        if !rolled_back {
            *writer = None;
        }
        result.map_err(|error| at(&self.path, error))
    }
}
