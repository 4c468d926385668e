//! Owns the waiting for an order's row: until it is what somebody wants, as soon as the feed tells of a change.
//! The feed may tell a change before its row is there, or have told it before anybody followed; so a row is also
//! read again after pauses that grow, and nothing depends on the feed alone.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use payfold_engines::EngineError;
use payfold_engines::orders::OrderStore;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use tokio::sync::Semaphore;

use crate::feed::Follower;
use crate::version::Version;

/// Between reads while the feed has told more than the row shows: the commit is on its way.
const AWAITED: Pauses =
    Pauses { first: Duration::from_millis(2), most: Duration::from_millis(250) };
/// Between reads while nothing is told.
const QUIET: Pauses = Pauses { first: Duration::from_millis(100), most: Duration::from_secs(15) };

/// Pauses that double.
#[derive(Clone, Copy)]
struct Pauses {
    first: Duration,
    most: Duration,
}

/// Rows read at once: a batch of events wakes thousands of followers, and each read takes a thread while it lasts.
const READS_AT_ONCE: usize = 16;

/// An order as it is told.
#[derive(Clone, Debug)]
pub struct Row {
    /// The order.
    pub order: Order,
    /// The number under which its changes are told.
    pub number: u32,
}

impl Deref for Row {
    type Target = Order;

    fn deref(&self) -> &Order {
        &self.order
    }
}

/// The rows of a store.
pub struct Rows {
    store: Arc<dyn OrderStore>,
    turns: Semaphore,
}

impl Rows {
    /// The rows of `store`.
    pub fn new(store: Arc<dyn OrderStore>) -> Self {
        Self { store, turns: Semaphore::new(READS_AT_ONCE) }
    }

    /// One row, in its turn.
    pub async fn load(&self, key: &OrderKey) -> Result<Option<Row>, EngineError> {
        Ok(self.load_all(vec![key.clone()]).await?.pop().flatten())
    }

    /// The rows of these keys, in the same order, in one turn.
    pub async fn load_all(&self, keys: Vec<OrderKey>) -> Result<Vec<Option<Row>>, EngineError> {
        let _turn = self.turns.acquire().await.expect("it is never closed");
        loop {
            let number = self.store.number();
            let rows = self.store.load(keys.clone()).await?;
            // Of which generation they are is only known if there was no switch meanwhile.
            if self.store.number() == number {
                let of = |row: Option<Order>| row.map(|order| Row { order, number });
                return Ok(rows.into_iter().map(of).collect());
            }
        }
    }
}

/// Waits on one order.
pub struct Watcher {
    rows: Arc<Rows>,
    key: OrderKey,
    follower: Follower,
    pause: Duration,
}

impl Watcher {
    /// Follow first, then read: what changes in between is told.
    pub fn new(rows: Arc<Rows>, key: OrderKey, follower: Follower) -> Self {
        Self { rows, key, follower, pause: QUIET.first }
    }

    /// Resolves with the first row read that is `wanted`. Cancel-safe. Errors: the store's; ask again after a while.
    pub async fn until(&mut self, wanted: impl Fn(&Row) -> bool) -> Result<Row, EngineError> {
        loop {
            let row = self.rows.load(&self.key).await?;
            let shown = row.as_ref().map(Version::of).unwrap_or_default();
            if let Some(row) = row.filter(&wanted) {
                self.pause = QUIET.first;
                return Ok(row);
            }
            self.rest(shown).await;
        }
    }

    /// Waits for the feed, or until it is time to read again.
    async fn rest(&mut self, shown: Version) {
        let pauses = if self.follower.told() > shown { AWAITED } else { QUIET };
        let pause = self.pause.clamp(pauses.first, pauses.most);
        match tokio::time::timeout(pause, self.follower.changed()).await {
            Ok(()) => self.pause = AWAITED.first,
            Err(_) => self.pause = pause.saturating_mul(2),
        }
    }
}
