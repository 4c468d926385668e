//! Owns the appending of facts: each is durable when this says so, and appending one twice is the same as once.
//! A storage in trouble is logged when it begins and when it is over, not for every request. Readiness asks here whether
//! payments can be stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use payfold_engines::EngineError;
use payfold_engines::clock::Clock;
use payfold_engines::health::StorageHealth;
use payfold_engines::log::{EventLog, Message, Topic};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::time::Time;

use crate::problem::{Problem, kinds};

/// Between two tries of one append, doubled from the first to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MOST: Duration = Duration::from_secs(2);

/// The door to the log.
pub struct Facts {
    log: Arc<dyn EventLog>,
    clock: Arc<dyn Clock>,
    failing: AtomicBool,
    /// How claims and appends fare.
    stores: StorageHealth,
    /// How reading fares, apart: rows that can be read say nothing of a disk that is full.
    reads: StorageHealth,
}

impl Facts {
    /// A door to `log`.
    pub fn new(log: Arc<dyn EventLog>, clock: Arc<dyn Clock>) -> Self {
        let (stores, reads) = (StorageHealth::default(), StorageHealth::default());
        Self { log, clock, failing: AtomicBool::new(false), stores, reads }
    }

    /// Appends an encoded fact of an order, again and again for `patience` if need be; when it returns the fact is
    /// durable. Errors: `storage_unavailable`; the fact may be stored or not.
    pub async fn append(
        &self,
        order: &OrderKey,
        record: Vec<u8>,
        patience: Duration,
    ) -> Result<(), Problem> {
        let kept = tokio::time::timeout(patience, self.keep(order, record)).await;
        let kept = kept.unwrap_or_else(|_| {
            let waited = format!("no append came through within {} ms", patience.as_millis());
            Err(EngineError::Unavailable(waited))
        });
        kept.map_err(|error| self.store_failed(&error))
    }

    /// The same for as long as it takes. Errors: where no repeat would help.
    pub async fn keep(&self, order: &OrderKey, record: Vec<u8>) -> Result<(), EngineError> {
        let message = Message { key: order.to_message_key(), event: None, value: record };
        let mut pause = PAUSE_FIRST;
        loop {
            match self.log.append(Topic::Intake, message.clone()).await {
                Ok(_) => {
                    self.stored();
                    if self.failing.swap(false, Ordering::Relaxed) {
                        tracing::info!("the storage can be used again");
                    }
                    return Ok(());
                }
                Err(error @ EngineError::Unavailable(_)) => {
                    self.store_failed(&error);
                    tokio::time::sleep(pause).await;
                    pause = pause.saturating_mul(2).min(PAUSE_MOST);
                }
                Err(error @ (EngineError::Invalid(_) | EngineError::Corrupt(_))) => {
                    return Err(error);
                }
            }
        }
    }

    /// Why shops should be sent elsewhere; none while they should not.
    pub fn trouble(&self, now: Time) -> Option<String> {
        self.stores.trouble(now).or_else(|| self.reads.trouble(now))
    }

    /// A claim or a fact became durable.
    pub fn stored(&self) {
        self.stores.succeeded();
    }

    /// Something was read.
    pub fn read(&self) {
        self.reads.succeeded();
    }

    /// The problem of a storage that took no claim or fact.
    pub fn store_failed(&self, error: &EngineError) -> Problem {
        self.stores.failed(self.clock.now(), &error.to_string());
        self.report(error)
    }

    /// The problem of a storage that could not be read.
    pub fn failed(&self, error: &EngineError) -> Problem {
        self.reads.failed(self.clock.now(), &error.to_string());
        self.report(error)
    }

    /// The engine's own words go to the log, once.
    fn report(&self, error: &EngineError) -> Problem {
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "the storage can't be used: shops are answered 503 until it can; look at its disk or broker");
        }
        Problem::new(&kinds::STORAGE_UNAVAILABLE)
    }
}
