//! Owns the appending of facts. A fact is durable when an append returns, and a fact that is
//! appended twice counts once. One flag serves reads, claims and appends: storage trouble is logged
//! when any of them first fails, and as over when an append succeeds. Readiness asks here whether
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

/// The first and the longest pause between two tries of one append; each pause is twice the one
/// before.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Appends facts to intake, and keeps the health of log and store.
pub(crate) struct FactLog {
    log: Arc<dyn EventLog>,
    clock: Arc<dyn Clock>,
    /// Whether storage trouble is logged and not over.
    is_failing: AtomicBool,
    /// Each has a health of its own: the log and the claims may be different servers, and rows can
    /// be read from a disk that is full.
    appends: StorageHealth,
    claims: StorageHealth,
    reads: StorageHealth,
}

impl FactLog {
    /// Appends to `log`. Nothing has failed yet.
    pub(crate) fn new(log: Arc<dyn EventLog>, clock: Arc<dyn Clock>) -> Self {
        let (appends, claims, reads) = Default::default();
        Self { log, clock, is_failing: AtomicBool::new(false), appends, claims, reads }
    }

    /// Appends an encoded fact of an order, and repeats that within `timeout` while the log is
    /// unavailable. The fact is durable when this returns `Ok`. Errors: `storage_unavailable`; the
    /// fact may be durable or not.
    pub(crate) async fn append_within(
        &self,
        timeout: Duration,
        order: &OrderKey,
        record: Vec<u8>,
    ) -> Result<(), Problem> {
        let appended =
            tokio::time::timeout(timeout, self.append_until_durable(order, record)).await;
        let appended = appended.unwrap_or_else(|_| {
            let waited = format!("no append succeeded within {} ms", timeout.as_millis());
            Err(EngineError::Unavailable(waited))
        });
        appended.map_err(|error| self.note_append_failure(&error))
    }

    /// The same without a timeout. Errors: an error that trying again can't mend.
    pub(crate) async fn append_until_durable(
        &self,
        order: &OrderKey,
        record: Vec<u8>,
    ) -> Result<(), EngineError> {
        let message =
            Message { key: order.to_message_key(), event: None, value: record, mac: None };
        let mut pause = PAUSE_MIN;
        loop {
            match self.log.append(Topic::Intake, message.clone()).await {
                Ok(_) => {
                    self.appends.succeeded();
                    if self.is_failing.swap(false, Ordering::Relaxed) {
                        tracing::info!("the storage can be used again");
                    }
                    return Ok(());
                }
                Err(error @ EngineError::Unavailable(_)) => {
                    self.note_append_failure(&error);
                    tokio::time::sleep(pause).await;
                    pause = pause.saturating_mul(2).min(PAUSE_MAX);
                }
                Err(error @ (EngineError::Invalid(_) | EngineError::Corrupt(_))) => {
                    return Err(error);
                }
            }
        }
    }

    /// Why the role is not ready: storage has failed for a while. `None` if it is ready.
    pub(crate) fn storage_trouble(&self, now: Time) -> Option<String> {
        [&self.appends, &self.claims, &self.reads].into_iter().find_map(|one| one.trouble(now))
    }

    /// A claim became durable.
    pub(crate) fn note_claim(&self) {
        self.claims.succeeded();
    }

    /// A read succeeded.
    pub(crate) fn note_read(&self) {
        self.reads.succeeded();
    }

    fn note_append_failure(&self, error: &EngineError) -> Problem {
        self.appends.failed(self.clock.now(), &error.to_string());
        self.log_failure(error)
    }

    /// A claim failed; returns the problem to answer with.
    pub(crate) fn note_claim_failure(&self, error: &EngineError) -> Problem {
        self.claims.failed(self.clock.now(), &error.to_string());
        self.log_failure(error)
    }

    /// A read failed; returns the problem to answer with.
    pub(crate) fn note_read_failure(&self, error: &EngineError) -> Problem {
        self.reads.failed(self.clock.now(), &error.to_string());
        self.log_failure(error)
    }

    /// Logs the engine's error once per time of trouble. The shop gets no detail of it.
    fn log_failure(&self, error: &EngineError) -> Problem {
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            tracing::error!(
                %error,
                "the storage can't be used: shops are answered 503 until it can; check its disk, \
                 database or broker"
            );
        }
        Problem::new(&kinds::STORAGE_UNAVAILABLE)
    }
}
