//! Owns the embedded order store: one SQLite file for each projection build with one writing
//! connection and a pool of reading ones, and the claims in a file of their own. Invariants: a
//! `Commit` is atomic; see `rows` (an older row never replaces a newer one), `views` (an entry
//! exists once) and `tables` (progress moves in the rows' transaction).

mod claims;
mod family;
mod heads;
mod layout;
mod money;
mod paired;
mod rows;
mod settings;
mod shared;
mod tables;
#[cfg(test)]
mod tests;
mod views;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use payfold_schemas::chain::Head;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::position::Position;
use payfold_schemas::publication::Publication;
use rusqlite::Connection;

use self::family::Family;
pub use self::paired::PairedClaims;
pub use self::settings::SqliteOrdersSettings;
use self::shared::{READ_ONLY, Shared};
use crate::blocking::blocking;
use crate::orders::{
    ClaimKey, Claimed, Commit, Cursor, Footprint, MoneyPage, OrderStore, Page, Progress, Scan,
    Walked, Window,
};
use crate::sqlite::seam_error;
use crate::{EngineError, SeamFuture};

/// A build of the order store, in one SQLite file.
pub struct SqliteOrders {
    shared: Arc<Shared>,
    family: Arc<Family>,
}

/// The path of the claims of the store at `orders`.
pub fn claims_beside(orders: &Path) -> PathBuf {
    claims::path_beside(orders)
}

impl SqliteOrders {
    /// Opens the store at `path` with default settings, and creates it if it doesn't exist. Errors:
    /// `Unavailable` (another process uses it, the disk fails), `Corrupt`, `Invalid` (another
    /// version created it).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, EngineError> {
        Self::open_with(path, SqliteOrdersSettings::default())
    }

    /// As `open`, with settings.
    pub fn open_with(
        path: impl AsRef<Path>,
        settings: SqliteOrdersSettings,
    ) -> Result<Self, EngineError> {
        Self::first_of(Family::open(path.as_ref(), settings)?)
    }

    /// Opens an existing store for listings; another process may write it meanwhile. Commits are
    /// `Invalid`.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, EngineError> {
        Self::first_of(Family::open_read_only(path.as_ref()))
    }

    fn first_of(family: Family) -> Result<Self, EngineError> {
        let shared = family.build(Publication::FIRST.build)?;
        Ok(Self { shared, family: Arc::new(family) })
    }
}

fn write(connection: &Connection, commit: &Commit) -> Result<(), EngineError> {
    connection.execute_batch("BEGIN IMMEDIATE").map_err(seam_error)?;
    views::store(connection, &commit.views)?;
    rows::store(connection, &commit.orders)?;
    tables::advance(connection, commit.log_id, &commit.folded)?;
    connection.execute_batch("COMMIT").map_err(seam_error)?;
    assert!(connection.is_autocommit(), "rows, views and progress are committed as one");
    Ok(())
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

    fn build(&self, build: u32) -> SeamFuture<'_, Arc<dyn OrderStore>, EngineError> {
        let family = Arc::clone(&self.family);
        Box::pin(blocking(move || {
            let shared = family.build(build)?;
            Ok(Arc::new(Self { shared, family }) as Arc<dyn OrderStore>)
        }))
    }

    fn drop_build(&self, build: u32) -> SeamFuture<'_, (), EngineError> {
        let family = Arc::clone(&self.family);
        Box::pin(blocking(move || family.drop_build(build)))
    }

    fn footprint(&self) -> SeamFuture<'_, Footprint, EngineError> {
        let shared = Arc::clone(&self.shared);
        Box::pin(blocking(move || shared.readers.with(tables::footprint)))
    }
}
