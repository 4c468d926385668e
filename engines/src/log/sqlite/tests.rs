//! Tests of the SQLite log across restarts and lost files.

use payfold_schemas::record_mac::RecordMac;

use super::*;
use crate::log::Authenticity;

fn message(n: usize) -> Message {
    Message {
        key: format!("k{}", n % 7),
        event: None,
        value: format!("v{n}").into_bytes(),
        mac: None,
    }
}

#[tokio::test]
async fn what_is_appended_is_read_back_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.db");
    let log = SqliteLog::open(&path, SqliteLogSettings::default()).unwrap();
    assert_eq!(log.append(Topic::Intake, message(1)).await, Ok(position(1)));
    let all = log.append_all(Topic::Intake, (2..=5).map(message).collect()).await.unwrap();
    assert_eq!(all, (2..=5).map(position).collect::<Vec<_>>());
    let id = log.id();
    drop(log);

    let log = SqliteLog::open(&path, SqliteLogSettings::default()).unwrap();
    assert_eq!(log.id(), id);
    let mut reader = log.subscribe(Topic::Intake, "g", Start::Group).await.unwrap();
    let batch = reader.next_batch(10).await.unwrap();
    assert_eq!(batch.len(), 5);
    assert_eq!(batch[4].value, b"v5");
    log.close().await.unwrap();
    assert!(matches!(
        log.append(Topic::Intake, message(6)).await,
        Err(EngineError::Unavailable(_))
    ));
}

fn open(path: &Path) -> SqliteLog {
    SqliteLog::open(path, SqliteLogSettings::default()).unwrap()
}

/// The log's database or its write-ahead log.
fn file(database: &Path, suffix: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Appends, which must fail with an `Unavailable` that names the file; returns its text.
async fn refused(log: &SqliteLog, n: usize, path: &Path) -> String {
    let error = log.append(Topic::Intake, message(n)).await.unwrap_err();
    let EngineError::Unavailable(text) = error else { panic!("{error}") };
    assert!(text.contains(&path.display().to_string()), "{text}");
    text
}

async fn stored(log: &SqliteLog) -> Vec<Vec<u8>> {
    let read = log.read_after(Topic::Intake, position(0), 100).await.unwrap();
    read.into_iter().map(|message| message.value).collect()
}

#[tokio::test]
async fn a_deleted_file_acknowledges_nothing_and_is_not_recreated() {
    for suffix in ["", "-wal"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.db");
        let log = open(&path);
        assert_eq!(log.append(Topic::Intake, message(1)).await, Ok(position(1)));
        assert_eq!(log.check_storage().await, Ok(()));
        let lost = file(&path, suffix);
        std::fs::remove_file(&lost).unwrap();
        for n in 2..5 {
            assert!(refused(&log, n, &lost).await.contains("was deleted or moved away"));
            assert!(!lost.exists(), "{}", lost.display());
        }
        assert!(matches!(log.check_storage().await, Err(EngineError::Unavailable(_))));
    }
}

/// Somebody restores a backup into the open file: its inode stays, its records are gone.
#[tokio::test]
async fn an_overwritten_file_acknowledges_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.db");
    drop(open(&path));
    let backup = std::fs::read(&path).unwrap();
    let log = open(&path);
    for n in 0..80 {
        let value = vec![7; 100_000];
        log.append(Topic::Intake, Message { value, ..message(n) }).await.unwrap();
    }
    drop(log);
    let log = open(&path);
    std::fs::write(&path, &backup).unwrap();
    // SQLite may find it before its length is checked.
    log.append(Topic::Intake, message(1)).await.unwrap_err();
    assert!(refused(&log, 2, &path).await.contains("was overwritten or cut off"));
    assert!(log.check_storage().await.is_err());
    drop(log);
    let left = std::fs::read(&path).unwrap();
    assert!(left == backup, "nothing was written into it");
}

#[tokio::test]
async fn a_lost_file_is_reused_when_it_comes_back() {
    for suffix in ["", "-wal"] {
        let dir = tempfile::tempdir().unwrap();
        let (path, away) = (dir.path().join("log.db"), dir.path().join("away"));
        let log = open(&path);
        assert_eq!(log.append(Topic::Intake, message(1)).await, Ok(position(1)));
        let lost = file(&path, suffix);
        std::fs::rename(&lost, &away).unwrap();
        refused(&log, 2, &lost).await;
        refused(&log, 3, &lost).await;
        std::fs::rename(&away, &lost).unwrap();
        assert_eq!(log.check_storage().await, Ok(()));
        let next = log.append(Topic::Intake, message(4)).await.unwrap();
        let values = stored(&log).await;
        // A refused message may be stored or not; an acknowledged one is stored.
        assert_eq!(values.last().unwrap(), b"v4");
        assert_eq!(usize::try_from(next.offset).unwrap(), values.len());
        let mut reader = log.subscribe(Topic::Intake, "g", Start::Group).await.unwrap();
        assert_eq!(reader.next_batch(10).await.unwrap().len(), values.len());
        drop((reader, log));
        assert_eq!(stored(&open(&path)).await, values);
    }
}

#[tokio::test]
async fn another_file_at_the_path_is_not_written_to_and_keeps_its_write_ahead_log() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("log.db"), dir.path().join("other.db"));
    let log = open(&path);
    assert_eq!(log.append(Topic::Intake, message(1)).await, Ok(position(1)));
    // A log that ended without a checkpoint: its messages are in its write-ahead log only.
    let there = open(&other);
    there.append(Topic::Intake, message(7)).await.unwrap();
    let copy = |suffix: &str| dir.path().join(format!("copy{suffix}"));
    for suffix in ["", "-wal"] {
        std::fs::copy(file(&other, suffix), copy(suffix)).unwrap();
    }
    let id = there.id();
    drop(there);
    for suffix in ["", "-wal"] {
        std::fs::rename(copy(suffix), file(&path, suffix)).unwrap();
    }
    assert!(refused(&log, 2, &path).await.contains("is another file"));
    // Its writer has ended: another database at the path cuts the index that both would share.
    log.close().await.unwrap();
    // A connection opened now would read the other log.
    let read = log.read_after(Topic::Intake, position(0), 10).await;
    assert!(matches!(read, Err(EngineError::Unavailable(_))), "{read:?}");
    drop(log);
    let log = open(&path);
    assert_eq!((log.id(), stored(&log).await), (id, vec![b"v7".to_vec()]));
}

#[tokio::test]
async fn a_failed_connection_is_not_opened_on_another_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.db");
    let log = open(&path);
    assert_eq!(log.append(Topic::Intake, message(1)).await, Ok(position(1)));
    let id = log.id();
    drop(log);
    // The same inode with another log's content: only the id distinguishes them.
    let other = dir.path().join("other.db");
    drop(open(&other));
    std::fs::copy(&other, &path).unwrap();
    let error = tables::reopen(&path, id).unwrap_err();
    assert!(
        matches!(&error, EngineError::Corrupt(text) if text.contains("another log")),
        "{error}"
    );
    std::fs::remove_file(&path).unwrap();
    let error = tables::reopen(&path, id).unwrap_err();
    assert!(matches!(error, EngineError::Unavailable(_)), "{error}");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_log_behind_a_symlink_is_checked_at_its_target() {
    for lost in ["log.db", "real/log.db", "real/log.db-wal"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.db");
        std::fs::create_dir(dir.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real/log.db", &path).unwrap();
        let log = open(&path);
        assert_eq!(log.append(Topic::Intake, message(1)).await, Ok(position(1)));
        assert_eq!(log.check_storage().await, Ok(()));
        let (lost, away) = (dir.path().join(lost), dir.path().join("away"));
        std::fs::rename(&lost, &away).unwrap();
        refused(&log, 2, &lost).await;
        std::fs::rename(&away, &lost).unwrap();
        assert_eq!(log.check_storage().await, Ok(()));
        log.append(Topic::Intake, message(3)).await.unwrap();
        // A link to another file: a restart would open that.
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("real/log.db-shm", &path).unwrap();
        assert!(refused(&log, 4, &path).await.contains("is another file"));
    }
}

/// Takes the column and the version of MACs away, as files of 0.1.0 are.
fn make_old(path: &Path) {
    let file = rusqlite::Connection::open(path).unwrap();
    for topic in Topic::ALL {
        file.execute_batch(&format!("ALTER TABLE {} DROP COLUMN mac", topic.name())).unwrap();
    }
    file.execute_batch("UPDATE meta SET value = 1 WHERE name = 'schema_version'").unwrap();
}

#[tokio::test]
async fn a_file_of_before_there_were_macs_is_read_and_upgraded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.db");
    let log = open(&path);
    let id = log.id();
    log.append(Topic::Intake, message(1)).await.unwrap();
    drop(log);
    make_old(&path);
    let before = SqliteLog::open_read_only(&path).unwrap();
    assert_eq!(stored(&before).await, [b"v1"]);
    let log = open(&path);
    let mac = RecordMac::from_bytes(&[7; RecordMac::BYTES]);
    log.append(Topic::Intake, Message { mac, ..message(2) }).await.unwrap();
    assert_eq!((log.id(), stored(&log).await.len()), (id, 2));
    let read = log.read_after(Topic::Intake, position(0), 9).await.unwrap();
    let macs = read.iter().map(|message| message.authenticity);
    let expected = [Authenticity::Unchecked(None), Authenticity::Unchecked(mac)];
    assert_eq!(macs.collect::<Vec<_>>(), expected);
    drop(log);
    let later = rusqlite::Connection::open(&path).unwrap();
    later.execute_batch("UPDATE meta SET value = 3 WHERE name = 'schema_version'").unwrap();
    let error = SqliteLog::open(&path, SqliteLogSettings::default()).map(drop).unwrap_err();
    assert!(error.to_string().contains("reads up to 2"), "{error}");
}
