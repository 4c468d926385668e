//! The order store seam: order rows and the views that list them.

mod claim_key;
#[cfg(feature = "cluster")]
pub mod cql;
mod cursor;
pub mod live;
pub mod row;
pub mod sqlite;
mod walked;

use std::sync::Arc;

use payfold_schemas::chain::Head;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{MerchantCode, Nonce, OrderKey, PartnerCode, ProviderRef, Reference};
use payfold_schemas::order::{Order, OrderMoney};
use payfold_schemas::publication::Publication;
use payfold_schemas::record::Position;
use payfold_schemas::time::Time;

pub use self::claim_key::{ClaimKey, ReservedClaimKey, is_create_request};
pub use self::walked::Walked;
use crate::{EngineError, SeamFuture};

/// One immutable entry of a view; each names an order. Written again it changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ViewEntry {
    /// The order was first seen then. Exactly one per order.
    Created(Time),
    /// The order may expire then. A reader checks the row: a later session moves the deadline.
    Deadline(Time),
    /// The order is an attempt at this reference.
    Reference(Reference),
    /// A notice, session or query answer names this ref.
    ProviderRef(ProviderRef),
    /// A notice carried this nonce, with content of this digest (only where the profile requires nonces).
    Nonce(Nonce, Digest),
}

/// How far the folding of the log has come, and in which log: what pairs a store with its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The id of the log that was folded.
    pub log_id: [u8; 16],
    /// One per partition that was read.
    pub folded: Vec<Folded>,
}

/// The last folded record of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folded {
    /// Its position.
    pub position: Position,
    /// The digest of its stored value (`Digest::of_bytes`).
    pub digest: Digest,
    /// What is told after it in its partition: by the last marker at or before it.
    pub publication: Publication,
    /// The head of the log's chain after it; none where it was folded before there were heads.
    pub head: Option<Head>,
}

impl Folded {
    /// A record with no marker before it and no head.
    pub fn new(position: Position, digest: Digest) -> Self {
        Self { position, digest, publication: Publication::FIRST, head: None }
    }
}

/// What one batch changes. Tried again whole where storage was away, so a copy of it costs little.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Rows, each replacing the row of its key.
    pub orders: Vec<Arc<Order>>,
    /// Entries to add.
    pub views: Arc<[(OrderKey, ViewEntry)]>,
    /// The last record of the batch, per partition.
    pub folded: Vec<Folded>,
    /// The log it was read from.
    pub log_id: [u8; 16],
}

/// What a scan walks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scan {
    /// All orders by first-seen time, `from` ≤ time < `until`.
    Created {
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
    /// Orders of one account that name this ref.
    ProviderRef(PartnerCode, MerchantCode, ProviderRef),
    /// Orders of one account that carried this nonce.
    Nonce(PartnerCode, MerchantCode, Nonce),
}

/// Where a page ended; opaque to callers, printable so that `--after` can carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

/// One page of a scan.
#[derive(Clone, Debug)]
pub struct Page {
    /// The entries, in the view's order: the order and the entry that names it.
    pub entries: Vec<(OrderKey, ViewEntry)>,
    /// Where the next page starts; none at the end.
    pub next: Option<Cursor>,
}

/// The orders of a partner that were first seen `from` ≤ time < `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Whose.
    pub partner: PartnerCode,
    /// The first instant.
    pub from: Time,
    /// The instant after the last.
    pub until: Time,
}

/// One page of a window.
#[derive(Clone, Debug)]
pub struct MoneyPage {
    /// The orders, by the time they were first seen.
    pub orders: Vec<OrderMoney>,
    /// Where the next page starts; none at the end.
    pub next: Option<Cursor>,
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// This caller was the first, and the claim is durable: only it may make the create call.
    Mine,
    /// Somebody was before; the record they claimed with.
    Taken(Vec<u8>),
}

/// What a generation's tables hold, roughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Rows of orders; none where the engine can't tell without reading them.
    pub orders: Option<u64>,
    /// Bytes on disk, of one copy; none where the engine can't tell.
    pub bytes: Option<u64>,
}

/// The store of order rows and views, open on one *generation* of its tables. Generations are folds of the same log
/// beside each other: each has rows, views and progress of its own, and all share the claims.
///
/// Atomicity: a row is never torn. SQLite commits a whole `Commit` at once; engines without transactions write
/// views, then rows, then progress, so that a crash in between leaves nothing a repeated commit does not mend.
/// Repeat: the same commit twice is the same as once. A commit older than a row (`Order::position` of the same
/// partition) never replaces it.
/// Durability: progress never survives a crash that the rows before it did not.
pub trait OrderStore: Send + Sync {
    /// The rows of these keys, in the same order; none where there is no row.
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError>;

    /// Writes what a batch changed.
    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError>;

    /// Up to `limit` entries of a view after a cursor (from the start without one).
    fn scan(
        &self,
        scan: Scan,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Page, EngineError>;

    /// The orders that one page of `Scan::Created` names, as far as their money goes: up to `limit` entries of all partners
    /// after a cursor, and of them the rows of one partner, where there is a row. Cursors are those of that scan.
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

    /// Claims a key for ever, with a record to be found by whoever comes later: the only conditional write.
    /// Of all callers with one key, in all processes and after any crash, at most one is told `Mine`. It is
    /// outside the generations and can't be rebuilt. Errors: `Unavailable`; the claim may have been made then,
    /// and nobody is told `Mine` for it any more.
    fn claim(&self, key: ClaimKey, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError>;

    /// The record a key was claimed with; none while nobody has. A retry is recognised by it before anything
    /// that may have changed since the first request is looked at.
    fn claimed(&self, key: ClaimKey) -> SeamFuture<'_, Option<Vec<u8>>, EngineError>;

    /// Checks that what is claimed now goes where a restart finds it, without writing anything. An engine that can't
    /// tell says yes. Errors: `Unavailable` with what is wrong.
    fn check_storage(&self) -> SeamFuture<'_, (), EngineError> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Ends the taking of claims: what was claimed is where a restart finds it when this returns. Claims are `Unavailable`
    /// from then on. An engine whose claims are elsewhere has nothing to end.
    fn close(&self) -> SeamFuture<'_, (), EngineError> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// How far the store has been folded; none for a new store.
    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError>;

    /// Up to `limit` heads of the log's chain after a position, of its partition and in order: one for each commit that
    /// came with one. They are kept as the rows are: never changed, and never ahead of the progress by more than one commit.
    fn heads(
        &self,
        _after: Position,
        _limit: usize,
    ) -> SeamFuture<'_, Vec<(Position, Head)>, EngineError> {
        one_generation()
    }

    /// Up to `limit` rows after a cursor (from the start without one), whole and as they are stored, in the engine's
    /// own order, which is the same in every generation; none at the end. A row that is written meanwhile is
    /// yielded as it was or as it is.
    fn walk(
        &self,
        _after: Option<Cursor>,
        _limit: usize,
    ) -> SeamFuture<'_, Vec<Walked>, EngineError> {
        one_generation()
    }

    /// The same store on another generation, whose tables are made if they are not there.
    /// Errors: also `Invalid` on a store that is open for reading only and has no such tables.
    fn generation(&self, _tables: u32) -> SeamFuture<'_, Arc<dyn OrderStore>, EngineError> {
        one_generation()
    }

    /// Throws the tables of a generation away; there is nothing to do where there are none. Nobody may use them any more.
    fn drop_generation(&self, _tables: u32) -> SeamFuture<'_, (), EngineError> {
        one_generation()
    }

    /// What this generation's tables hold.
    fn footprint(&self) -> SeamFuture<'_, Footprint, EngineError> {
        one_generation()
    }

    /// The number under which the changes of the rows that are read now are told. It grows on a store that follows
    /// what is told (`live`), and what was read between two equal numbers is of that number.
    fn number(&self) -> u32 {
        Publication::FIRST.number
    }
}

/// The answer of a store that has one generation and no way to walk it: those that stand in for one in a bench or test.
fn one_generation<'a, T: Send + 'a>() -> SeamFuture<'a, T, EngineError> {
    let text = "this order store has one generation and can't be rebuilt beside it";
    Box::pin(std::future::ready(Err(EngineError::Invalid(text.to_owned()))))
}
