//! Owns the check that a writer's open files are the ones that a restart would find: their paths
//! must still name them, by device and inode. It also owns what happens to the writer's connection
//! if they don't (the files are *lost*: deleted, moved or replaced). Invariants: lost files are
//! reported once, until something else is lost or they are back; a lost database is never created
//! again; a file that was put in the place of a lost write-ahead log is never deleted; a process
//! does not end by itself while acknowledged data is in a lost write-ahead log only. A database
//! that is overwritten in place is lost, too: it is shorter than it was, or SQLite can't read it.

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use super::checkpoint::{Checkpointed, checkpoint};
use super::paths::{beside, follow_links};
use crate::{EngineError, lock};

/// The open files of this process, on Linux.
const DESCRIPTORS: &str = "/proc/self/fd";

/// The pause between two attempts to save a lost write-ahead log while the process should end.
const SAVE_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The id of a container's first process, within the container.
const FIRST_PROCESS: u32 = 1;

/// The identity of a file, whatever its name. No other file gets its number while the file is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inode {
    device: u64,
    number: u64,
}

impl Inode {
    fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&path.metadata()?))
    }

    fn of(found: &Metadata) -> Self {
        Self { device: found.dev(), number: found.ino() }
    }
}

/// Which of a database's files is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LostFile {
    /// The symlink at the path in the settings; the database is at its path.
    Link,
    /// The database itself.
    Database,
    /// The write-ahead log alone; the database is at its path.
    Wal,
}

/// A lost file, and what is at its path instead.
struct Loss<'a> {
    file: LostFile,
    path: &'a Path,
    found: FileAtPath,
}

/// What is at the path of a file that is open.
#[derive(Debug)]
enum FileAtPath {
    Nothing,
    Another,
    /// The very file, shorter than this process has written it.
    Overwritten,
    /// The very file, which SQLite can't read.
    Damaged(String),
    Unreadable(io::Error),
}

impl fmt::Display for FileAtPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("was deleted or moved away while it was in use"),
            Self::Another => f.write_str("is another file than the one in use"),
            Self::Overwritten => f.write_str("was overwritten or cut off while it was in use"),
            Self::Damaged(error) => write!(f, "can't be read as a database: {error}"),
            Self::Unreadable(error) => write!(f, "can't be checked: {error}"),
        }
    }
}

/// The database file and the write-ahead log that one writer has open.
///
/// It checks with `stat` only, because a process that opens and closes a database file loses the
/// POSIX locks that SQLite holds on it.
#[derive(Debug)]
pub(crate) struct FileIdentity {
    /// The path in the settings, if it is a symlink.
    link: Option<PathBuf>,
    /// The file itself. SQLite keeps the write-ahead log beside it, and not beside a symlink.
    database: PathBuf,
    database_inode: Inode,
    wal: PathBuf,
    /// `None` while the writer has no connection: the last connection that closes deletes the file.
    wal_inode: Mutex<Option<Inode>>,
    /// What the last check found lost. Locked for a whole check, so that an older check can't undo
    /// a newer one.
    lost: Mutex<Option<EngineError>>,
    /// The length of the database when the write-ahead log was copied into it last. It never
    /// becomes shorter.
    bytes_min: AtomicU64,
    /// Why SQLite can't read the database.
    damage: Mutex<Option<String>>,
    /// Whether it was reported that a lost write-ahead log can't be copied into the database.
    unsaved: AtomicBool,
}

impl FileIdentity {
    /// Records the files at the path of a database that was just opened and read. Errors:
    /// `Unavailable` if they don't exist.
    pub(crate) fn of(path: &Path) -> Result<Self, EngineError> {
        let database = follow_links(path);
        let wal = beside(&database, "-wal");
        let inode = |path: &Path| {
            Inode::at(path).map_err(|error| unavailable(path, &FileAtPath::Unreadable(error)))
        };
        let length = database.metadata().map_or(0, |found| found.len());
        Ok(Self {
            database_inode: inode(&database)?,
            wal_inode: Mutex::new(Some(inode(&wal)?)),
            link: (database != path).then(|| path.to_owned()),
            database,
            wal,
            lost: Mutex::default(),
            bytes_min: AtomicU64::new(length),
            damage: Mutex::default(),
            unsaved: AtomicBool::new(false),
        })
    }

    /// Whether the last check found a file lost.
    pub(crate) fn is_lost(&self) -> bool {
        lock(&self.lost).is_some()
    }

    /// Checks that the paths name the open files. Logs when another file is lost, and when all are
    /// back. Errors: `Unavailable` with the lost file.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let mut lost = lock(&self.lost);
        let Some(loss) = self.find_loss() else {
            if lost.take().is_some() {
                tracing::info!(file = %self.database.display(), "the file is at its path again, \
                    and is used again");
            }
            return Ok(());
        };
        let Loss { path, found, .. } = &loss;
        let error = unavailable(path, found);
        // What a person should do depends on what is lost, which may change meanwhile.
        if lost.replace(error.clone()).as_ref() != Some(&error) {
            let fix = self.fix(&loss);
            tracing::error!(file = %path.display(), "the file {found}: nothing is stored or \
                acknowledged until that file is back at its path; {fix}");
        }
        Err(error)
    }

    /// Copies the write-ahead log into the database. Errors: SQLite's, recorded.
    pub(crate) fn checkpoint(
        &self,
        connection: &Connection,
        mode: &str,
    ) -> rusqlite::Result<Checkpointed> {
        let copied = checkpoint(connection, mode).inspect_err(|error| self.record_error(error))?;
        if let Ok(found) = self.database.metadata()
            && Inode::of(&found) == self.database_inode
        {
            self.bytes_min.fetch_max(found.len(), Ordering::Relaxed);
        }
        Ok(copied)
    }

    /// Records an error of the writer: a database that SQLite can't read counts as lost until the
    /// process ends.
    pub(crate) fn record_error(&self, error: &rusqlite::Error) {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        if let Some(DatabaseCorrupt | NotADatabase) = error.sqlite_error_code() {
            lock(&self.damage).get_or_insert_with(|| error.to_string());
        }
    }

    /// The first file that is lost now, the files with data before the symlink.
    fn find_loss(&self) -> Option<Loss<'_>> {
        let wal_inode = *lock(&self.wal_inode);
        let bytes_min = self.bytes_min.load(Ordering::Relaxed);
        let files = [
            (LostFile::Database, Some(&self.database), Some(self.database_inode), bytes_min),
            (LostFile::Wal, Some(&self.wal), wal_inode, 0),
            (LostFile::Link, self.link.as_ref(), Some(self.database_inode), 0),
        ];
        let moved = files.into_iter().find_map(|(file, path, inode, bytes_min)| {
            let (path, inode) = (path?, inode?);
            check_file(path, inode, bytes_min).err().map(|found| Loss { file, path, found })
        });
        let (file, path) = (LostFile::Database, self.database.as_path());
        let damaged = |error: String| Loss { file, path, found: FileAtPath::Damaged(error) };
        moved.or_else(|| lock(&self.damage).clone().map(damaged))
    }

    /// Records the write-ahead log that a new connection of the writer has opened. Errors:
    /// `Unavailable` if the database is another file.
    pub(crate) fn reopened(&self) -> Result<(), EngineError> {
        let inode = Inode::at(&self.wal);
        let inode =
            inode.map_err(|error| unavailable(&self.wal, &FileAtPath::Unreadable(error)))?;
        *lock(&self.wal_inode) = Some(inode);
        self.check()
    }

    /// Closes a connection of the writer. Returns a connection to lost files instead of closing it,
    /// for two reasons: it may be the only way to their data, and on close SQLite would delete the
    /// file at the write-ahead log's path, which may be a restored one.
    #[must_use]
    pub(crate) fn close(&self, connection: Connection) -> Option<Connection> {
        if self.check().is_err() {
            self.save(&connection);
            return Some(connection);
        }
        *lock(&self.wal_inode) = None;
        drop(connection);
        None
    }

    /// Ends the writer's connection at the end of the process. Blocks while a lost write-ahead log
    /// has data that the database lacks, because only this process has it. A connection to lost
    /// files is leaked, never closed.
    pub(crate) fn end(&self, mut connection: Connection) {
        // Reported again, because a person now waits for the process to end.
        self.unsaved.store(false, Ordering::Relaxed);
        while let Some(kept) = self.close(connection) {
            if self.save(&kept) {
                std::mem::forget(kept);
                return;
            }
            thread::sleep(SAVE_RETRY_PAUSE);
            connection = kept;
        }
    }

    /// Saves the data of lost files. It rolls an open transaction back, which would block other
    /// connections when the files are back, and copies a lost write-ahead log into the database,
    /// wherever that was moved. Returns true if nothing is left to copy, and also if nothing can be
    /// copied: if the database was replaced, the new one shares the write-ahead log's index, so the
    /// old one's data can't be saved from here.
    pub(crate) fn save(&self, connection: &Connection) -> bool {
        let is_ended = connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok();
        if self.has_wal_in_place() || self.is_database_replaced() {
            return true;
        }
        // PASSIVE doesn't change the write-ahead log, so a copy that a person makes meanwhile is
        // whole.
        let trouble = match self.checkpoint(connection, "PASSIVE") {
            Ok(Checkpointed::All) => None,
            Ok(Checkpointed::Part) if is_ended => Some("a reader holds an older state".to_owned()),
            Ok(Checkpointed::Part) => Some("a transaction can't be ended".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        let was_unsaved = self.unsaved.swap(trouble.is_some(), Ordering::Relaxed);
        let database = self.database.display();
        match &trouble {
            None if was_unsaved => {
                tracing::info!(file = %database, "the lost write-ahead log is completely copied \
                    into the database");
            }
            Some(trouble) if !was_unsaved => {
                let save = self.save_commands(std::process::id());
                tracing::error!(file = %database, "the lost write-ahead log is not completely \
                    copied into the database yet: {trouble}; payfold tries again and does not end \
                    before, so don't end it with SIGKILL. End the programs that read the file (a \
                    listing, a backup, sqlite3), and free space on its disk. If that can't be \
                    done, save the files first: {save}; {PROVE}");
            }
            _ => {}
        }
        trouble.is_none()
    }

    /// Whether a restart would find the write-ahead log in use, if there is one.
    fn has_wal_in_place(&self) -> bool {
        let inode = *lock(&self.wal_inode);
        inode.is_none_or(|inode| check_file(&self.wal, inode, 0).is_ok())
    }

    fn is_database_replaced(&self) -> bool {
        matches!(check_file(&self.database, self.database_inode, 0), Err(FileAtPath::Another))
    }

    /// What a person should do about a lost file. No advice here may lose data that only this
    /// process has.
    fn fix(&self, loss: &Loss<'_>) -> String {
        let (database, wal) = (self.database.display(), self.wal.display());
        match (loss.file, &loss.found) {
            (_, FileAtPath::Unreadable(_)) => {
                "make the folder readable, and keep this process running".to_owned()
            }
            (_, FileAtPath::Overwritten | FileAtPath::Damaged(_)) => format!(
                "what was in it may be gone. Save what is left: {}; then stop payfold, and restore \
                 the log from its backup (docs/how-to/storage-trouble.md, \"A database file is \
                 lost\")",
                self.save_commands(std::process::id())
            ),
            (LostFile::Link, _) => {
                format!("make it a symlink to {database} again; that file and {wal} are in place")
            }
            (LostFile::Wal, _) => format!(
                "don't stop this process before a copy is proven. If the file was moved, move it \
                 back. If not, save it first: {}; {PROVE}, with SIGTERM: payfold ends once all its \
                 data is in {database}. Then move the file at {wal} away, and start payfold",
                self.save_commands(std::process::id())
            ),
            (LostFile::Database, _) => format!(
                "don't stop this process before a copy is proven, because only this process has \
                 the file. If the file was moved, move it back. If not, save it first: {}; {PROVE}",
                self.save_commands(std::process::id())
            ),
        }
    }

    /// The commands that copy this process's open files from outside. Root runs them, because other
    /// users may not read the process's descriptors.
    fn save_commands(&self, pid: u32) -> String {
        let database = std::path::absolute(&self.database);
        let database = database.unwrap_or_else(|_| self.database.clone());
        let (process, root) = match pid {
            // The commands run on the host: the container's image may have neither a shell nor
            // `cp`.
            FIRST_PROCESS => ("PID".to_owned(), "/proc/PID/root"),
            _ => (pid.to_string(), ""),
        };
        let copy = |inode: Option<Inode>, suffix: &str| {
            let descriptor = inode.and_then(descriptor_of)?;
            let to = beside(&database, &format!(".saved{suffix}"));
            Some(format!("cp -p /proc/{process}/fd/{descriptor} {root}{}", to.display()))
        };
        let copies = (copy(Some(self.database_inode), ""), copy(*lock(&self.wal_inode), "-wal"));
        let copies = match copies {
            (Some(database), Some(wal)) => format!("{database} && {wal}"),
            _ => format!("copy the two open files of process {process} out of /proc/{process}/fd"),
        };
        match pid {
            FIRST_PROCESS => format!(
                "on the host of this container, as root, with PID from `docker inspect -f \
                 '{{{{.State.Pid}}}}' CONTAINER` or `crictl inspect` \
                 (docs/how-to/storage-trouble.md, \"Saving the files of a container\"): {copies}"
            ),
            _ => format!("as root: {copies}"),
        }
    }
}

/// The steps after copying. Until the copies are proven, only the process has the data.
const PROVE: &str = "then prove the copies (`payfold log verify`; of claims `payfold check \
    --connect`), and stop payfold only after that (docs/how-to/storage-trouble.md, \"A database \
    file is lost\")";

fn check_file(path: &Path, open: Inode, bytes_min: u64) -> Result<(), FileAtPath> {
    match path.metadata() {
        Ok(found) if Inode::of(&found) == open && found.len() >= bytes_min => Ok(()),
        Ok(found) if Inode::of(&found) == open => Err(FileAtPath::Overwritten),
        Ok(_) => Err(FileAtPath::Another),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FileAtPath::Nothing),
        Err(error) => Err(FileAtPath::Unreadable(error)),
    }
}

fn unavailable(path: &Path, found: &FileAtPath) -> EngineError {
    EngineError::Unavailable(format!("{} {found}", path.display()))
}

/// The number of this process's descriptor of a file.
fn descriptor_of(inode: Inode) -> Option<String> {
    let entries = std::fs::read_dir(DESCRIPTORS).ok()?;
    let has_it = |path: &PathBuf| Inode::at(path).is_ok_and(|found| found == inode);
    let found = entries.filter_map(|entry| Some(entry.ok()?.path())).find(has_it)?;
    Some(found.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::open_writer;

    #[test]
    fn a_lost_write_ahead_log_is_saved_into_a_moved_database() {
        let dir = tempfile::tempdir().expect("a folder");
        let (path, moved) = (dir.path().join("log.db"), dir.path().join("moved.db"));
        let connection = open_writer(&path, "").unwrap();
        connection.execute_batch("CREATE TABLE one (a); INSERT INTO one VALUES (7)").unwrap();
        let files = FileIdentity::of(&path).unwrap();
        std::fs::rename(&path, &moved).unwrap();
        std::fs::remove_file(beside(&path, "-wal")).unwrap();
        files.end(connection);
        let read = Connection::open(&moved).unwrap();
        let stored: i64 = read.query_row("SELECT a FROM one", [], |row| row.get(0)).unwrap();
        assert_eq!(stored, 7, "only the write-ahead log had it");
    }

    #[test]
    fn a_database_that_sqlite_can_not_read_is_lost() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("log.db");
        let connection = open_writer(&path, "").unwrap();
        connection.execute_batch("CREATE TABLE one (a)").unwrap();
        let files = FileIdentity::of(&path).unwrap();
        files.checkpoint(&connection, "PASSIVE").unwrap();
        assert_eq!(files.check(), Ok(()));
        let length = path.metadata().unwrap().len();
        std::fs::write(&path, vec![7; usize::try_from(length).unwrap()]).unwrap();
        let other = Connection::open(&path).unwrap();
        files.checkpoint(&other, "PASSIVE").unwrap_err();
        let error = files.check().unwrap_err().to_string();
        assert!(error.contains("can't be read as a database: "), "{error}");
        std::mem::forget(connection);
    }

    #[test]
    fn the_open_files_of_a_container_are_copied_from_its_host() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("log.db");
        let connection = open_writer(&path, "").unwrap();
        connection.execute_batch("CREATE TABLE one (column_1)").unwrap();
        let files = FileIdentity::of(&path).unwrap();
        let [database, wal] =
            [&path, &beside(&path, "-wal")].map(|path| descriptor_of(Inode::at(path).unwrap()));
        let (database, wal, path) = (database.unwrap(), wal.unwrap(), path.display());
        let copies = format!(
            "cp -p /proc/7/fd/{database} {path}.saved && cp -p /proc/7/fd/{wal} {path}.saved-wal"
        );
        assert_eq!(files.save_commands(7), format!("as root: {copies}"));
        let in_a_container = files.save_commands(1);
        let copies = format!(
            "cp -p /proc/PID/fd/{database} /proc/PID/root{path}.saved && \
             cp -p /proc/PID/fd/{wal} /proc/PID/root{path}.saved-wal"
        );
        assert!(in_a_container.ends_with(&copies), "{in_a_container}");
        assert!(in_a_container.contains("docker inspect -f '{{.State.Pid}}'"), "{in_a_container}");
        assert!(!in_a_container.contains("/proc/1/"), "{in_a_container}");
    }
}
