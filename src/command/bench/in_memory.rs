//! Owns the order store in memory: what a fold costs where nothing is written, for that line of the bench alone.
//! Invariant: an order is kept as it was committed last.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use payfold_engines::orders::{Claimed, Commit, Cursor, Folded, OrderStore, Page, Progress, Scan};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;

/// The store.
#[derive(Debug, Default)]
pub struct InMemory {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    log_id: [u8; 16],
    orders: HashMap<OrderKey, Arc<Order>>,
    folded: BTreeMap<u32, Folded>,
}

impl InMemory {
    /// How many orders are so.
    pub fn count(&self, is_so: impl Fn(&Order) -> bool) -> u64 {
        self.kept().orders.values().filter(|order| is_so(order)).fold(0, |count, _| count + 1)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OrderStore for InMemory {
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        Box::pin(async move {
            let kept = self.kept();
            Ok(keys
                .iter()
                .map(|key| kept.orders.get(key).map(|order| Order::clone(order)))
                .collect())
        })
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async move {
            let mut kept = self.kept();
            kept.log_id = commit.log_id;
            let orders = commit.orders.into_iter().map(|order| (order.key.clone(), order));
            kept.orders.extend(orders);
            let folded = commit.folded.iter().map(|one| (one.position.partition, *one));
            kept.folded.extend(folded);
            Ok(())
        })
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        Box::pin(async move {
            let kept = self.kept();
            let folded: Vec<_> = kept.folded.values().copied().collect();
            Ok((!folded.is_empty()).then_some(Progress { log_id: kept.log_id, folded }))
        })
    }

    fn scan(
        &self,
        _scan: Scan,
        _after: Option<Cursor>,
        _limit: usize,
    ) -> SeamFuture<'_, Page, EngineError> {
        Box::pin(async { Err(not_asked()) })
    }

    fn claim(&self, _key: String, _record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        Box::pin(async { Err(not_asked()) })
    }

    fn claimed(&self, _key: String) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        Box::pin(async { Err(not_asked()) })
    }
}

fn not_asked() -> EngineError {
    EngineError::Invalid("a bench's store in memory keeps orders and nothing else".to_owned())
}
