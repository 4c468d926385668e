//! Owns the embedded log: one SQLite file, one writer thread, readers beside it. One process, one
//! partition. Invariants: see `tables` (what the file holds), `writer` (an append is answered only
//! when it is durable), `queue` (order and limit) and `waiters` (every waiter is woken).

mod assigned_reader;
mod offset;
mod subscription;
mod tables;
#[cfg(test)]
mod tests;
mod work;
mod writer;

use std::fmt;
use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use futures_util::TryFutureExt;
use payfold_schemas::position::Position;
use tokio::sync::watch;

use self::assigned_reader::SqliteAssignedReader;
use self::offset::offset_of;
use self::subscription::SqliteSubscription;
use self::tables::position;
use self::work::WriterWork;
pub use self::writer::{CommitObserver, LogStats};
use self::writer::{Writer, WriterShared};
use crate::blocking::blocking;
use crate::log::queue::AppendQueue;
use crate::log::{
    AssignedReader, Delivered, EventLog, Extent, Message, Start, Subscription, Topic, check_size,
};
use crate::sqlite::{FileIdentity, LockFile, ReadPool, at};
use crate::{EngineError, SeamFuture, failed, lock};

/// Page cache of a connection for listings, KiB.
const READER_CACHE_KIB: u32 = 1_024;

/// Settings of a SQLite log.
#[derive(Clone)]
pub struct SqliteLogSettings {
    /// How many messages may wait for durability before `append` refuses more.
    pub queue_max: usize,
    /// Length of the write-ahead log in bytes; this much disk is reserved when the log is opened.
    pub wal_bytes: u32,
    /// Called after every commit, on the writer's thread, so it must be quick.
    pub observer: Option<CommitObserver>,
}

impl Default for SqliteLogSettings {
    fn default() -> Self {
        Self { queue_max: 4_096, wal_bytes: 4 << 20, observer: None }
    }
}

impl fmt::Debug for SqliteLogSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteLogSettings")
            .field("queue_max", &self.queue_max)
            .finish_non_exhaustive()
    }
}

/// The event log in one SQLite file.
pub struct SqliteLog {
    id: [u8; 16],
    readers: Arc<ReadPool>,
    path: PathBuf,
    /// `None` for a log opened for reading only.
    writer: Option<RunningWriter>,
}

/// The writer of a log that accepts appends.
struct RunningWriter {
    shared: Arc<WriterShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    _lock: LockFile,
}

impl SqliteLog {
    /// Opens the log at `path`, creates it if it doesn't exist, and starts its writer. Errors:
    /// `Unavailable` (another process uses it, the disk fails), `Corrupt`, `Invalid` (another
    /// version created it).
    pub fn open(path: impl AsRef<Path>, settings: SqliteLogSettings) -> Result<Self, EngineError> {
        let path = path.as_ref();
        let lock = LockFile::take(path)?;
        let connection = tables::open(path)?;
        let id = tables::log_id(&connection).map_err(|error| at(path, error))?;
        let heads = tables::heads(&connection).map_err(|error| at(path, error))?;
        if let Err(error) = tables::reserve(&connection, settings.wal_bytes) {
            // Without the reserve the first commits are slower. If the disk is full, appends say
            // so.
            tracing::warn!(%error, "no disk space was reserved for the log's write-ahead log");
        }
        let shared = Arc::new(WriterShared {
            path: path.to_owned(),
            id,
            files: Arc::new(FileIdentity::of(path)?),
            queue: AppendQueue::new(settings.queue_max),
            heads: heads.map(watch::Sender::new),
            stats: LogStats::default(),
            observer: settings.observer,
            wal_bytes: usize::try_from(settings.wal_bytes).unwrap_or(usize::MAX),
            ended: watch::Sender::new(false),
        });
        let writer = Writer::new(Arc::clone(&shared), connection, heads);
        let thread = std::thread::Builder::new()
            .name("payfold-log".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| {
                EngineError::Unavailable(format!("can't start the log's writer: {error}"))
            })?;
        let running = RunningWriter { shared, thread: Mutex::new(Some(thread)), _lock: lock };
        Ok(Self::with(path, id, Some(running)))
    }

    /// Opens an existing log for listings; another process may write it meanwhile. Appends and acks
    /// are `Invalid`, and a subscription ends where the log ended when it was opened.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, EngineError> {
        let path = path.as_ref();
        let id = ReadPool::new(path, READER_CACHE_KIB).with(tables::log_id)?;
        Ok(Self::with(path, id, None))
    }

    fn with(path: &Path, id: [u8; 16], writer: Option<RunningWriter>) -> Self {
        let readers = match &writer {
            Some(running) => {
                ReadPool::beside(path, READER_CACHE_KIB, Arc::clone(&running.shared.files))
            }
            None => ReadPool::new(path, READER_CACHE_KIB),
        };
        Self { id, readers: Arc::new(readers), path: path.to_owned(), writer }
    }

    /// The log's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The offset of intake after which every create request of a shop has its claim beside the
    /// order store; `None` while no claims are paired with this log. Blocks.
    pub fn claims_since(&self) -> Result<Option<u64>, EngineError> {
        self.readers.with(tables::claims_since)
    }

    /// Records that claims are paired with this log from its present end on, unless a pairing is
    /// recorded already. Durable when it returns. Blocks. Errors: `Invalid` for a log opened for
    /// reading only.
    pub fn pair_claims(&self) -> Result<(), EngineError> {
        self.running()?;
        tables::pair_claims(&self.path)
    }

    /// Records that no claims are paired with this log, so that the next pairing starts at its end.
    /// Durable when it returns. Blocks. Errors: `Invalid` for a log opened for reading only.
    pub fn unpair_claims(&self) -> Result<(), EngineError> {
        self.running()?;
        tables::unpair_claims(&self.path)
    }

    /// The writer's counters; `None` for a log opened for reading only.
    pub fn stats(&self) -> Option<&LogStats> {
        self.writer.as_ref().map(|running| &running.shared.stats)
    }

    fn running(&self) -> Result<&RunningWriter, EngineError> {
        let read_only = || EngineError::Invalid("this log is open for reading only".to_owned());
        self.writer.as_ref().ok_or_else(read_only)
    }

    async fn reader(
        &self,
        topic: Topic,
        group: String,
        start: Start,
    ) -> Result<SqliteSubscription, EngineError> {
        let readers = Arc::clone(&self.readers);
        let (acking, starting) = (group.clone(), start.clone());
        let (after, stored) = blocking(move || {
            readers.with(|connection| {
                let after = match starting {
                    Start::Group => tables::acked(connection, &acking, topic)?,
                    Start::After(positions) => offset_of(&positions)?,
                };
                Ok((after, tables::heads(connection)?[topic.index()]))
            })
        })
        .await?;
        let group = (start == Start::Group).then_some(group);
        let mut reader = self.reader_from(topic, group, stored);
        reader.start_after(after)?;
        Ok(reader)
    }

    /// Makes a subscription at the beginning of a topic that ends at offset `stored`.
    fn reader_from(&self, topic: Topic, group: Option<String>, stored: u64) -> SqliteSubscription {
        let shared = self.writer.as_ref().map(|running| Arc::clone(&running.shared));
        let head = match &shared {
            Some(shared) => shared.heads[topic.index()].subscribe(),
            None => watch::Sender::new(stored).subscribe(),
        };
        let (writer, path) = (shared, self.path.clone());
        let connection = Arc::default();
        SqliteSubscription { topic, group, after: 0, head, writer, path, connection }
    }
}

impl EventLog for SqliteLog {
    fn append(&self, topic: Topic, message: Message) -> SeamFuture<'static, Position, EngineError> {
        let queued = check_size(std::slice::from_ref(&message))
            .and_then(|()| self.running())
            .and_then(|running| running.shared.queue.push_bounded(WriterWork::One(topic, message)));
        match queued {
            Ok(waiter) => Box::pin(waiter),
            Err(error) => failed(error),
        }
    }

    fn append_all(
        &self,
        topic: Topic,
        messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError> {
        if messages.is_empty() {
            return Box::pin(ready(Ok(Vec::new())));
        }
        let length = messages.len();
        let count = u64::try_from(length).expect("a count fits 64 bits");
        let queued = check_size(&messages).and_then(|()| self.running()).and_then(|running| {
            running.shared.queue.push(WriterWork::Many(topic, messages), length)
        });
        match queued {
            Ok(waiter) => Box::pin(waiter.map_ok(move |Position { offset: first, .. }| {
                (first..first + count).map(position).collect()
            })),
            Err(error) => failed(error),
        }
    }

    fn subscribe(
        &self,
        topic: Topic,
        group: &str,
        start: Start,
    ) -> SeamFuture<'_, Box<dyn Subscription>, EngineError> {
        let reader = self.reader(topic, group.to_owned(), start);
        Box::pin(reader.map_ok(|reader| Box::new(reader) as Box<dyn Subscription>))
    }

    fn join_group(
        &self,
        topic: Topic,
        group: &str,
    ) -> SeamFuture<'_, Box<dyn AssignedReader>, EngineError> {
        let (group, readers) = (Some(group.to_owned()), Arc::clone(&self.readers));
        Box::pin(async move {
            let heads = blocking(move || readers.with(tables::heads)).await?;
            let reader = self.reader_from(topic, group, heads[topic.index()]);
            Ok(Box::new(SqliteAssignedReader::new(reader)) as Box<dyn AssignedReader>)
        })
    }

    fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        let readers = Arc::clone(&self.readers);
        Box::pin(blocking(move || {
            let after = offset_of(&[after])?;
            readers.with(|connection| tables::read_after(connection, topic, after, limit))
        }))
    }

    fn extent(&self, topic: Topic) -> SeamFuture<'_, Vec<Extent>, EngineError> {
        let readers = Arc::clone(&self.readers);
        Box::pin(blocking(move || {
            readers.with(|connection| tables::extent(connection, topic)).map(|extent| vec![extent])
        }))
    }

    fn id(&self) -> [u8; 16] {
        self.id
    }

    fn check_storage(&self) -> SeamFuture<'_, (), EngineError> {
        let files = self.writer.as_ref().map(|running| Arc::clone(&running.shared.files));
        Box::pin(blocking(move || files.map_or(Ok(()), |files| files.check())))
    }

    fn queue_depth(&self) -> usize {
        self.writer.as_ref().map_or(0, |running| running.shared.queue.depth())
    }

    fn close(&self) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async move {
            let Some(running) = &self.writer else { return Ok(()) };
            running.shared.queue.close();
            let mut ended = running.shared.ended.subscribe();
            // The sender is in `shared`, so it exists as long as this log.
            let _ = ended.wait_for(|ended| *ended).await;
            Ok(())
        })
    }
}

impl Drop for SqliteLog {
    fn drop(&mut self) {
        let Some(running) = &self.writer else { return };
        running.shared.queue.close();
        if let Some(thread) = lock(&running.thread).take() {
            // The end guard of a writer that panicked has failed its waiters already.
            let _ = thread.join();
        }
    }
}
