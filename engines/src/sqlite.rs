//! Owns what the SQLite engines share: opening connections, the lock file, reading beside the writer,
//! and what SQLite's errors mean at the seam.
//! Invariants: one process writes a database file (the lock is held as long as its engine lives); nothing
//! here blocks an async thread while a runtime is there to carry the work.

mod identity;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::Access;
use rustix::io::Errno;

pub(crate) use self::identity::FileIdentity;
use crate::{EngineError, lock};

/// How long SQLite waits for a lock another tool holds on the file.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Connections a pool keeps open; more are opened while more readers are at work, and closed after.
const POOL_IDLE_MAX: usize = 4;

/// What an error of SQLite means to the caller of a seam.
pub(crate) fn seam_error(error: rusqlite::Error) -> EngineError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::TooBig) => EngineError::Invalid(text),
        // SQLITE_ERROR (Unknown) is a statement the file's schema does not fit; no code at all is a
        // column of a type we never write.
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

/// Keeps a second process from writing the same database.
#[derive(Debug)]
pub(crate) struct LockFile {
    // The lock lasts as long as the file is open.
    _file: File,
}

impl LockFile {
    /// Takes `<database>.lock`. Errors: `Unavailable` while another process has it.
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
                "{} is in use by another payfold process: stop it, or give this one its own data directory",
                database.display()
            ))),
            Err(TryLockError::Error(error)) => Err(cannot(error)),
        }
    }
}

/// Links that are followed at most, as many as Linux follows.
const LINKS_MAX: usize = 40;

/// Where SQLite finds the file of a path: at the end of its links, whether a file is there or not. Files beside it
/// (`-wal`) are there too, and not beside a link.
pub fn follow_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// What a checkpoint has written into the database of what the write-ahead log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checkpointed {
    /// All of it, synced.
    All,
    /// A part: a reader holds an older state, or another connection is at the same work.
    Part,
}

/// Writes what the write-ahead log holds into the database. `mode` is SQLite's name.
pub(crate) fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<Checkpointed> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let mut statement = connection.prepare_cached(&sql)?;
    // Whether it was held up, the frames in the write-ahead log, those of them in the database; -1 where that is not known.
    let (held_up, frames, written): (bool, i64, i64) =
        statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let is_known = frames >= 0 || !held_up;
    Ok(if frames == written && is_known { Checkpointed::All } else { Checkpointed::Part })
}

fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Opens the connection that writes, making the file if there is none. `pragmas` come before anything else.
/// Errors: also `Unavailable` for a file that can't be written now: SQLite would open it for reading, and the
/// connection would stay so when the file can be written again.
pub(crate) fn open_writer(path: &Path, pragmas: &str) -> Result<Connection, EngineError> {
    open_to_write(path, pragmas, OpenFlags::SQLITE_OPEN_CREATE)
}

/// The same of a file that is there; it never makes one.
pub(crate) fn reopen_writer(path: &Path, pragmas: &str) -> Result<Connection, EngineError> {
    open_to_write(path, pragmas, OpenFlags::empty())
}

fn open_to_write(
    path: &Path,
    pragmas: &str,
    creating: OpenFlags,
) -> Result<Connection, EngineError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | creating;
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_WAIT)?;
        connection.execute_batch(pragmas)?;
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    };
    let connection = open().map_err(|error| at(path, seam_error(error)))?;
    if connection.is_readonly("main").map_err(|error| at(path, seam_error(error)))? {
        let text = "the file or its disk is read-only".to_owned();
        return Err(at(path, EngineError::Unavailable(text)));
    }
    Ok(connection)
}

/// Whether a file is there and this user may read it. Errors: `Unavailable`, where anything but its absence keeps this user
/// from it. The file is not opened: closing it again would drop the locks that SQLite holds on it in this process.
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

/// Opens a connection that can't write. Errors: `Invalid` if there is no such file, `Unavailable` if this user may not read it.
pub(crate) fn open_reader(path: &Path, cache_kib: u32) -> Result<Connection, EngineError> {
    if !file_exists(path)? {
        return Err(EngineError::Invalid(format!("there is no {}", path.display())));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_WAIT)?;
        connection.execute_batch(&format!("PRAGMA cache_size = -{cache_kib}"))?;
        Ok(connection)
    };
    open().map_err(|error| at(path, seam_error(error)))
}

/// Says in which file an error happened.
pub(crate) fn at(path: &Path, error: EngineError) -> EngineError {
    let place = |text: String| format!("{}: {text}", path.display());
    match error {
        EngineError::Unavailable(text) => EngineError::Unavailable(place(text)),
        EngineError::Invalid(text) => EngineError::Invalid(place(text)),
        EngineError::Corrupt(text) => EngineError::Corrupt(place(text)),
    }
}

/// Reads on connections of their own, beside whatever writes.
#[derive(Debug)]
pub(crate) struct ReadPool {
    path: PathBuf,
    cache_kib: u32,
    /// The files of the writer beside it; none where nobody of this process writes.
    files: Option<Arc<FileIdentity>>,
    idle: Mutex<Vec<Connection>>,
}

impl ReadPool {
    pub(crate) fn new(path: &Path, cache_kib: u32) -> Self {
        Self { path: path.to_owned(), cache_kib, files: None, idle: Mutex::default() }
    }

    /// Reads beside a writer: never from another file that stands at the path by now.
    pub(crate) fn beside(path: &Path, cache_kib: u32, files: Arc<FileIdentity>) -> Self {
        Self { files: Some(files), ..Self::new(path, cache_kib) }
    }

    /// Runs `work` on a connection nobody else uses meanwhile. A connection that failed is not kept.
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

/// An offset as SQLite keeps it.
pub(crate) fn to_sql(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// An offset as SQLite kept it. Errors: `Corrupt` if it is negative.
pub(crate) fn from_sql(offset: i64) -> Result<u64, EngineError> {
    u64::try_from(offset).map_err(|_| {
        EngineError::Corrupt(format!("offset {offset} is stored, and none is negative"))
    })
}
