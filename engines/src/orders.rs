//! Owns the `OrderStore` trait, which every engine of the order store implements, and its types:
//! order rows, the views that list orders, and claims.

mod claim_key;
#[cfg(feature = "cluster")]
pub mod cql;
mod cursor;
mod page_cursor;
pub mod row;
pub mod sqlite;
mod time_view;
mod walked;

use std::collections::BTreeMap;
use std::sync::Arc;

use payfold_schemas::chain::Head;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{MerchantCode, Nonce, OrderKey, PartnerCode, ProviderRef, Reference};
use payfold_schemas::order::Order;
use payfold_schemas::order_money::OrderMoney;
use payfold_schemas::position::Position;
use payfold_schemas::publication::Publication;
use payfold_schemas::time::Time;

pub use self::claim_key::{ClaimKey, ReservedClaimKey};
pub use self::page_cursor::Cursor;
pub use self::walked::Walked;
use crate::{EngineError, SeamFuture, failed};

/// An immutable entry of a view; each names an order. Writing an entry again changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ViewEntry {
    /// The time the order was first seen. Each order has one.
    Created(Time),
    /// A time at which the order may expire. A reader must check the row, because a later session
    /// moves the deadline.
    Deadline(Time),
    /// The order is an attempt at this reference.
    Reference(Reference),
    /// A notice, session or query answer names this ref.
    ProviderRef(ProviderRef),
    /// A notice carried this nonce, with content of this digest. Only for profiles that require
    /// nonces.
    Nonce(Nonce, Digest),
}

/// How far a log is folded, and which log it is. It pairs a store with its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The id of the log that was folded.
    pub log_id: [u8; 16],
    /// The last folded record of each partition that was read.
    pub folded: Vec<Folded>,
}

impl Progress {
    /// What the last folded marker of each partition publishes.
    pub fn publications(&self) -> BTreeMap<u32, Publication> {
        let publications: BTreeMap<u32, Publication> =
            self.folded.iter().map(|one| (one.position.partition, one.publication)).collect();
        assert_eq!(publications.len(), self.folded.len(), "a partition has one last record");
        publications
    }
}

/// The last folded record of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folded {
    /// Its position.
    pub position: Position,
    /// The digest of its stored value (`Digest::of_bytes`).
    pub digest: Digest,
    /// The publication after it in its partition, set by the last marker at or before it.
    pub publication: Publication,
    /// The head of the log's hash chain after the record; `None` if an older version that kept no
    /// heads folded it.
    pub head: Option<Head>,
}

impl Folded {
    /// Makes the entry of a record with no marker before it and no head.
    pub fn new(position: Position, digest: Digest) -> Self {
        Self { position, digest, publication: Publication::FIRST, head: None }
    }
}

/// The changes of one batch. It is cheap to clone, because a failed commit is retried as a whole.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Rows; each replaces the row of its key.
    pub orders: Vec<Arc<Order>>,
    /// View entries to add.
    pub views: Arc<[(OrderKey, ViewEntry)]>,
    /// The last record of the batch in each partition.
    pub folded: Vec<Folded>,
    /// The id of the log that the batch was read from.
    pub log_id: [u8; 16],
}

/// The view and the range that a scan lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scan {
    /// All orders with `from` ≤ first-seen time < `until`, by that time.
    Created {
        /// The first instant.
        from: Time,
        /// The instant after the last.
        until: Time,
    },
    /// The same from the other end: the newest first.
    Newest {
        /// The first instant.
        from: Time,
        /// The instant after the last.
        until: Time,
    },
    /// Orders with a deadline entry `from` ≤ deadline < `until`, by deadline.
    Deadline {
        /// The first instant.
        from: Time,
        /// The instant after the last.
        until: Time,
    },
    /// Orders of one account with this reference.
    Reference(PartnerCode, MerchantCode, Reference),
    /// Orders of one account that name this provider ref.
    ProviderRef(PartnerCode, MerchantCode, ProviderRef),
    /// Orders of one account with a notice that carried this nonce.
    Nonce(PartnerCode, MerchantCode, Nonce),
}

/// One page of a scan.
#[derive(Clone, Debug)]
pub struct Page {
    /// The orders and the entries that name them, in the view's order.
    pub entries: Vec<(OrderKey, ViewEntry)>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<Cursor>,
}

/// The orders of a partner with `from` ≤ first-seen time < `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The partner.
    pub partner: PartnerCode,
    /// The first instant.
    pub from: Time,
    /// The instant after the last.
    pub until: Time,
}

/// One page of a window.
#[derive(Clone, Debug)]
pub struct MoneyPage {
    /// The orders, by first-seen time.
    pub orders: Vec<OrderMoney>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<Cursor>,
}

/// The outcome of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// This caller claimed the key first, and the claim is durable. Only this caller may make the
    /// create call.
    Mine,
    /// The key was claimed before, with this record.
    Taken(Vec<u8>),
}

/// What a build's tables hold, roughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// The number of order rows; `None` where the engine would have to read them all.
    pub orders: Option<u64>,
    /// Bytes on disk of one replica; `None` where the engine doesn't know.
    pub bytes: Option<u64>,
}

/// The store of order rows and views, open on one *build* of its tables. Builds are folds
/// of the same log beside each other: each has rows, views and progress of its own, and all share
/// the claims.
///
/// - Atomicity: a row is never torn. SQLite commits a whole `Commit` in one transaction. Engines
///   without transactions write views, then rows, then progress, so that repeating the commit
///   mends everything that a crash in between left.
/// - Idempotence: committing a batch twice is the same as once.
/// - Order: a commit never replaces a newer row, by `Order::position` within a partition.
/// - Durability: after a crash, progress is never ahead of the rows.
pub trait OrderStore: Send + Sync {
    /// Loads the rows of these keys, in the same order; `None` for a key without a row.
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError>;

    /// Writes the changes of a batch.
    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError>;

    /// Lists up to `limit` entries of a view after a cursor, or from the start without one.
    fn scan(
        &self,
        scan: Scan,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Page, EngineError>;

    /// Lists the amounts of one partner's orders. It reads a page of `Scan::Created`, up to `limit`
    /// entries of all partners after a cursor, and returns the rows of the window's partner among
    /// them. Cursors are those of `Scan::Created`.
    fn money(
        &self,
        window: Window,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, MoneyPage, EngineError> {
        Box::pin(async move {
            let Window { partner, from, until } = window;
            let page = self.scan(Scan::Created { from, until }, after, limit).await?;
            let keys = page.entries.into_iter().map(|(key, _)| key);
            let rows = self.load(keys.filter(|key| key.partner == partner).collect()).await?;
            let orders = rows.into_iter().flatten().map(OrderMoney::from).collect();
            Ok(MoneyPage { orders, next: page.next })
        })
    }

    /// Claims a key for ever, with a record that later callers get. It is the store's only
    /// conditional write. Of all callers with the same key, in all processes and after any crash,
    /// at most one gets `Mine`. All builds share the claims, and claims can't be rebuilt from the
    /// log. Errors: `Unavailable`; the claim may be stored, and then no caller gets `Mine` for this
    /// key any more.
    fn claim(&self, key: ClaimKey, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError>;

    /// Reads the record that a key was claimed with; `None` for a key that was not claimed. A retry
    /// is recognized by this record before anything is checked that may have changed since the
    /// first request.
    fn claimed(&self, key: ClaimKey) -> SeamFuture<'_, Option<Vec<u8>>, EngineError>;

    /// Checks, without writing, that a restart would find what is claimed now. An engine that can't
    /// check returns `Ok`. Errors: `Unavailable` with what is wrong.
    fn check_storage(&self) -> SeamFuture<'_, (), EngineError> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Stops accepting claims; when it returns, a restart finds every claim that was made. Later
    /// claims are `Unavailable`. The default fits an engine with claims on a server.
    fn close(&self) -> SeamFuture<'_, (), EngineError> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Reads how far the store is folded; `None` for a new store.
    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError>;

    /// Reads up to `limit` heads of the log's hash chain in a partition after a position, in order:
    /// one for each commit that had a head. A head never changes, and is ahead of the progress by
    /// at most one commit.
    fn heads(
        &self,
        _after: Position,
        _limit: usize,
    ) -> SeamFuture<'_, Vec<(Position, Head)>, EngineError> {
        one_build()
    }

    /// Reads up to `limit` stored rows after a cursor, or from the start without one; empty at the
    /// end. The order is the engine's own and the same in every build. A row that is written
    /// meanwhile is returned in its old or its new version.
    fn walk(
        &self,
        _after: Option<Cursor>,
        _limit: usize,
    ) -> SeamFuture<'_, Vec<Walked>, EngineError> {
        one_build()
    }

    /// The same store on another build. Makes the build's tables if they are not there.
    /// Errors: also `Invalid` on a store that is open for reading only and has no such tables.
    fn build(&self, _build: u32) -> SeamFuture<'_, Arc<dyn OrderStore>, EngineError> {
        one_build()
    }

    /// Drops the tables of a projection build, if they exist. No process may use them any more.
    fn drop_build(&self, _build: u32) -> SeamFuture<'_, (), EngineError> {
        one_build()
    }

    /// What this build's tables hold.
    fn footprint(&self) -> SeamFuture<'_, Footprint, EngineError> {
        one_build()
    }

    /// The publication epoch of the rows that are read now. It grows on a store that follows the
    /// published build (`live`). Rows that were read between two calls with the same result belong
    /// to that epoch.
    fn epoch(&self) -> u32 {
        Publication::FIRST.epoch
    }
}

/// The error of a store with only one projection build, such as the doubles in benches and tests.
fn one_build<'a, T: Send + 'a>() -> SeamFuture<'a, T, EngineError> {
    let text = "this order store has one build and can't be rebuilt beside it";
    failed(EngineError::Invalid(text.to_owned()))
}
