//! Owns copying an embedded engine's database while it is written to. Invariants: the copy is one
//! file with one consistent state, and durable when `file` returns; the source is never written to,
//! and its writer never waits.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::EngineError;
use crate::sqlite::{at, follow_links, open_reader, seam_error};

const CACHE_KIB: u32 = 1 << 14;

/// Copies the database at `from` to `to`, which must not exist and may be a symlink. Blocks. A
/// failed copy is deleted.
/// Errors: `Invalid` if `from` doesn't exist or `to` does; `Unavailable` if the disk is full or
/// can't be written; `Corrupt` if a page of the source is damaged.
pub fn file(from: &Path, to: &Path) -> Result<(), EngineError> {
    let to = &follow_links(to);
    // Made here, so that only a file of this call is deleted; SQLite copies into an empty file.
    let made = File::options().write(true).create_new(true).mode(0o600).open(to);
    made.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            EngineError::Invalid(format!("{} exists already: name another file", to.display()))
        }
        _ => EngineError::Unavailable(format!("can't write {}: {error}", to.display())),
    })?;
    let copied = copy(from, to);
    if copied.is_err() {
        // An error here matters less than the one that is returned.
        let _ = std::fs::remove_file(to);
    }
    copied
}

fn copy(from: &Path, to: &Path) -> Result<(), EngineError> {
    let name = to.to_str().ok_or_else(|| {
        EngineError::Invalid(format!(
            "{} is not UTF-8, which SQLite needs: name another folder",
            to.display()
        ))
    })?;
    let connection = open_reader(from, CACHE_KIB)?;
    connection.execute("VACUUM INTO ?", [name]).map_err(|error| match seam_error(error) {
        damage @ EngineError::Corrupt(_) => at(from, damage),
        EngineError::Unavailable(why) => {
            EngineError::Unavailable(format!("can't copy {} to {name}: {why}", from.display()))
        }
        error => at(to, error),
    })?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    let synced = File::open(to)
        .and_then(|file| file.sync_all())
        .and_then(|()| File::open(parent.unwrap_or(Path::new(".")))?.sync_all());
    synced.map_err(|error| EngineError::Unavailable(format!("can't sync {name}: {error}")))
}

/// Checks every page of the database at `path`. Blocks. Errors: `Corrupt` with what is wrong.
pub fn check(path: &Path) -> Result<(), EngineError> {
    let connection = open_reader(path, CACHE_KIB)?;
    let found: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| at(path, seam_error(error)))?;
    if found == "ok" { Ok(()) } else { Err(at(path, EngineError::Corrupt(found))) }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use rusqlite::Connection;

    use super::*;
    use crate::sqlite::open_writer;

    fn rows(path: &Path) -> i64 {
        let connection = Connection::open(path).unwrap();
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    fn filled(path: &Path) -> Connection {
        let connection = open_writer(path, "").unwrap();
        connection
            .execute_batch(
                "CREATE TABLE t (v); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT \
                i + 1 FROM n WHERE i < 5000) INSERT INTO t SELECT randomblob(100) FROM n",
            )
            .unwrap();
        connection
    }

    #[test]
    fn a_copy_is_consistent_and_does_not_block_the_writer() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a.db"), dir.path().join("b.db"));
        let writer = filled(&from);
        writer.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
        file(&from, &to).unwrap();
        writer.execute_batch("COMMIT").unwrap();
        assert_eq!((rows(&to), rows(&from)), (5_000, 5_001));
        check(&to).unwrap();
        let again = file(&from, &to).unwrap_err();
        assert!(
            matches!(&again, EngineError::Invalid(text) if text.contains("exists already")),
            "{again}"
        );
        assert_eq!(rows(&to), 5_000, "the existing file is left as it is");
    }

    #[test]
    fn a_copy_follows_a_link_to_a_file_that_is_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        drop(filled(&path("a.db")));
        std::os::unix::fs::symlink(path("far.db"), path("b.db")).unwrap();
        file(&path("a.db"), &path("b.db")).unwrap();
        assert_eq!(rows(&path("far.db")), 5_000);
        assert!(path("b.db").is_symlink());
    }

    #[test]
    fn a_copy_of_nothing_or_to_nowhere_is_refused_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a.db"), dir.path().join("b.db"));
        assert!(matches!(file(&from, &to), Err(EngineError::Invalid(_))));
        filled(&from);
        let nowhere = dir.path().join("no/b.db");
        assert!(file(&from, &nowhere).is_err());
        assert!(!to.exists() && !nowhere.exists());
    }

    #[test]
    fn a_broken_page_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a.db"), dir.path().join("b.db"));
        filled(&from);
        file(&from, &to).unwrap();
        let mut raw = File::options().write(true).open(&to).unwrap();
        raw.seek(SeekFrom::Start(4_096 * 3)).unwrap();
        raw.write_all(&[0xff; 64]).unwrap();
        assert!(matches!(check(&to), Err(EngineError::Corrupt(_))));
    }
}
