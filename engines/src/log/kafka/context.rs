//! Owns what librdkafka tells a client of ours besides results: its log, its errors, its statistics.
//! A broker that is away is told there again and again; who waits for it says so once, so here it is kept and
//! logged at debug level only.

use std::fmt;
use std::sync::{Arc, Mutex};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::statistics::Statistics;

use crate::lock;

/// Is told librdkafka's own statistics of a client, on that client's thread: keep it short.
pub type StatisticsObserver = Arc<dyn Fn(&Statistics) + Send + Sync>;

/// What a client of ours is told.
#[derive(Clone, Default)]
pub(super) struct Context {
    observer: Option<StatisticsObserver>,
    last_error: Arc<Mutex<Option<String>>>,
}

impl Context {
    pub(super) fn new(observer: Option<StatisticsObserver>) -> Self {
        Self { observer, last_error: Arc::default() }
    }

    /// The last error, as the reason behind a time-out.
    pub(super) fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, level = ?level, "librdkafka: {message}");
    }

    fn stats(&self, statistics: Statistics) {
        if let Some(observer) = &self.observer {
            observer(&statistics);
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, "librdkafka: {reason}");
        *lock(&self.last_error) = Some(reason.to_owned());
    }
}
