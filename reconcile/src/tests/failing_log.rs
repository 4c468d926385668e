//! A log double that stores a number of findings and then fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use payfold_doubles::{Double, LogDouble};
use payfold_engines::log::sqlite::SqliteLog;
use payfold_engines::log::{EventLog, Message, Topic};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::position::Position;

pub(super) struct FailingLog {
    log: Arc<SqliteLog>,
    left: AtomicI64,
}

impl FailingLog {
    /// A log that fails after this many findings.
    pub(super) fn failing_after(log: Arc<SqliteLog>, left: i64) -> Arc<Double<Self>> {
        Arc::new(Double(Self { log, left: AtomicI64::new(left) }))
    }
}

impl LogDouble for FailingLog {
    fn real(&self) -> &dyn EventLog {
        &*self.log
    }

    fn append_all(
        &self,
        topic: Topic,
        mut messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError> {
        if topic != Topic::Findings {
            return self.log.append_all(topic, messages);
        }
        let wanted = i64::try_from(messages.len()).unwrap();
        let left = self.left.fetch_sub(wanted, Ordering::SeqCst);
        if left >= wanted {
            return self.log.append_all(topic, messages);
        }
        messages.truncate(usize::try_from(left.max(0)).unwrap());
        let log = Arc::clone(&self.log);
        Box::pin(async move {
            if !messages.is_empty() {
                log.append_all(topic, messages).await?;
            }
            Err(EngineError::Corrupt("cut off".into()))
        })
    }
}
