//! Owns librdkafka's callbacks besides results: log lines, errors and statistics. librdkafka
//! reports an unreachable broker again and again. The code that waits for the broker reports it
//! once, so the callback only keeps the error as a reason, and logs it at debug level.

use std::fmt;
use std::sync::{Arc, Mutex};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::statistics::Statistics;

use crate::lock;

/// Called with librdkafka's statistics of a client, on that client's thread, so it must be quick.
pub type StatisticsObserver = Arc<dyn Fn(&Statistics) + Send + Sync>;

/// The context of a librdkafka client.
#[derive(Clone, Default)]
pub(super) struct Context {
    observer: Option<StatisticsObserver>,
    last_error: Arc<Mutex<Option<String>>>,
}

impl Context {
    pub(super) fn new(observer: Option<StatisticsObserver>) -> Self {
        Self { observer, last_error: Arc::default() }
    }

    /// The last error, which is usually the reason of a timeout.
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
