//! Owns the reading of rows, and the waiting until an order's row meets a condition. The feed wakes
//! the waiter when the order changes. An event may be read before its row is committed, or before
//! the order was followed. So the row is also read again after growing pauses: nothing depends on
//! the feed alone.

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

/// The pauses while the feed has a newer version than the row: its commit is expected soon.
const COMMIT_PAUSES: Pauses =
    Pauses { first: Duration::from_millis(2), most: Duration::from_millis(250) };
/// The pauses while the feed has nothing newer.
const QUIET_PAUSES: Pauses =
    Pauses { first: Duration::from_millis(100), most: Duration::from_secs(15) };

/// The first and the longest of a series of pauses that double.
#[derive(Clone, Copy)]
struct Pauses {
    first: Duration,
    most: Duration,
}

/// The most reads at once. A batch of events can wake thousands of followers, and each read
/// occupies a thread.
const READS_MAX: usize = 16;

/// The row of an order, with its publication epoch.
#[derive(Clone, Debug)]
pub(crate) struct OrderRow {
    /// The order.
    pub order: Order,
    /// The publication epoch of the row that was read.
    pub epoch: u32,
}

impl OrderRow {
    /// The version of the payment as shops see it.
    pub(crate) fn shop_version(&self) -> Version {
        Version { epoch: self.epoch, version: self.order.version }
    }
}

impl Deref for OrderRow {
    type Target = Order;

    fn deref(&self) -> &Order {
        &self.order
    }
}

/// Reads the rows of a store, a few at once.
pub(crate) struct RowReader {
    store: Arc<dyn OrderStore>,
    permits: Semaphore,
}

impl RowReader {
    /// Reads rows of `store`.
    pub(crate) fn new(store: Arc<dyn OrderStore>) -> Self {
        Self { store, permits: Semaphore::new(READS_MAX) }
    }

    /// Loads one row; `None` if there is none. Errors: the store's.
    pub(crate) async fn load(&self, key: &OrderKey) -> Result<Option<OrderRow>, EngineError> {
        Ok(self.load_all(vec![key.clone()]).await?.pop().flatten())
    }

    /// Loads the rows of these keys, in the same order, with one read. Errors: the store's.
    pub(crate) async fn load_all(
        &self,
        keys: Vec<OrderKey>,
    ) -> Result<Vec<Option<OrderRow>>, EngineError> {
        let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
        loop {
            let epoch = self.store.epoch();
            let rows = self.store.load(keys.clone()).await?;
            // If there was a switch during the read, the rows may be of either epoch: read again.
            if self.store.epoch() == epoch {
                let of = |row: Option<Order>| row.map(|order| OrderRow { order, epoch });
                return Ok(rows.into_iter().map(of).collect());
            }
        }
    }
}

/// Waits for changes of one order's row.
pub(crate) struct RowWatcher {
    rows: Arc<RowReader>,
    key: OrderKey,
    follower: Follower,
    pause: Duration,
}

impl RowWatcher {
    /// Takes a follower, so that the order is followed before its row is read: a change in between
    /// wakes the watcher.
    pub(crate) fn new(rows: Arc<RowReader>, key: OrderKey, follower: Follower) -> Self {
        Self { rows, key, follower, pause: QUIET_PAUSES.first }
    }

    /// Resolves with the first row that is `wanted`. Cancel-safe. Errors: the store's; the caller
    /// may call this again after a pause.
    pub(crate) async fn wait_until(
        &mut self,
        wanted: impl Fn(&OrderRow) -> bool,
    ) -> Result<OrderRow, EngineError> {
        loop {
            let row = self.rows.load(&self.key).await?;
            let shown = row.as_ref().map(OrderRow::shop_version).unwrap_or_default();
            if let Some(row) = row.filter(&wanted) {
                self.pause = QUIET_PAUSES.first;
                return Ok(row);
            }
            self.wait_for_change(shown).await;
        }
    }

    /// Waits for the feed, or until it is time to read the row again.
    async fn wait_for_change(&mut self, shown: Version) {
        let pauses =
            if self.follower.newest_version() > shown { COMMIT_PAUSES } else { QUIET_PAUSES };
        let pause = self.pause.clamp(pauses.first, pauses.most);
        match tokio::time::timeout(pause, self.follower.changed()).await {
            Ok(()) => self.pause = COMMIT_PAUSES.first,
            Err(_) => self.pause = pause.saturating_mul(2),
        }
    }
}
