//! Owns the order store in memory, to measure the cost of folding without storage. Invariants: a
//! stored order is in its last committed state. An order that is not stored is encoded as for
//! storage, then dropped. The fold's progress is stored in both modes.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use payfold_engines::orders::{
    ClaimKey, Claimed, Commit, Cursor, Folded, OrderStore, Page, Progress, Scan, row,
};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;

/// An order store in memory.
#[derive(Debug)]
pub struct InMemoryOrderStore {
    state: Mutex<StoreState>,
}

#[derive(Debug)]
struct StoreState {
    log_id: [u8; 16],
    folded: BTreeMap<u32, Folded>,
    orders: StoredOrders,
}

#[derive(Debug)]
enum StoredOrders {
    Stored(HashMap<OrderKey, Arc<Order>>),
    Dropped,
}

impl InMemoryOrderStore {
    /// A store that stores its orders.
    pub fn storing() -> Self {
        Self::with_orders(StoredOrders::Stored(HashMap::new()))
    }

    /// A store that drops its orders, as a projector without a database.
    pub fn dropping() -> Self {
        Self::with_orders(StoredOrders::Dropped)
    }

    fn with_orders(orders: StoredOrders) -> Self {
        let (log_id, folded) = Default::default();
        Self { state: Mutex::new(StoreState { log_id, folded, orders }) }
    }

    /// The number of stored orders that `matches` accepts.
    pub fn count(&self, matches: impl Fn(&Order) -> bool) -> u64 {
        match &self.lock_state().orders {
            StoredOrders::Stored(orders) => {
                orders.values().filter(|order| matches(order)).fold(0, |count, _| count + 1)
            }
            StoredOrders::Dropped => 0,
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoredOrders {
    fn store(&mut self, orders: Vec<Arc<Order>>) {
        match self {
            Self::Stored(stored) => {
                stored.extend(orders.into_iter().map(|order| (order.key.clone(), order)));
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
            Self::Stored(stored) => stored.get(key).map(|order| Order::clone(order)),
            Self::Dropped => None,
        }
    }
}

impl OrderStore for InMemoryOrderStore {
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        Box::pin(async move {
            let state = self.lock_state();
            Ok(keys.iter().map(|key| state.orders.get(key)).collect())
        })
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async move {
            let mut state = self.lock_state();
            state.log_id = commit.log_id;
            state.orders.store(commit.orders);
            let folded = commit.folded.iter().map(|one| (one.position.partition, *one));
            state.folded.extend(folded);
            Ok(())
        })
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        Box::pin(async move {
            let state = self.lock_state();
            let folded: Vec<_> = state.folded.values().copied().collect();
            Ok((!folded.is_empty()).then_some(Progress { log_id: state.log_id, folded }))
        })
    }

    fn scan(
        &self,
        _scan: Scan,
        _after: Option<Cursor>,
        _limit: usize,
    ) -> SeamFuture<'_, Page, EngineError> {
        Box::pin(async { Err(unsupported()) })
    }

    fn claim(&self, _key: ClaimKey, _record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        Box::pin(async { Err(unsupported()) })
    }

    fn claimed(&self, _key: ClaimKey) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        Box::pin(async { Err(unsupported()) })
    }
}

fn unsupported() -> EngineError {
    EngineError::Invalid(
        "the benches' order store in memory supports only load, commit and progress".to_owned(),
    )
}
