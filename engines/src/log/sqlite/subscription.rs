//! Owns a reader of one topic: its connection, its offset, and the wait for more messages.
//! Invariants: a batch holds committed rows only; every batch starts right after the last one and
//! has no gap; the offset moves only when a batch is returned, so a dropped `next_batch` loses
//! nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use payfold_schemas::position::Position;
use rusqlite::Connection;
use tokio::sync::watch;

use super::tables;
use super::work::WriterWork;
use super::writer::WriterShared;
use crate::blocking::blocking;
use crate::log::{Delivered, Subscription, Topic};
use crate::sqlite::{at, open_reader};
use crate::{EngineError, SeamFuture, lock};

/// Page cache of a subscription, KiB. It reads forward, so it needs the current pages only.
const CACHE_KIB: u32 = 1_024;

/// A reader of one topic of a SQLite log.
pub(super) struct SqliteSubscription {
    pub(super) topic: Topic,
    /// `None` for a subscription outside any group.
    pub(super) group: Option<String>,
    /// The offset of the last message returned.
    pub(super) after: u64,
    /// The offset of the topic's last message. Of a log opened for reading only it stays what it
    /// was at the beginning.
    pub(super) head: watch::Receiver<u64>,
    /// `None` for a log opened for reading only.
    pub(super) writer: Option<Arc<WriterShared>>,
    pub(super) path: PathBuf,
    /// The first read opens it. A read on a blocking thread holds it even if its future was
    /// dropped.
    pub(super) connection: Arc<Mutex<Option<Connection>>>,
}

impl SqliteSubscription {
    /// Continues after this offset. Errors: `Invalid` past the end.
    pub(super) fn start_after(&mut self, after: u64) -> Result<(), EngineError> {
        let stored = *self.head.borrow();
        if after > stored {
            return Err(EngineError::Invalid(format!(
                "can't read after 0-{after}: topic {} ends at 0-{stored}",
                self.topic.name()
            )));
        }
        self.after = after;
        Ok(())
    }

    pub(super) async fn next(&mut self, limit: usize) -> Result<Vec<Delivered>, EngineError> {
        if limit == 0 {
            return Err(EngineError::Invalid("a batch needs a limit of at least 1".to_owned()));
        }
        let after = self.after;
        if self.head.wait_for(|head| *head > after).await.is_err() {
            return Err(EngineError::Unavailable("the log is closed".to_owned()));
        }
        let (topic, path) = (self.topic, self.path.clone());
        let connection = Arc::clone(&self.connection);
        let files = self.writer.as_ref().map(|shared| Arc::clone(&shared.files));
        let batch = blocking(move || {
            let mut connection = lock(&connection);
            if connection.is_none() {
                let opened = open_reader(&path, CACHE_KIB)?;
                // It must be the file that the writer has open.
                if let Some(files) = files {
                    files.check()?;
                }
                *connection = Some(opened);
            }
            let open = connection.as_ref().expect("it was opened just above");
            tables::read_after(open, topic, after, limit).map_err(|error| at(&path, error))
        })
        .await?;
        let Some(last) = batch.last() else {
            return Err(EngineError::Corrupt(format!(
                "topic {} ends at offset {after} and was longer before: restore the log from a \
                 backup",
                topic.name()
            )));
        };
        self.after = last.position.offset;
        Ok(batch)
    }

    async fn commit_ack(&self, through: Vec<Position>) -> Result<(), EngineError> {
        let Some(shared) = &self.writer else {
            return Err(EngineError::Invalid("this log is open for reading only".to_owned()));
        };
        let Some(group) = &self.group else {
            return Err(EngineError::Invalid(
                "a subscription outside a group can't ack".to_owned(),
            ));
        };
        for position in through {
            let head = *self.head.borrow();
            if position.partition != 0 || position.offset > head {
                let text =
                    format!("can't ack {position}: topic {} ends at 0-{head}", self.topic.name());
                return Err(EngineError::Invalid(text));
            }
            let (group, topic, offset) = (group.clone(), self.topic, position.offset);
            shared.queue.push(WriterWork::Ack { group, topic, offset }, 0)?.await?;
        }
        Ok(())
    }
}

impl Subscription for SqliteSubscription {
    fn next_batch(&mut self, limit: usize) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        Box::pin(self.next(limit))
    }

    fn ack(&mut self, through: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        Box::pin(self.commit_ack(through))
    }
}
