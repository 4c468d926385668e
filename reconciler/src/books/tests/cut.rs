//! A log that is cut off: so many findings are stored, and then nothing more.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use payfold_engines::log::sqlite::SqliteLog;
use payfold_engines::log::{
    Delivered, EventLog, Extent, Message, Share, Start, Subscription, Topic,
};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::record::Position;

pub(super) struct Cut {
    log: Arc<SqliteLog>,
    left: AtomicI64,
}

impl Cut {
    /// Stores so many findings.
    pub(super) fn after(log: Arc<SqliteLog>, left: i64) -> Arc<Self> {
        Arc::new(Self { log, left: AtomicI64::new(left) })
    }
}

impl EventLog for Cut {
    fn append(&self, topic: Topic, message: Message) -> SeamFuture<'static, Position, EngineError> {
        self.log.append(topic, message)
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

    fn subscribe(
        &self,
        topic: Topic,
        group: &str,
        start: Start,
    ) -> SeamFuture<'_, Box<dyn Subscription>, EngineError> {
        self.log.subscribe(topic, group, start)
    }

    fn share(&self, topic: Topic, group: &str) -> SeamFuture<'_, Box<dyn Share>, EngineError> {
        self.log.share(topic, group)
    }

    fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        self.log.read_after(topic, after, limit)
    }

    fn extent(&self, topic: Topic) -> SeamFuture<'_, Vec<Extent>, EngineError> {
        self.log.extent(topic)
    }

    fn id(&self) -> [u8; 16] {
        self.log.id()
    }

    fn queue_depth(&self) -> usize {
        self.log.queue_depth()
    }

    fn close(&self) -> SeamFuture<'_, (), EngineError> {
        self.log.close()
    }
}
