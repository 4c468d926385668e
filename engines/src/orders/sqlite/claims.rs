//! Owns the claims of the embedded store. They have a file of their own, because order rows can be
//! rebuilt from the log and claims can't; the file must be backed up with the log. Invariants: a
//! key has one record for ever; `Mine` is answered once per key, and only after the claim is synced
//! and the path still named the file it went into, because a claim in a lost file would allow a
//! second payment after a restart; the newest claims are listed in the transaction that makes them
//! (`paired` searches that list by record).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::oneshot;

use crate::blocking::blocking;
use crate::orders::{ClaimKey, Claimed};
use crate::sqlite::{
    FileIdentity, ReadPool, at, file_exists, open_writer, reopen_writer, seam_error,
};
use crate::{EngineError, lock};

/// The most claims that one sync makes durable.
const GROUP_MAX: usize = 256;

/// How many of the newest claims are listed.
const LATEST_MAX: u32 = 1_024;

/// Page cache of a connection that looks claims up, KiB.
const READER_CACHE_KIB: u32 = 512;

type Answer = oneshot::Sender<Result<Claimed, EngineError>>;

/// A claim in the writer's queue.
struct PendingClaim {
    key: ClaimKey,
    record: Vec<u8>,
    answer: Answer,
}

/// The claims beside an order store.
pub(super) struct SqliteClaims {
    /// `None` if the claims are open for look-ups only, and after `close`.
    writer: Mutex<Option<ClaimsWriter>>,
    path: PathBuf,
    readers: Arc<ReadPool>,
    /// The files that the writer has open; `None` for look-ups only.
    files: Option<Arc<FileIdentity>>,
}

/// The thread that writes claims, and its queue.
struct ClaimsWriter {
    queue: mpsc::Sender<PendingClaim>,
    thread: thread::JoinHandle<()>,
}

impl ClaimsWriter {
    /// Waits until every queued claim is answered and the files are closed.
    fn end(self) {
        drop(self.queue);
        // The callers of a writer that panicked get an error from their channels.
        let _ = self.thread.join();
    }
}

/// The path of the claims of the store at `orders`.
pub(super) fn path_beside(orders: &Path) -> PathBuf {
    orders.with_extension("claims.db")
}

impl SqliteClaims {
    /// Opens the claims beside the store at `orders` for look-ups.
    pub(super) fn open_read_only(orders: &Path) -> Self {
        let readers = Arc::new(ReadPool::new(&path_beside(orders), READER_CACHE_KIB));
        Self { writer: Mutex::default(), path: path_beside(orders), readers, files: None }
    }

    /// Opens the claims beside the store at `orders`. Errors: as opening the store.
    pub(super) fn open(orders: &Path) -> Result<Self, EngineError> {
        let path = path_beside(orders);
        let connection = open(&path)?;
        let files = Arc::new(FileIdentity::of(&path)?);
        let readers = Arc::new(ReadPool::beside(&path, READER_CACHE_KIB, Arc::clone(&files)));
        let mut file = ClaimsFile {
            connection: Some(connection),
            path: path.clone(),
            files: Arc::clone(&files),
        };
        let (queue, waiting) = mpsc::channel::<PendingClaim>();
        let run = move || {
            while let Ok(first) = waiting.recv() {
                let mut group = vec![first];
                group.extend(waiting.try_iter().take(GROUP_MAX - 1));
                file.settle(group);
            }
            file.end();
        };
        let thread =
            thread::Builder::new().name("claims".to_owned()).spawn(run).map_err(|error| {
                EngineError::Unavailable(format!("can't start the claims' writer: {error}"))
            })?;
        let writer = Mutex::new(Some(ClaimsWriter { queue, thread }));
        Ok(Self { writer, path, readers, files: Some(files) })
    }

    /// Makes a claim durable, or returns the record of the existing one.
    pub(super) async fn claim(
        &self,
        key: ClaimKey,
        record: Vec<u8>,
    ) -> Result<Claimed, EngineError> {
        let (answer, answered) = oneshot::channel();
        let gone = || EngineError::Unavailable("the claims' writer has ended".to_owned());
        let queue = lock(&self.writer).as_ref().map(|writer| writer.queue.clone());
        let sent = queue.map(|queue| queue.send(PendingClaim { key, record, answer }));
        sent.ok_or_else(gone)?.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// Ends the writer. When it returns, every queued claim is answered and a restart finds the
    /// claims.
    pub(super) async fn close(&self) -> Result<(), EngineError> {
        let writer = lock(&self.writer).take();
        blocking(move || {
            if let Some(writer) = writer {
                writer.end();
            }
            Ok(())
        })
        .await
    }

    /// Checks that the claims' paths still name the open files. Errors: `Unavailable`.
    pub(super) async fn check_storage(&self) -> Result<(), EngineError> {
        let files = self.files.clone();
        blocking(move || files.map_or(Ok(()), |files| files.check())).await
    }

    /// Reads the record of a key.
    pub(super) async fn claimed(&self, key: ClaimKey) -> Result<Option<Vec<u8>>, EngineError> {
        let readers = Arc::clone(&self.readers);
        if self.files.is_none() && !file_exists(&self.path)? {
            // No process has opened the store for writing since claims were introduced.
            return Ok(None);
        }
        blocking(move || readers.with(|connection| record_of(connection, key.as_str()))).await
    }
}

impl Drop for SqliteClaims {
    fn drop(&mut self) {
        if let Some(writer) = lock(&self.writer).take() {
            writer.end();
        }
    }
}

/// FULL, because an answered claim must survive a power cut; otherwise two create calls could be
/// made with one key.
const PRAGMAS: &str = "PRAGMA synchronous = FULL;";

pub(super) fn open(path: &Path) -> Result<Connection, EngineError> {
    let connection = open_writer(path, PRAGMAS)?;
    let tables = "BEGIN IMMEDIATE;
        CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT \
        ROWID;
        CREATE TABLE IF NOT EXISTS latest (number INTEGER PRIMARY KEY, key TEXT NOT NULL);
        CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
        COMMIT";
    connection.execute_batch(tables).map_err(|error| at(path, seam_error(error)))?;
    Ok(connection)
}

struct ClaimsFile {
    path: PathBuf,
    /// `None` after the connection failed, until the next claim.
    connection: Option<Connection>,
    files: Arc<FileIdentity>,
}

impl ClaimsFile {
    fn settle(&mut self, group: Vec<PendingClaim>) {
        match self.write(&group) {
            Ok(claimed) => {
                assert_eq!(claimed.len(), group.len(), "every claim is answered");
                for (waiting, claimed) in group.into_iter().zip(claimed) {
                    // A caller that has stopped waiting retries with the same key.
                    let _ = waiting.answer.send(Ok(claimed));
                }
            }
            Err(error) => {
                self.recover();
                for waiting in group {
                    let _ = waiting.answer.send(Err(error.clone()));
                }
            }
        }
    }

    fn write(&mut self, group: &[PendingClaim]) -> Result<Vec<Claimed>, EngineError> {
        if self.connection.is_none() {
            self.reopen()?;
        } else if self.files.is_lost() {
            self.files.check()?;
        }
        let connection = self.connection.as_ref().expect("it was opened above if it was not open");
        let claimed = claim_all(connection, group).map_err(|error| at(&self.path, error))?;
        self.files.check()?;
        Ok(claimed)
    }

    /// Opens the same file again. Creates nothing, because in a new file every key would be
    /// unclaimed.
    fn reopen(&mut self) -> Result<(), EngineError> {
        self.files.check()?;
        let connection = reopen_writer(&self.path, PRAGMAS)?;
        record_of(&connection, "").map_err(|error| at(&self.path, error))?;
        self.files.reopened()?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Closes the connection after a failed group, so that it is opened again. Keeps it if its
    /// files are lost, because it may be the only way to their data.
    fn recover(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.connection = self.files.close(connection);
        }
    }

    fn end(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.files.end(connection);
        }
    }
}

fn claim_all(connection: &Connection, group: &[PendingClaim]) -> Result<Vec<Claimed>, EngineError> {
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK").map_err(seam_error)?;
    }
    connection.execute_batch("BEGIN IMMEDIATE").map_err(seam_error)?;
    let claimed =
        group.iter().map(|waiting| claim(connection, waiting)).collect::<Result<_, _>>()?;
    connection
        .prepare_cached("DELETE FROM latest WHERE number <= (SELECT max(number) FROM latest) - ?")
        .and_then(|mut delete| delete.execute([LATEST_MAX]))
        .map_err(seam_error)?;
    connection.execute_batch("COMMIT").map_err(seam_error)?;
    assert!(connection.is_autocommit(), "a claim is answered after its commit");
    Ok(claimed)
}

fn claim(connection: &Connection, waiting: &PendingClaim) -> Result<Claimed, EngineError> {
    let made = connection
        .prepare_cached("INSERT OR IGNORE INTO claims VALUES (?, ?)")
        .and_then(|mut insert| insert.execute(params![waiting.key.as_str(), waiting.record]))
        .map_err(seam_error)?;
    if made == 1 {
        connection
            .prepare_cached("INSERT INTO latest (key) VALUES (?)")
            .and_then(|mut insert| insert.execute([waiting.key.as_str()]))
            .map_err(seam_error)?;
        return Ok(Claimed::Mine);
    }
    record_of(connection, waiting.key.as_str())?.map(Claimed::Taken).ok_or_else(|| {
        EngineError::Corrupt("a claim was not inserted, and there is no earlier one".to_owned())
    })
}

fn record_of(connection: &Connection, key: &str) -> Result<Option<Vec<u8>>, EngineError> {
    connection
        .prepare_cached("SELECT record FROM claims WHERE key = ?")
        .and_then(|mut select| select.query_row([key], |row| row.get(0)).optional())
        .map_err(seam_error)
}
