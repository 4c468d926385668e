//! Owns the proof that the files a writer has open are the ones a restart would find: that their paths still name them,
//! by device and inode.
//! Invariants: lost files are reported once until they are back; a lost database is never made anew; a file that
//! somebody put in the place of a lost write-ahead log is never deleted.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

use super::beside;
use crate::{EngineError, lock};

/// The open files of a process, on Linux.
const DESCRIPTORS: &str = "/proc/self/fd";

/// A file, whatever its name. No other file gets its number while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inode {
    device: u64,
    number: u64,
}

impl Inode {
    fn at(path: &Path) -> io::Result<Self> {
        let found = path.metadata()?;
        Ok(Self { device: found.dev(), number: found.ino() })
    }
}

/// Which of a database's files is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LostFile {
    /// The database itself.
    Database,
    /// The write-ahead log alone; the database is where it was.
    Wal,
}

/// What is at the path of a file that is open.
#[derive(Debug)]
enum Found {
    Nothing,
    Another,
    Unreadable(io::Error),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("was deleted or moved away while it was in use"),
            Self::Another => f.write_str("is another file than the one in use"),
            Self::Unreadable(error) => write!(f, "can't be looked at: {error}"),
        }
    }
}

/// The database file and the write-ahead log that one writer has open.
///
/// It looks with `stat` alone: a process that opens and closes a database file loses the locks SQLite holds on it.
#[derive(Debug)]
pub(crate) struct FileIdentity {
    database: PathBuf,
    database_inode: Inode,
    wal: PathBuf,
    /// None while the writer has no connection: the last one to close deletes the file.
    wal_inode: Mutex<Option<Inode>>,
    lost: AtomicBool,
}

impl FileIdentity {
    /// The files at the path of a database that has just been opened and read. Errors: `Unavailable` if they are not
    /// there.
    pub(crate) fn of(database: &Path) -> Result<Self, EngineError> {
        let wal = beside(database, "-wal");
        let inode = |path: &Path| {
            Inode::at(path).map_err(|error| unavailable(path, &Found::Unreadable(error)))
        };
        Ok(Self {
            database_inode: inode(database)?,
            wal_inode: Mutex::new(Some(inode(&wal)?)),
            database: database.to_owned(),
            wal,
            lost: AtomicBool::new(false),
        })
    }

    /// Whether the last check found a file lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Checks that both paths name the open files; reports when one is lost and when it is back. Errors: `Unavailable`.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let wal_inode = *lock(&self.wal_inode);
        let found = check_file(&self.database, self.database_inode)
            .map_err(|found| (LostFile::Database, found))
            .and_then(|()| match wal_inode {
                None => Ok(()),
                Some(inode) => check_file(&self.wal, inode).map_err(|found| (LostFile::Wal, found)),
            });
        let Err((file, found)) = found else {
            if self.is_lost() && self.lost.swap(false, Ordering::Relaxed) {
                tracing::info!(file = %self.database.display(), "the file is at its path again: it is used on");
            }
            return Ok(());
        };
        let path = self.path_of(file);
        if !self.lost.swap(true, Ordering::Relaxed) {
            let fix = self.fix(file, &found);
            tracing::error!(file = %path.display(), "the file {found}: nothing is stored or acknowledged until that file is back at its path; {fix}");
        }
        Err(unavailable(path, &found))
    }

    /// Which file is lost now.
    pub(crate) fn lost_file(&self) -> Option<LostFile> {
        if check_file(&self.database, self.database_inode).is_err() {
            return Some(LostFile::Database);
        }
        let inode = (*lock(&self.wal_inode))?;
        check_file(&self.wal, inode).is_err().then_some(LostFile::Wal)
    }

    /// Remembers the write-ahead log that a new connection of the writer has opened. Errors: `Unavailable` if the
    /// database is not the same file.
    pub(crate) fn reopened(&self) -> Result<(), EngineError> {
        let inode = Inode::at(&self.wal);
        let inode = inode.map_err(|error| unavailable(&self.wal, &Found::Unreadable(error)))?;
        *lock(&self.wal_inode) = Some(inode);
        self.check()
    }

    /// Ends a connection of the writer. One to lost files stays open until the process ends: it may be all that is left
    /// of them, and SQLite would delete what stands at the write-ahead log's path, which may be a restored file.
    pub(crate) fn close(&self, connection: Connection) {
        if self.check().is_err() {
            std::mem::forget(connection);
            return;
        }
        *lock(&self.wal_inode) = None;
        drop(connection);
    }

    fn path_of(&self, file: LostFile) -> &Path {
        match file {
            LostFile::Database => &self.database,
            LostFile::Wal => &self.wal,
        }
    }

    /// What a person does about it. No advice here may lose what this process alone has.
    fn fix(&self, file: LostFile, found: &Found) -> String {
        let (database, wal) = (self.database.display(), self.wal.display());
        match (file, found) {
            (_, Found::Unreadable(_)) => {
                "see that the folder can be read; keep this process running".to_owned()
            }
            (LostFile::Wal, _) => format!(
                "was it moved, move it back. If not, stop payfold with SIGTERM, never with SIGKILL: at its end it writes \
                 what it has into {database}. Move away what stands at {wal} then, and start"
            ),
            (LostFile::Database, _) => format!(
                "don't stop this process, which alone has it. Was it moved, move it back. If not, save it first: {}; then \
                 stop payfold, put the copies in the place of {database} and {wal}, and start (docs/operations.md, \"A \
                 database file is lost\")",
                self.save_commands()
            ),
        }
    }

    /// How the open files are copied from outside.
    fn save_commands(&self) -> String {
        let pid = std::process::id();
        let copy = |inode: Option<Inode>, suffix: &str| {
            let descriptor = inode.and_then(descriptor_of)?;
            let to = beside(&self.database, &format!(".saved{suffix}"));
            Some(format!("cp /proc/{pid}/fd/{descriptor} {}", to.display()))
        };
        let database = copy(Some(self.database_inode), "");
        let wal = copy(*lock(&self.wal_inode), "-wal");
        match (database, wal) {
            (Some(database), Some(wal)) => format!("{database} && {wal}"),
            _ => format!("copy the two open files of process {pid} out of /proc/{pid}/fd"),
        }
    }
}

fn check_file(path: &Path, open: Inode) -> Result<(), Found> {
    match Inode::at(path) {
        Ok(inode) if inode == open => Ok(()),
        Ok(_) => Err(Found::Another),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Found::Nothing),
        Err(error) => Err(Found::Unreadable(error)),
    }
}

fn unavailable(path: &Path, found: &Found) -> EngineError {
    EngineError::Unavailable(format!("{} {found}", path.display()))
}

/// The number of the descriptor that has a file open.
fn descriptor_of(inode: Inode) -> Option<String> {
    let entries = std::fs::read_dir(DESCRIPTORS).ok()?;
    let has_it = |path: &PathBuf| Inode::at(path).is_ok_and(|found| found == inode);
    let found = entries.filter_map(|entry| Some(entry.ok()?.path())).find(has_it)?;
    Some(found.file_name()?.to_str()?.to_owned())
}
