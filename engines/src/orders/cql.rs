//! Owns the order store in a CQL database (ScyllaDB, Cassandra): any number of processes, no transactions.
//! Invariants: what is written last is told last: views, then rows, then progress, each acknowledged before the
//! next begins, so that a repeated commit mends whatever a crash left; every write but a claim is idempotent
//! and carries a timestamp that is a log position (`timestamp`), so that who comes late loses; nothing is
//! ever deleted.

mod agreeing;
mod buckets;
mod claims;
mod errors;
mod family;
mod found;
mod heads;
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

use std::sync::Arc;

use payfold_schemas::chain::Head;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::publication::Publication;
use payfold_schemas::record::Position;

use self::family::Family;
use crate::orders::{
    ClaimKey, Claimed, Commit, Cursor, Footprint, OrderStore, Page, Progress, Scan, Walked,
};
use crate::{EngineError, SeamFuture};

const READ_ONLY: &str = "this order store is open for reading only";

pub use link::{StatementKind, StatementObserver, StatementRun};
pub use settings::{
    Consistency, CqlPassword, CqlSettings, CqlTls, SerialConsistency, parse_consistency,
    parse_serial_consistency,
};

/// A generation of the order store in a keyspace of a CQL database.
pub struct CqlOrders {
    tables: Arc<Tables>,
    family: Arc<Family>,
}

/// What is prepared for the tables of a generation.
struct Tables {
    rows: rows::Rows,
    progress: progress::Advance,
    heads: heads::Heads,
    buckets: buckets::Buckets,
    views: views::Views,
    scans: scan::Scans,
}

impl Tables {
    async fn prepare(link: &link::Link, generation: u32) -> Result<Arc<Self>, EngineError> {
        Ok(Arc::new(Self {
            rows: rows::Rows::prepare(link, generation).await?,
            progress: progress::Advance::prepare(link, generation).await?,
            heads: heads::Heads::prepare(link, generation).await?,
            buckets: buckets::Buckets::prepare(link, generation).await?,
            views: views::Views::prepare(link, generation).await?,
            scans: scan::Scans::prepare(link, generation).await?,
        }))
    }
}

/// The statements of claims, once the tables are found to be those that they go to.
async fn prepare_claims(
    link: &link::Link,
    settings: &CqlSettings,
) -> Result<claims::Claims, EngineError> {
    schema::check(link, settings).await?;
    claims::Claims::prepare(link, settings).await
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
        let claims = prepare_claims(&link, &settings).await?;
        agreeing::hold(&link, &settings, &claims).await?;
        Self::first_of(Family::new(link, claims)).await
    }

    /// Connects to a store for listings: nothing can be changed, and what a keyspace began with is not decided.
    /// Errors: as `open`.
    pub async fn open_read_only(settings: CqlSettings) -> Result<Self, EngineError> {
        let link = link::Link::open(&settings).await?;
        let claims = prepare_claims(&link, &settings).await?;
        agreeing::check(&link, &settings, &claims).await?;
        Self::first_of(Family::reading(link, claims)).await
    }

    async fn first_of(family: Family) -> Result<Self, EngineError> {
        let tables = family.generation(Publication::FIRST.tables).await?;
        Ok(Self { tables, family: Arc::new(family) })
    }

    /// Whether anything was ever claimed. Errors: the database's.
    pub async fn has_claims(&self) -> Result<bool, EngineError> {
        self.family.claims.has_any(&self.family.link).await
    }

    async fn write(&self, commit: Commit) -> Result<(), EngineError> {
        let (tables, link) = (&self.tables, &self.family.link);
        let rows = commit.orders.iter().map(|order| order.position);
        for position in rows.chain(commit.folded.iter().map(|one| one.position)) {
            timestamp::of(position)?;
        }
        tables.progress.check(link, &commit).await?;
        tables.views.store(link, &tables.buckets, &commit.views).await?;
        tables.rows.store(link, &commit.orders).await?;
        tables.heads.store(link, &tables.progress.heads_of(&commit)).await?;
        tables.progress.store(link, &commit).await
    }

    async fn read_heads(
        &self,
        after: Position,
        limit: usize,
    ) -> Result<Vec<(Position, Head)>, EngineError> {
        let link = &self.family.link;
        let folded = self.tables.progress.read(link).await?;
        let folded = folded.into_iter().flat_map(|progress| progress.folded);
        let mut of_partition = folded.filter(|one| one.position.partition == after.partition);
        let Some(last) = of_partition.next() else { return Ok(Vec::new()) };
        self.tables.heads.after(link, (after, last.position.offset), limit).await
    }
}

impl OrderStore for CqlOrders {
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        Box::pin(async move { self.tables.rows.load(&self.family.link, &keys).await })
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async move {
            self.family.refuse_reader()?;
            self.write(commit).await
        })
    }

    fn scan(
        &self,
        scan: Scan,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Page, EngineError> {
        Box::pin(async move {
            let (tables, link) = (&self.tables, &self.family.link);
            tables.scans.scan(link, &tables.buckets, (&scan, after.as_ref()), limit).await
        })
    }

    fn claim(&self, key: ClaimKey, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        Box::pin(async move {
            self.family.refuse_reader()?;
            self.family.claims.claim(&self.family.link, &key, &record).await
        })
    }

    fn claimed(&self, key: ClaimKey) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        Box::pin(async move { self.family.claims.claimed(&self.family.link, &key).await })
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        Box::pin(self.tables.progress.read(&self.family.link))
    }

    fn heads(
        &self,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<(Position, Head)>, EngineError> {
        Box::pin(self.read_heads(after, limit))
    }

    fn walk(
        &self,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Walked>, EngineError> {
        let link = &self.family.link;
        Box::pin(async move { self.tables.rows.walk(link, after.as_ref(), limit).await })
    }

    fn generation(&self, tables: u32) -> SeamFuture<'_, Arc<dyn OrderStore>, EngineError> {
        Box::pin(async move {
            let tables = self.family.generation(tables).await?;
            Ok(Arc::new(Self { tables, family: Arc::clone(&self.family) }) as Arc<dyn OrderStore>)
        })
    }

    fn drop_generation(&self, tables: u32) -> SeamFuture<'_, (), EngineError> {
        Box::pin(self.family.drop_generation(tables))
    }

    /// What lies on the nodes is theirs to tell.
    fn footprint(&self) -> SeamFuture<'_, Footprint, EngineError> {
        Box::pin(std::future::ready(Ok(Footprint { orders: None, bytes: None })))
    }
}
