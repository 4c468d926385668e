//! Owns a role's access to the log, the order store and the clock. A failed call to log or store is
//! repeated until the engine answers, the call fails for good, or the role is signalled to stop; a
//! call under way is not interrupted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use payfold_engines::clock::Clock;
use payfold_engines::log::{EventLog, Message, Topic};
use payfold_engines::orders::OrderStore;
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, encode_fact};
use payfold_schemas::time::Time;
use tokio::sync::watch;

use crate::halt::{Halt, RunError};
use crate::outage::{Outage, Retry};
use crate::stop::wait_for_stop;

/// The reason in `Unpaired` where the order store names another log as its source.
const OTHER_LOG: &str = "the order store was folded from another log";

/// Log, order store and clock. Clones share the engines and the watermarks.
#[derive(Clone)]
pub struct Storage {
    /// The log, for calls that are passed to `ask` or repeated with `outage`.
    pub log: Arc<dyn EventLog>,
    /// The order store, for calls that are passed to `ask` or repeated with `outage`.
    pub store: Arc<dyn OrderStore>,
    /// This process's clock.
    pub clock: Arc<dyn Clock>,
    retry: Retry,
    stop: watch::Receiver<bool>,
    /// The highest watermark of each partition so far: a watermark never goes back, even if a
    /// record with an old time is appended.
    highest_watermarks: Arc<Mutex<BTreeMap<u32, Time>>>,
}

impl Storage {
    /// Failed calls are repeated after the pauses of `retry`, until `stop` holds true or
    /// its sender is dropped.
    pub fn new(
        log: Arc<dyn EventLog>,
        store: Arc<dyn OrderStore>,
        clock: Arc<dyn Clock>,
        retry: Retry,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self { log, store, clock, retry, stop, highest_watermarks: Arc::default() }
    }

    /// Begins an operation that the caller repeats itself while it fails. `what` follows "can't" in
    /// messages.
    pub fn outage(&self, what: &'static str) -> Outage<'_> {
        Outage::new(self.retry, &self.stop, what)
    }

    /// Appends facts to intake. Returns when they are durable, with their positions in the same
    /// order. A repeated try may store facts twice, which is harmless: a fact counts once. The
    /// positions are the last try's.
    pub async fn append(&self, facts: Vec<(OrderKey, Fact)>) -> Result<Vec<Position>, Halt> {
        let messages: Vec<_> =
            facts.into_iter().map(|(order, fact)| self.message(order, fact)).collect();
        let count = messages.len();
        let ask = || self.log.append_all(Topic::Intake, messages.clone());
        let positions = self.ask("append facts to intake", ask).await?;
        assert_eq!(positions.len(), count, "each fact has a position");
        Ok(positions)
    }

    fn message(&self, order: OrderKey, fact: Fact) -> Message {
        let (request_id, received_at) = (self.clock.request_id(), self.clock.now());
        let key = order.to_message_key();
        let record = FactRecord { order, fact, request_id, received_at, source: None };
        Message { key, event: None, value: encode_fact(&record, &[]), mac: None }
    }

    /// The rows of these orders, in the same order; `None` where there is no row.
    /// Errors: as `ask`.
    pub async fn load(&self, keys: &[OrderKey]) -> Result<Vec<Option<Order>>, Halt> {
        self.ask("load orders", || self.store.load(keys.to_vec())).await
    }

    /// The last folded position of each partition; empty if nothing is folded. Errors: `Unpaired`,
    /// and as `ask`.
    pub async fn folded(&self) -> Result<Vec<Position>, Halt> {
        let progress =
            self.ask("read how far the orders are folded", || self.store.progress()).await?;
        let Some(progress) = progress else { return Ok(Vec::new()) };
        if progress.log_id != self.log.id() {
            return Err(Halt::Failed(RunError::Unpaired(OTHER_LOG.to_owned())));
        }
        Ok(progress.folded.iter().map(|folded| folded.position).collect())
    }

    /// Repeats a call of an engine until it answers. `what` follows "can't" in messages. Errors:
    /// stop, or an error that trying again can't mend.
    pub async fn ask<'a, T>(
        &'a self,
        what: &'static str,
        ask: impl Fn() -> SeamFuture<'a, T, EngineError>,
    ) -> Result<T, Halt> {
        self.outage(what).ask(ask).await
    }

    /// Waits for this long. Errors: `Stopped`, the role was signalled to stop meanwhile.
    pub async fn pause(&self, pause: Duration) -> Result<(), Halt> {
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            () = self.stopped() => Err(Halt::Stopped),
        }
    }

    /// Resolves when the role is signalled to stop.
    pub async fn stopped(&self) {
        wait_for_stop(&self.stop).await;
    }

    /// Whether the role was signalled to stop.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Raises a partition's watermark to `time`, unless it is higher already; returns the higher.
    pub(crate) fn raise_watermark(&self, partition: u32, time: Time) -> Time {
        let mut highest = self.highest_watermarks.lock().unwrap_or_else(PoisonError::into_inner);
        let highest = highest.entry(partition).or_insert(time);
        *highest = time.max(*highest);
        *highest
    }
}

/// Whether `position` is folded, by the last folded position of each partition.
pub fn is_folded(folded: &[Position], position: Position) -> bool {
    folded.iter().any(|f| f.partition == position.partition && f.offset >= position.offset)
}
