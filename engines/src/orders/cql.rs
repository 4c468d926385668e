//! Owns the order store in a CQL database (ScyllaDB, Cassandra): any number of processes, no transactions.
//! Invariants: what is written last is told last: views, then rows, then progress, each acknowledged before the
//! next begins, so that a repeated commit mends whatever a crash left; every write but a claim is idempotent
//! and carries a timestamp that is a log position (`timestamp`), so that who comes late loses; nothing is
//! ever deleted.

mod buckets;
mod claims;
mod errors;
mod found;
mod link;
mod names;
mod progress;
mod recent;
mod rows;
mod scan;
pub mod schema;
mod settings;
mod timestamp;
mod views;

use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;

use crate::orders::{Claimed, Commit, Cursor, OrderStore, Page, Progress, Scan};
use crate::{EngineError, SeamFuture};

pub use link::{StatementKind, StatementObserver, StatementRun};
pub use settings::{
    Consistency, CqlPassword, CqlSettings, CqlTls, SerialConsistency, parse_consistency,
    parse_serial_consistency,
};

/// The order store in a keyspace of a CQL database.
pub struct CqlOrders {
    link: link::Link,
    rows: rows::Rows,
    progress: progress::Advance,
    claims: claims::Claims,
    buckets: buckets::Buckets,
    views: views::Views,
    scans: scan::Scans,
}

impl CqlOrders {
    /// Connects to a store whose tables are there (`schema::apply`). It reconnects by itself from then on.
    /// Errors: `Invalid` (settings, credentials, a table that is missing or another), `Unavailable`.
    pub async fn open(settings: CqlSettings) -> Result<Self, EngineError> {
        Self::open_observed(settings, None).await
    }

    /// The same; `observer` is told of each statement that serves a call.
    pub async fn open_observed(
        settings: CqlSettings,
        observer: Option<StatementObserver>,
    ) -> Result<Self, EngineError> {
        let link = link::Link::open(&settings).await?.observed(observer);
        schema::check(&link, &settings).await?;
        Ok(Self {
            rows: rows::Rows::prepare(&link).await?,
            progress: progress::Advance::prepare(&link).await?,
            claims: claims::Claims::prepare(&link, &settings).await?,
            buckets: buckets::Buckets::prepare(&link).await?,
            views: views::Views::prepare(&link).await?,
            scans: scan::Scans::prepare(&link).await?,
            link,
        })
    }

    async fn write(&self, commit: Commit) -> Result<(), EngineError> {
        let rows = commit.orders.iter().map(|order| order.position);
        for position in rows.chain(commit.folded.iter().map(|one| one.position)) {
            timestamp::of(position)?;
        }
        self.progress.check(&self.link, &commit).await?;
        self.views.store(&self.link, &self.buckets, &commit.views).await?;
        self.rows.store(&self.link, &commit.orders).await?;
        self.progress.store(&self.link, &commit).await
    }
}

impl OrderStore for CqlOrders {
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        Box::pin(async move { self.rows.load(&self.link, &keys).await })
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        Box::pin(self.write(commit))
    }

    fn scan(
        &self,
        scan: Scan,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Page, EngineError> {
        Box::pin(async move {
            self.scans.scan(&self.link, &self.buckets, (&scan, after.as_ref()), limit).await
        })
    }

    fn claim(&self, key: String, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        Box::pin(async move { self.claims.claim(&self.link, &key, &record).await })
    }

    fn claimed(&self, key: String) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        Box::pin(async move { self.claims.claimed(&self.link, &key).await })
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        Box::pin(self.progress.read(&self.link))
    }
}
