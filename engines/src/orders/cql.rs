//! Owns the order store in a CQL database (ScyllaDB, Cassandra), which any number of processes
//! share without transactions. Invariants: a commit writes views, then rows, then progress, and
//! each step is acknowledged before the next starts, so that repeating the commit mends what a
//! crash left; every write except a claim is idempotent and has a write timestamp made from its log
//! position (`timestamp`), so that a late write of older data loses; only whole builds are deleted.

mod agreeing_replicas;
mod buckets;
mod claims;
mod database_schema;
mod definitions;
mod errors;
mod family;
mod heads;
mod link;
mod name_views;
mod prepared;
mod progress;
mod recent;
mod rows;
mod scan;
pub mod schema;
mod settings;
mod timestamp;
mod view_entry;
mod views;

use std::sync::Arc;

use payfold_schemas::chain::Head;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::position::Position;
use payfold_schemas::publication::Publication;

use self::family::Family;
use self::prepared::Tables;
use crate::orders::{
    ClaimKey, Claimed, Commit, Cursor, Footprint, OrderStore, Page, Progress, Scan, Walked,
};
use crate::{EngineError, SeamFuture};

pub use link::{StatementKind, StatementObserver, StatementRun};
pub use settings::{
    Consistency, CqlPassword, CqlSettings, CqlTls, SerialConsistency, parse_consistency,
    parse_serial_consistency,
};

/// A build of the order store in a keyspace of a CQL database.
pub struct CqlOrders {
    tables: Arc<Tables>,
    family: Arc<Family>,
}

/// Checks the tables, then prepares the statements of claims.
async fn prepare_claims(
    link: &link::Link,
    settings: &CqlSettings,
) -> Result<claims::CqlClaims, EngineError> {
    schema::check(link, settings).await?;
    claims::CqlClaims::prepare(link, settings).await
}

impl CqlOrders {
    /// Connects to a store with existing tables (`schema::apply` makes them). It reconnects by
    /// itself afterwards. Errors: `Invalid` (settings, credentials, a table that is missing or
    /// differs), `Unavailable`.
    pub async fn open(settings: CqlSettings) -> Result<Self, EngineError> {
        Self::open_observed(settings, None).await
    }

    /// As `open`; calls `observer` after each statement.
    pub async fn open_observed(
        settings: CqlSettings,
        observer: Option<StatementObserver>,
    ) -> Result<Self, EngineError> {
        let link = link::Link::open(&settings).await?.with_observer(observer);
        let claims = prepare_claims(&link, &settings).await?;
        agreeing_replicas::check_or_record(&link, &settings, &claims).await?;
        Self::first_of(Family::new(link, claims)).await
    }

    /// Connects to a store for listings: nothing can be changed, and the list of agreeing replicas
    /// is not written. Errors: as `open`.
    pub async fn open_read_only(settings: CqlSettings) -> Result<Self, EngineError> {
        let link = link::Link::open(&settings).await?;
        let claims = prepare_claims(&link, &settings).await?;
        agreeing_replicas::check(&link, &settings, &claims).await?;
        Self::first_of(Family::reading(link, claims)).await
    }

    async fn first_of(family: Family) -> Result<Self, EngineError> {
        let tables = family.build(Publication::FIRST.build).await?;
        Ok(Self { tables, family: Arc::new(family) })
    }

    /// Whether any claim exists, apart from the list of agreeing replicas. Errors: the database's.
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

    fn build(&self, build: u32) -> SeamFuture<'_, Arc<dyn OrderStore>, EngineError> {
        Box::pin(async move {
            let tables = self.family.build(build).await?;
            Ok(Arc::new(Self { tables, family: Arc::clone(&self.family) }) as Arc<dyn OrderStore>)
        })
    }

    fn drop_build(&self, build: u32) -> SeamFuture<'_, (), EngineError> {
        Box::pin(self.family.drop_build(build))
    }

    /// Unknown: counting rows or bytes would need requests to every node.
    fn footprint(&self) -> SeamFuture<'_, Footprint, EngineError> {
        Box::pin(std::future::ready(Ok(Footprint { orders: None, bytes: None })))
    }
}
