//! Owns the double of an order store, which forwards the calls of `StoreCall` to a real store.

use std::future::ready;

use payfold_engines::orders::{
    ClaimKey, Claimed, Commit, Cursor, OrderStore, Page, Progress, Scan,
};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;

use crate::Double;

/// A call of an order store, as the hook gets it.
#[derive(Clone, Copy, Debug)]
pub enum StoreCall<'c> {
    /// `OrderStore::load`
    Load,
    /// `OrderStore::commit`
    Commit,
    /// `OrderStore::scan`
    Scan(&'c Scan),
    /// `OrderStore::claim`
    Claim,
    /// `OrderStore::claimed`
    Claimed,
    /// `OrderStore::progress`
    Progress,
}

/// An order store that overrides some calls of a real one. The calls of `StoreCall` go to the real
/// store unless they are overridden; `scan` and `claimed` can't be. All other methods are the
/// trait's provided ones, as of a store with one build, and are not forwarded.
pub trait StoreDouble: Send + Sync {
    /// The real store.
    fn real(&self) -> &dyn OrderStore;

    /// The hook before each call of `StoreCall`. It may wait, to delay the call; it borrows neither
    /// the store nor the call. An error becomes the result of the call.
    fn before(&self, _call: StoreCall<'_>) -> SeamFuture<'static, (), EngineError> {
        Box::pin(ready(Ok(())))
    }

    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        self.real().load(keys)
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        self.real().commit(commit)
    }

    fn claim(&self, key: ClaimKey, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        self.real().claim(key, record)
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        self.real().progress()
    }
}

impl<T: StoreDouble> OrderStore for Double<T> {
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        Box::pin(async move {
            self.before(StoreCall::Load).await?;
            StoreDouble::load(&self.0, keys).await
        })
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async move {
            self.before(StoreCall::Commit).await?;
            StoreDouble::commit(&self.0, commit).await
        })
    }

    fn scan(
        &self,
        scan: Scan,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Page, EngineError> {
        Box::pin(async move {
            self.before(StoreCall::Scan(&scan)).await?;
            self.real().scan(scan, after, limit).await
        })
    }

    fn claim(&self, key: ClaimKey, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        Box::pin(async move {
            self.before(StoreCall::Claim).await?;
            StoreDouble::claim(&self.0, key, record).await
        })
    }

    fn claimed(&self, key: ClaimKey) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        Box::pin(async move {
            self.before(StoreCall::Claimed).await?;
            self.real().claimed(key).await
        })
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        Box::pin(async move {
            self.before(StoreCall::Progress).await?;
            StoreDouble::progress(&self.0).await
        })
    }
}
