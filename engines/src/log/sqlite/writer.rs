//! Owns the writer thread: the one place that writes the log. It takes everything queued as one group,
//! commits it as one transaction, and only then tells anybody.
//! Invariants: a group is acknowledged only after COMMIT returned Ok and the path still named the file it went into; a
//! group that fails is rolled back whole, all its waiters learn why, and the next group starts from what the file
//! really holds. What was committed into a file that was lost meanwhile fails too, and is there if the file comes back.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::watch;

use super::tables::{self, PerTopic, index};
use super::work::Work;
use crate::EngineError;
use crate::log::Topic;
use crate::log::queue::{Job, Queue, Taken};
use crate::log::waiters::{HANDOVER_MAX, Wakeups};
use crate::sqlite::{FileIdentity, checkpoint, seam_error};

/// A commit writes every page it touches whole: about what it adds, and the last page of the table and the
/// one above it.
const COMMIT_BYTES_MIN: usize = 2 * 8_192;

/// Is told after every commit how many rows it made durable and how long begin to synced took.
pub type CommitObserver = Arc<dyn Fn(usize, Duration) + Send + Sync>;

/// What the log's writer has done since it was opened.
#[derive(Debug, Default)]
pub struct LogStats {
    commits: AtomicU64,
    rows: AtomicU64,
    commit_nanos: AtomicU64,
    failures: AtomicU64,
}

impl LogStats {
    /// Groups committed.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Messages made durable.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Time spent in committed groups, begin to synced.
    pub fn commit_time(&self) -> Duration {
        Duration::from_nanos(self.commit_nanos.load(Ordering::Relaxed))
    }

    /// Groups that failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    fn committed(&self, rows: usize, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(u64::try_from(rows).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.commit_nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// What the writer and the log's handle share.
pub(super) struct Shared {
    pub(super) path: PathBuf,
    /// The log's random id.
    pub(super) id: [u8; 16],
    /// The files the writer has open.
    pub(super) files: Arc<FileIdentity>,
    pub(super) queue: Queue<Work>,
    pub(super) heads: PerTopic<watch::Sender<u64>>,
    pub(super) stats: LogStats,
    pub(super) observer: Option<CommitObserver>,
    /// About how long the write-ahead log may get before it is copied into the database.
    pub(super) wal_bytes: usize,
    /// True once the writer is gone and everything it took in is settled.
    pub(super) ended: watch::Sender<bool>,
}

/// The writer thread's own state.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// None after it broke, until it can be opened again.
    connection: Option<Connection>,
    heads: PerTopic<u64>,
    /// A group went into files that were lost: the heads are read anew before the next one.
    heads_are_stale: bool,
    wakeups: Wakeups,
    bytes_since_checkpoint: usize,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, connection: Connection, heads: PerTopic<u64>) -> Self {
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
        let _ended = Ended(&shared);
        let mut group = Vec::new();
        loop {
            let patience = self.wakeups.sweep().then_some(HANDOVER_MAX);
            match shared.queue.take(&mut group, patience) {
                Taken::Group => self.settle(&mut group),
                Taken::Nothing => {}
                Taken::End => break,
            }
        }
        if shared.files.check().is_ok() {
            self.checkpoint("TRUNCATE");
        }
        if let Some(connection) = self.connection.take() {
            shared.files.end(connection);
        }
    }

    /// Commits a group and tells its waiters.
    fn settle(&mut self, group: &mut Vec<Job<Work>>) {
        let rows = group.iter().map(|job| job.work.messages().1.len()).sum();
        let started = Instant::now();
        let result = self.commit(group);
        let took = started.elapsed();
        self.shared.queue.release(rows);
        match result {
            Ok(heads) => {
                self.shared.stats.committed(rows, took);
                self.tell_done(group, heads);
                if let Some(observer) = &self.shared.observer {
                    observer(rows, took);
                }
                self.checkpoint_if_due();
            }
            Err(error) => {
                // Whoever appended tells of it, once: a full disk fails group after group.
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
    fn commit(&mut self, group: &[Job<Work>]) -> Result<PerTopic<u64>, EngineError> {
        self.prepare()?;
        let connection = self.connection.as_ref().expect("it was opened above if it was not open");
        let mut heads = self.heads;
        let mut bytes = 0;
        let mut write = || -> rusqlite::Result<()> {
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let mut appenders = [const { None }; Topic::ALL.len()];
            for job in group {
                if let Work::Ack { group, topic, offset } = &job.work {
                    tables::ack(connection, group, *topic, *offset)?;
                }
                let (topic, messages) = job.work.messages();
                if appenders[index(topic)].is_none() {
                    appenders[index(topic)] = Some(tables::appender(connection, topic)?);
                }
                let appender = appenders[index(topic)].as_mut().expect("it was set just above");
                for message in messages {
                    heads[index(topic)] += 1;
                    bytes += message.key.len() + message.value.len();
                    tables::append(appender, heads[index(topic)], message)?;
                }
            }
            connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(())
        };
        write().map_err(seam_error)?;
        assert!(connection.is_autocommit(), "a committed group leaves no transaction open");
        self.bytes_since_checkpoint += bytes + COMMIT_BYTES_MIN;
        // After the commit: a file that is lost before it is lost for this group too.
        self.shared.files.check()?;
        Ok(heads)
    }

    /// Makes sure that a group goes into the log itself, after what it really holds. Errors: its files are lost.
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

    /// Makes a committed group visible to its waiters and to readers.
    fn tell_done(&mut self, group: &mut Vec<Job<Work>>, heads: PerTopic<u64>) {
        let mut next = self.heads;
        for job in group.drain(..) {
            let (topic, messages) = job.work.messages();
            let first = next[index(topic)] + 1;
            next[index(topic)] += u64::try_from(messages.len()).expect("a count fits 64 bits");
            self.wakeups.complete(job.promise, Ok(tables::position(first)));
        }
        assert_eq!(next, heads, "positions told are the positions written");
        self.wakeups.flush();
        for (sender, (old, new)) in self.shared.heads.iter().zip(self.heads.into_iter().zip(heads))
        {
            if old != new {
                sender.send_replace(new);
            }
        }
        self.heads = heads;
    }

    /// After a failed group: leaves its transaction and learns anew where the topics end. A connection
    /// that can't do that is given up, unless its files are lost: then it may be all that is left of them.
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
            // Where the database is where it was, a restart finds what it takes in from the lost file now.
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

    /// Goes on from where the file ends. Errors: `Corrupt` if that is before what was acknowledged.
    fn adopt(&mut self, heads: PerTopic<u64>) -> Result<(), EngineError> {
        // A commit that failed after its frames reached the disk may have happened after all.
        let behind = self.heads.iter().zip(&heads).any(|(told, stored)| stored < told);
        if behind {
            let text = format!("the log ends at {heads:?} and {:?} was acknowledged", self.heads);
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

    /// A checkpoint that fails (a full disk), or ends before what a reader holds, loses nothing: the write-ahead log at
    /// its path keeps what it has.
    fn checkpoint(&mut self, mode: &str) {
        self.bytes_since_checkpoint = 0;
        let Some(connection) = &self.connection else { return };
        if let Err(error) = checkpoint(connection, mode) {
            tracing::warn!(%error, "a checkpoint of the log failed; it is tried again later");
        }
    }
}

/// Leaves nobody waiting, however the writer ends.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.queue.close();
        let mut left = Vec::new();
        self.0.queue.take(&mut left, None);
        drop(left);
        self.0.ended.send_replace(true);
    }
}
