//! Owns what the SQLite engines share: opening connections, the lock file, the pool of reading
//! connections, and the mapping of SQLite's errors to `EngineError`. Invariant: one process writes
//! a database file, because the lock is held as long as the engine exists. Everything here blocks;
//! the engines call it on blocking threads.

mod checkpoint;
mod identity;
mod paths;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::Access;
use rustix::io::Errno;

pub(crate) use self::identity::FileIdentity;
pub(crate) use self::paths::beside;
pub use self::paths::follow_links;
use crate::{EngineError, lock};

/// How long SQLite waits for a lock that another tool holds on the file.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// How many idle connections a pool keeps. More are opened while more reads run, and closed after.
const POOL_IDLE_MAX: usize = 4;

/// Converts an error of SQLite to the engine's error.
pub(crate) fn seam_error(error: rusqlite::Error) -> EngineError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::TooBig) => EngineError::Invalid(text),
        // SQLITE_ERROR (Unknown): the file's schema doesn't fit the statement. No code: a column
        // has a type that payfold never writes.
        Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::Unknown,
        )
        | None => EngineError::Corrupt(text),
        Some(_) => EngineError::Unavailable(text),
    }
}

/// A lock file, which keeps a second process from writing the same database.
#[derive(Debug)]
pub(crate) struct LockFile {
    // The lock lasts as long as the file is open.
    _file: File,
}

impl LockFile {
    /// Locks `<database>.lock`. Errors: `Unavailable` while another process holds the lock.
    pub(crate) fn take(database: &Path) -> Result<Self, EngineError> {
        let path = beside(database, ".lock");
        let cannot = |error: std::io::Error| {
            EngineError::Unavailable(format!("can't lock {}: {error}", path.display()))
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(cannot)?;
        }
        let options = File::options().create(true).truncate(false).write(true).open(&path);
        let file = options.map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(EngineError::Unavailable(format!(
                "{} is in use by another payfold process, which serves this data folder already; a \
                 second system needs a data folder of its own (--data DIR). Don't delete the \
                 .lock file",
                database.display()
            ))),
            Err(TryLockError::Error(error)) => Err(cannot(error)),
        }
    }
}

/// Opens a writing connection, and creates the file if it doesn't exist. `pragmas` run before
/// anything else. Errors: `Unavailable` also for a file that can't be written now, because SQLite
/// would open it read-only, and the connection would stay read-only when the file becomes writable.
pub(crate) fn open_writer(path: &Path, pragmas: &str) -> Result<Connection, EngineError> {
    open_to_write(path, pragmas, OpenFlags::SQLITE_OPEN_CREATE)
}

/// As `open_writer`, but for an existing file; it never creates one.
pub(crate) fn reopen_writer(path: &Path, pragmas: &str) -> Result<Connection, EngineError> {
    open_to_write(path, pragmas, OpenFlags::empty())
}

fn open_to_write(
    path: &Path,
    pragmas: &str,
    creating: OpenFlags,
) -> Result<Connection, EngineError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | creating;
    let connection = open_unread(path, flags)?;
    let prepare = || -> rusqlite::Result<()> {
        connection.execute_batch(pragmas)?;
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(())
    };
    prepare().map_err(|error| at(path, seam_error(error)))?;
    if connection.is_readonly("main").map_err(|error| at(path, seam_error(error)))? {
        let text = "the file or its disk is read-only: make it writable".to_owned();
        return Err(at(path, EngineError::Unavailable(text)));
    }
    Ok(connection)
}

/// Opens a connection that has run no statement yet. The first one opens the write-ahead log.
fn open_unread(path: &Path, flags: OpenFlags) -> Result<Connection, EngineError> {
    // Also after opening, because another file may be there by then.
    keep_wal(path)?;
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_WAIT)?;
        Ok(connection)
    };
    let connection = open().map_err(|error| at(path, seam_error(error)))?;
    keep_wal(path)?;
    Ok(connection)
}

/// Keeps a write-ahead log that has no database or an empty one: the right one was moved, and
/// SQLite would delete the log as left over, even for a reader. Errors: `Unavailable` then.
fn keep_wal(path: &Path) -> Result<(), EngineError> {
    let database = follow_links(path);
    let wal = beside(&database, "-wal");
    let bytes = database.metadata().map_or(0, |found| found.len());
    if bytes > 0 || !wal.exists() {
        return Ok(());
    }
    let wal = wal.display();
    let text = format!(
        "the file is empty or missing, and {wal} belongs to another file that was here: move that \
         file back, or move {wal} away too and restore the file from a backup"
    );
    Err(at(path, EngineError::Unavailable(text)))
}

/// Whether a file exists and this user may read it. Errors: `Unavailable` if anything else than its
/// absence prevents reading. The file is not opened, because closing it would drop the POSIX locks
/// that SQLite holds on it in this process.
pub fn file_exists(path: &Path) -> Result<bool, EngineError> {
    match rustix::fs::access(path, Access::READ_OK) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(Errno::ACCESS) => Err(cannot_read(path, "permission denied")),
        Err(error) => Err(cannot_read(path, &error.to_string())),
    }
}

fn cannot_read(path: &Path, why: &str) -> EngineError {
    EngineError::Unavailable(format!("can't read {}: {why}", path.display()))
}

/// Opens a read-only connection. Errors: `Invalid` if the file doesn't exist, `Unavailable` if this
/// user may not read it.
pub(crate) fn open_reader(path: &Path, cache_kib: u32) -> Result<Connection, EngineError> {
    if !file_exists(path)? {
        return Err(EngineError::Invalid(format!("there is no file {}", path.display())));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = open_unread(path, flags)?;
    let prepared = connection.execute_batch(&format!("PRAGMA cache_size = -{cache_kib}"));
    prepared.map_err(|error| at(path, seam_error(error)))?;
    Ok(connection)
}

/// Adds the file's path to an error.
pub(crate) fn at(path: &Path, error: EngineError) -> EngineError {
    let place = |text: String| format!("{}: {text}", path.display());
    match error {
        EngineError::Unavailable(text) => EngineError::Unavailable(place(text)),
        EngineError::Invalid(text) => EngineError::Invalid(place(text)),
        EngineError::Corrupt(text) => EngineError::Corrupt(place(text)),
    }
}

/// The error of a file that lacks what each file of its kind has. A file that can't be read now is
/// no such file.
pub(crate) fn not_a(kind: &str, error: rusqlite::Error) -> EngineError {
    match seam_error(error) {
        EngineError::Corrupt(why) => {
            EngineError::Corrupt(format!("this file is not a payfold {kind}: {why}"))
        }
        other => other,
    }
}

/// A pool of read-only connections, which read while another connection writes.
#[derive(Debug)]
pub(crate) struct ReadPool {
    path: PathBuf,
    cache_kib: u32,
    /// The files that this process's writer has open; `None` where this process doesn't write.
    files: Option<Arc<FileIdentity>>,
    idle: Mutex<Vec<Connection>>,
}

impl ReadPool {
    pub(crate) fn new(path: &Path, cache_kib: u32) -> Self {
        Self { path: path.to_owned(), cache_kib, files: None, idle: Mutex::default() }
    }

    /// A pool beside a writer of this process. It never reads another file that is at the path by
    /// now.
    pub(crate) fn beside(path: &Path, cache_kib: u32, files: Arc<FileIdentity>) -> Self {
        Self { files: Some(files), ..Self::new(path, cache_kib) }
    }

    /// Runs `work` on a connection of the pool. After an error the connection is closed.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let idle = lock(&self.idle).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let connection = open_reader(&self.path, self.cache_kib)?;
                if let Some(files) = &self.files {
                    files.check()?;
                }
                connection
            }
        };
        let result = work(&connection).map_err(|error| at(&self.path, error))?;
        let mut idle = lock(&self.idle);
        if idle.len() < POOL_IDLE_MAX {
            idle.push(connection);
        }
        Ok(result)
    }
}

/// Converts an offset to SQLite's signed integer.
pub(crate) fn to_sql(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// Converts a stored integer to an offset. Errors: `Corrupt` if it is negative.
pub(crate) fn from_sql(offset: i64) -> Result<u64, EngineError> {
    u64::try_from(offset)
        .map_err(|_| EngineError::Corrupt(format!("the stored offset {offset} is negative")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_write_ahead_log_beside_an_empty_file_is_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let (path, moved) = (dir.path().join("log.db"), dir.path().join("moved.db"));
        let writer = open_writer(&path, "PRAGMA wal_autocheckpoint = 0").unwrap();
        writer.execute_batch("CREATE TABLE one (a); INSERT INTO one VALUES (7)").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        std::fs::write(&path, b"").unwrap();
        let refused = [open_reader(&path, 64), open_writer(&path, ""), reopen_writer(&path, "")];
        for result in refused {
            let Err(EngineError::Unavailable(why)) = result else { panic!("it was opened") };
            assert!(why.contains("log.db-wal belongs to another file"), "{why}");
        }
        std::fs::rename(&moved, &path).unwrap();
        let read = open_reader(&path, 64).unwrap();
        let stored: i64 = read.query_row("SELECT a FROM one", [], |row| row.get(0)).unwrap();
        assert_eq!(stored, 7, "only the write-ahead log has it");
    }
}
