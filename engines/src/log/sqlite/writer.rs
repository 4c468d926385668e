//! Owns the writer thread, the only code that appends to the log: `SqliteLog::append` only puts its
//! message into the bounded queue (`log/queue.rs`), in order. The writer takes everything queued as
//! one group, commits the group in one transaction, and then answers its waiters and readers. A
//! COMMIT that returned is synced to the disk (`synchronous = FULL` in `tables`).
//! Invariants: a group is acknowledged only after COMMIT returned Ok and the path still named the
//! file it went into; a failed group is rolled back whole, every waiter gets the error, and the
//! next group starts after what the file really holds. A group that was committed into a file that
//! was lost meanwhile fails, too; its messages are in the file if that comes back.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::watch;

use super::tables::{self, PerTopic};
use super::work::WriterWork;
use crate::EngineError;
use crate::log::Topic;
use crate::log::queue::{AppendJob, AppendQueue, TakenJobs};
use crate::log::waiters::{HANDOVER_MAX, Wakeups};
use crate::sqlite::{FileIdentity, seam_error};

/// What a commit adds to the write-ahead log besides its messages, bytes: it writes whole pages, so
/// also the rest of the table's last page and the page above it.
const COMMIT_BYTES_MIN: usize = 2 * 8_192;

/// Called after every commit with the number of rows it made durable and the time from BEGIN until
/// they were synced.
pub type CommitObserver = Arc<dyn Fn(usize, Duration) + Send + Sync>;

/// Counters of the log's writer since the log was opened.
#[derive(Debug, Default)]
pub struct LogStats {
    failures: AtomicU64,
}

impl LogStats {
    /// How many groups failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

/// State shared by the writer's thread and the log's handle.
pub(super) struct WriterShared {
    pub(super) path: PathBuf,
    /// The log's random id.
    pub(super) id: [u8; 16],
    /// The files the writer has open.
    pub(super) files: Arc<FileIdentity>,
    pub(super) queue: AppendQueue<WriterWork>,
    pub(super) heads: PerTopic<watch::Sender<u64>>,
    pub(super) stats: LogStats,
    pub(super) observer: Option<CommitObserver>,
    /// About how many bytes the write-ahead log may have before a checkpoint copies it into the
    /// database.
    pub(super) wal_bytes: usize,
    /// True once the writer has ended and every accepted job has its outcome.
    pub(super) ended: watch::Sender<bool>,
}

/// The writer thread's own state.
pub(super) struct Writer {
    shared: Arc<WriterShared>,
    /// `None` after a connection failed, until it is opened again.
    connection: Option<Connection>,
    heads: PerTopic<u64>,
    /// Whether the heads must be read from the file before the next group: a commit may have gone
    /// into files that were lost.
    heads_are_stale: bool,
    wakeups: Wakeups,
    bytes_since_checkpoint: usize,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<WriterShared>,
        connection: Connection,
        heads: PerTopic<u64>,
    ) -> Self {
        Self {
            shared,
            connection: Some(connection),
            heads,
            heads_are_stale: false,
            wakeups: Wakeups::default(),
            bytes_since_checkpoint: 0,
        }
    }

    /// Commits group after group until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let _ended = WriterEndGuard(&shared);
        let mut group = Vec::new();
        loop {
            let timeout = self.wakeups.sweep().then_some(HANDOVER_MAX);
            match shared.queue.take(&mut group, timeout) {
                TakenJobs::Group => self.commit_group(&mut group),
                TakenJobs::TimedOut => {}
                TakenJobs::Closed => break,
            }
        }
        if shared.files.check().is_ok() {
            self.checkpoint("TRUNCATE");
        }
        if let Some(connection) = self.connection.take() {
            shared.files.end(connection);
        }
    }

    /// Commits a group and answers its waiters.
    fn commit_group(&mut self, group: &mut Vec<AppendJob<WriterWork>>) {
        assert!(!group.is_empty(), "a group has at least one job");
        let rows = group.iter().map(|job| job.work.messages().1.len()).sum();
        let started = Instant::now();
        let result = self.write_group(group);
        let took = started.elapsed();
        self.shared.queue.release(rows);
        match result {
            Ok(heads) => {
                self.answer_group(group, heads);
                if let Some(observer) = &self.shared.observer {
                    observer(rows, took);
                }
                self.checkpoint_if_due();
            }
            Err(error) => {
                // Not logged here: appenders report the error, and a full disk fails every group.
                self.shared.stats.failures.fetch_add(1, Ordering::Relaxed);
                for job in group.drain(..) {
                    self.wakeups.complete(job.promise, Err(error.clone()));
                }
                self.wakeups.flush();
                self.recover();
            }
        }
    }

    /// Writes a group in one transaction. Returns the heads after it.
    fn write_group(
        &mut self,
        group: &[AppendJob<WriterWork>],
    ) -> Result<PerTopic<u64>, EngineError> {
        self.prepare()?;
        let connection = self.connection.as_ref().expect("it was opened above if it was not open");
        let mut heads = self.heads;
        let mut bytes = 0;
        let mut write = || -> rusqlite::Result<()> {
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let mut appenders = [const { None }; Topic::ALL.len()];
            for job in group {
                if let WriterWork::Ack { group, topic, offset } = &job.work {
                    tables::ack(connection, group, *topic, *offset)?;
                }
                let (topic, messages) = job.work.messages();
                if appenders[topic.index()].is_none() {
                    appenders[topic.index()] = Some(tables::appender(connection, topic)?);
                }
                let appender = appenders[topic.index()].as_mut().expect("it was set just above");
                for message in messages {
                    heads[topic.index()] += 1;
                    bytes += message.key.len() + message.value.len();
                    tables::append(appender, heads[topic.index()], message)?;
                }
            }
            connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(())
        };
        let written = write().inspect_err(|error| self.shared.files.record_error(error));
        written.map_err(seam_error)?;
        assert!(connection.is_autocommit(), "a committed group leaves no transaction open");
        let grew = heads.iter().zip(&self.heads).all(|(new, old)| new >= old);
        assert!(grew, "positions only grow");
        self.bytes_since_checkpoint += bytes + COMMIT_BYTES_MIN;
        // Checked after the commit, so that a file that was lost before it fails this group.
        self.shared.files.check()?;
        Ok(heads)
    }

    /// Makes the connection and the heads ready for a group: opens the file again and reads the
    /// heads if needed. Errors: `Unavailable` while the log's files are lost.
    fn prepare(&mut self) -> Result<(), EngineError> {
        let Some(connection) = &self.connection else { return self.reopen() };
        if self.shared.files.is_lost() {
            self.shared.files.check()?;
        }
        if self.heads_are_stale {
            if !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK").map_err(seam_error)?;
            }
            let heads = tables::heads(connection)?;
            self.adopt(heads)?;
            self.heads_are_stale = false;
        }
        Ok(())
    }

    /// Answers the waiters of a committed group and makes its messages visible to readers.
    fn answer_group(&mut self, group: &mut Vec<AppendJob<WriterWork>>, heads: PerTopic<u64>) {
        let mut next = self.heads;
        for job in group.drain(..) {
            let (topic, messages) = job.work.messages();
            let first = next[topic.index()] + 1;
            next[topic.index()] += u64::try_from(messages.len()).expect("a count fits 64 bits");
            self.wakeups.complete(job.promise, Ok(tables::position(first)));
        }
        assert_eq!(next, heads, "the returned positions are the written ones");
        self.wakeups.flush();
        for (sender, (old, new)) in self.shared.heads.iter().zip(self.heads.into_iter().zip(heads))
        {
            if old != new {
                sender.send_replace(new);
            }
        }
        self.heads = heads;
    }

    /// Rolls a failed group back and checks where the topics end. A connection that fails at this
    /// is closed, unless its files are lost: then the open connection may be the only way to their
    /// data.
    fn recover(&mut self) {
        let Some(connection) = &self.connection else { return };
        let rolled_back =
            connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
        match rolled_back.then(|| tables::heads(connection)) {
            Some(Ok(heads)) if heads == self.heads => {}
            _ if self.shared.files.is_lost() => self.heads_are_stale = true,
            _ => {
                if let Some(connection) = self.connection.take() {
                    self.connection = self.shared.files.close(connection);
                    self.heads_are_stale = true;
                }
            }
        }
        if self.shared.files.is_lost()
            && let Some(connection) = &self.connection
        {
            // If only the write-ahead log is lost, this copies it into the database at its path,
            // where a restart finds it.
            self.shared.files.save(connection);
        }
    }

    fn reopen(&mut self) -> Result<(), EngineError> {
        self.shared.files.check()?;
        let connection = tables::reopen(&self.shared.path, self.shared.id)?;
        let heads = tables::heads(&connection)?;
        self.shared.files.reopened()?;
        self.adopt(heads)?;
        self.heads_are_stale = false;
        self.connection = Some(connection);
        Ok(())
    }

    /// Continues from where the file ends. Errors: `Corrupt` if acknowledged messages are missing.
    fn adopt(&mut self, heads: PerTopic<u64>) -> Result<(), EngineError> {
        // More than the acknowledged messages is fine: a commit that returned an error after its
        // frames reached the disk may be stored.
        let behind = self.heads.iter().zip(&heads).any(|(acked, stored)| stored < acked);
        if behind {
            let text = format!(
                "the log's topics end at offsets {heads:?}, but {:?} were acknowledged: restore \
                 the log from a backup",
                self.heads
            );
            return Err(EngineError::Corrupt(text));
        }
        self.heads = heads;
        for (sender, head) in self.shared.heads.iter().zip(heads) {
            sender.send_replace(head);
        }
        Ok(())
    }

    fn checkpoint_if_due(&mut self) {
        if self.bytes_since_checkpoint >= self.shared.wal_bytes {
            self.checkpoint("PASSIVE");
        }
    }

    /// Copies the write-ahead log into the database. A checkpoint that fails (a full disk) or stops
    /// at an older state that a reader holds loses nothing: the write-ahead log keeps the rest.
    fn checkpoint(&mut self, mode: &str) {
        self.bytes_since_checkpoint = 0;
        let Some(connection) = &self.connection else { return };
        let copied = self.shared.files.checkpoint(connection, mode);
        if let Err(error) = copied
            && self.shared.files.check().is_ok()
        {
            tracing::warn!(%error, "a checkpoint of the log failed; the writer tries again later");
        }
    }
}

/// Closes the queue and fails the jobs left in it, however the writer's thread ends (also by a
/// panic).
struct WriterEndGuard<'a>(&'a WriterShared);

impl Drop for WriterEndGuard<'_> {
    fn drop(&mut self) {
        self.0.queue.close();
        let mut left = Vec::new();
        self.0.queue.take(&mut left, None);
        drop(left);
        self.0.ended.send_replace(true);
    }
}
