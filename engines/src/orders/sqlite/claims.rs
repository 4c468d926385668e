//! Owns the claims of the embedded store: who asked for a payment attempt first. A file of its own beside the
//! order rows, because rows can be rebuilt from the log and claims can't: back it up with the log.
//! Invariants: a key has one record for ever; `Mine` is answered once, and only after the claim is synced and the path
//! still named the file it went into: a claim in a lost file would be a second payment after a restart; the newest claims
//! are listed in the transaction that makes them (`paired` finds them by their records).

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

/// Claims made durable by one sync at most.
const GROUP_MAX: usize = 256;

/// How many of the newest claims are listed.
const LATEST_MAX: u32 = 1_024;

/// Page cache of a connection that looks a claim up.
const READER_CACHE_KIB: u32 = 512;

type Answer = oneshot::Sender<Result<Claimed, EngineError>>;

/// A claim that waits for its turn.
struct Waiting {
    key: ClaimKey,
    record: Vec<u8>,
    answer: Answer,
}

/// The claims beside an order store.
pub(super) struct Claims {
    /// None where claims are looked up alone, and after the end.
    writer: Mutex<Option<ClaimsWriter>>,
    path: PathBuf,
    readers: Arc<ReadPool>,
    /// The files the writer has open; none for look-ups alone.
    files: Option<Arc<FileIdentity>>,
}

/// The thread that writes claims, and the way to it.
struct ClaimsWriter {
    queue: mpsc::Sender<Waiting>,
    thread: thread::JoinHandle<()>,
}

impl ClaimsWriter {
    /// Waits until it has settled what it was sent and its files are closed.
    fn end(self) {
        drop(self.queue);
        // A writer that panicked has told its callers; there is nobody else to tell.
        let _ = self.thread.join();
    }
}

/// Where the claims of the store at `orders` are.
pub(super) fn path_beside(orders: &Path) -> PathBuf {
    orders.with_extension("claims.db")
}

impl Claims {
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
        let (queue, waiting) = mpsc::channel::<Waiting>();
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
                EngineError::Unavailable(format!("no thread for the claims: {error}"))
            })?;
        let writer = Mutex::new(Some(ClaimsWriter { queue, thread }));
        Ok(Self { writer, path, readers, files: Some(files) })
    }

    /// Makes a claim durable, or finds whose it is.
    pub(super) async fn claim(
        &self,
        key: ClaimKey,
        record: Vec<u8>,
    ) -> Result<Claimed, EngineError> {
        let (answer, answered) = oneshot::channel();
        let gone = || EngineError::Unavailable("the claims' writer has ended".to_owned());
        let queue = lock(&self.writer).as_ref().map(|writer| writer.queue.clone());
        let sent = queue.map(|queue| queue.send(Waiting { key, record, answer }));
        sent.ok_or_else(gone)?.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// Ends the writer: what it was sent is settled, and where a restart finds it, when this returns.
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

    /// Checks that the claims' files are where they were opened. Errors: `Unavailable`.
    pub(super) async fn check_storage(&self) -> Result<(), EngineError> {
        let files = self.files.clone();
        blocking(move || files.map_or(Ok(()), |files| files.check())).await
    }

    /// The record of a key.
    pub(super) async fn claimed(&self, key: ClaimKey) -> Result<Option<Vec<u8>>, EngineError> {
        let readers = Arc::clone(&self.readers);
        if self.files.is_none() && !file_exists(&self.path)? {
            // A store that nobody has run since there are claims.
            return Ok(None);
        }
        blocking(move || readers.with(|connection| record_of(connection, key.as_str()))).await
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        if let Some(writer) = lock(&self.writer).take() {
            writer.end();
        }
    }
}

/// FULL: a claim that was answered must survive a power cut, or two calls could be made under one key.
const PRAGMAS: &str = "PRAGMA synchronous = FULL;";

pub(super) fn open(path: &Path) -> Result<Connection, EngineError> {
    let connection = open_writer(path, PRAGMAS)?;
    let tables = "BEGIN IMMEDIATE;
        CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS latest (number INTEGER PRIMARY KEY, key TEXT NOT NULL);
        CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
        COMMIT";
    connection.execute_batch(tables).map_err(|error| at(path, seam_error(error)))?;
    Ok(connection)
}

struct ClaimsFile {
    path: PathBuf,
    /// None after it broke, until the next claim.
    connection: Option<Connection>,
    files: Arc<FileIdentity>,
}

impl ClaimsFile {
    fn settle(&mut self, group: Vec<Waiting>) {
        match self.write(&group) {
            Ok(claimed) => {
                for (waiting, claimed) in group.into_iter().zip(claimed) {
                    // Whoever has stopped waiting comes again under the same key.
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

    fn write(&mut self, group: &[Waiting]) -> Result<Vec<Claimed>, EngineError> {
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

    /// Opens the very file that was open. It makes nothing: in a new file every key would be new.
    fn reopen(&mut self) -> Result<(), EngineError> {
        self.files.check()?;
        let connection = reopen_writer(&self.path, PRAGMAS)?;
        record_of(&connection, "").map_err(|error| at(&self.path, error))?;
        self.files.reopened()?;
        self.connection = Some(connection);
        Ok(())
    }

    /// After a failed group: the connection is opened anew, unless its files are lost, for it may be all that is left of
    /// them.
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

fn claim_all(connection: &Connection, group: &[Waiting]) -> Result<Vec<Claimed>, EngineError> {
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
    Ok(claimed)
}

fn claim(connection: &Connection, waiting: &Waiting) -> Result<Claimed, EngineError> {
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
    record_of(connection, waiting.key.as_str())?
        .map(Claimed::Taken)
        .ok_or_else(|| EngineError::Corrupt("a claim is neither new nor there".to_owned()))
}

fn record_of(connection: &Connection, key: &str) -> Result<Option<Vec<u8>>, EngineError> {
    connection
        .prepare_cached("SELECT record FROM claims WHERE key = ?")
        .and_then(|mut select| select.query_row([key], |row| row.get(0)).optional())
        .map_err(seam_error)
}
