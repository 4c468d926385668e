//! Owns the order store in memory, for the lines of benches that ask what folding costs where nothing is written.
//! Invariants: an order that is kept is as it was committed last; one that is not is encoded as it would be stored, and
//! dropped. How far the folding came is kept in any case.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use payfold_engines::orders::{
    ClaimKey, Claimed, Commit, Cursor, Folded, OrderStore, Page, Progress, Scan, row,
};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;

/// The store.
#[derive(Debug)]
pub struct InMemory {
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    log_id: [u8; 16],
    folded: BTreeMap<u32, Folded>,
    rows: Rows,
}

#[derive(Debug)]
enum Rows {
    Kept(HashMap<OrderKey, Arc<Order>>),
    Dropped,
}

impl InMemory {
    /// A store that keeps its orders.
    pub fn keeping() -> Self {
        Self::with(Rows::Kept(HashMap::new()))
    }

    /// A store that stores nothing: what a projector does without a database.
    pub fn dropping() -> Self {
        Self::with(Rows::Dropped)
    }

    fn with(rows: Rows) -> Self {
        let (log_id, folded) = Default::default();
        Self { known: Mutex::new(Known { log_id, folded, rows }) }
    }

    /// How many orders that are kept are so.
    pub fn count(&self, is_so: impl Fn(&Order) -> bool) -> u64 {
        match &self.known().rows {
            Rows::Kept(orders) => {
                orders.values().filter(|order| is_so(order)).fold(0, |count, _| count + 1)
            }
            Rows::Dropped => 0,
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    fn take(&mut self, orders: Vec<Arc<Order>>) {
        match self {
            Self::Kept(kept) => {
                kept.extend(orders.into_iter().map(|order| (order.key.clone(), order)));
            }
            Self::Dropped => {
                let mut bytes = Vec::new();
                for order in orders {
                    row::encode(&order, &mut bytes);
                    black_box((order.key.to_string(), &bytes));
                }
            }
        }
    }

    fn get(&self, key: &OrderKey) -> Option<Order> {
        match self {
            Self::Kept(kept) => kept.get(key).map(|order| Order::clone(order)),
            Self::Dropped => None,
        }
    }
}

impl OrderStore for InMemory {
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        Box::pin(async move {
            let known = self.known();
            Ok(keys.iter().map(|key| known.rows.get(key)).collect())
        })
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async move {
            let mut known = self.known();
            known.log_id = commit.log_id;
            known.rows.take(commit.orders);
            let folded = commit.folded.iter().map(|one| (one.position.partition, *one));
            known.folded.extend(folded);
            Ok(())
        })
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        Box::pin(async move {
            let known = self.known();
            let folded: Vec<_> = known.folded.values().copied().collect();
            Ok((!folded.is_empty()).then_some(Progress { log_id: known.log_id, folded }))
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

    fn claim(&self, _key: ClaimKey, _record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        Box::pin(async { Err(not_asked()) })
    }

    fn claimed(&self, _key: ClaimKey) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        Box::pin(async { Err(not_asked()) })
    }
}

fn not_asked() -> EngineError {
    EngineError::Invalid("a bench's store in memory was asked for more than rows".to_owned())
}
