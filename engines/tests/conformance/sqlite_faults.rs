//! Tests of faults of SQLite's files: locks, lost rows, failing and full disks.

use std::path::{Path, PathBuf};

use payfold_engines::EngineError;
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::log::{EventLog, Message, Start, Topic};
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_engines::orders::{Commit, OrderStore};
use payfold_testing::needs::{self, Need};
use rusqlite::Connection;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::bed::{append_each, at, key, message, order, read, soon, texts};
use crate::sqlite::Files;

fn settings() -> SqliteLogSettings {
    SqliteLogSettings { wal_bytes: 1 << 20, ..Default::default() }
}

fn open(files: &Files) -> SqliteLog {
    SqliteLog::open(files.log_path(), settings()).expect("the log opens")
}

fn outside(path: &Path, sql: &str) {
    let connection = Connection::open(path).expect("SQLite opens it");
    connection.execute_batch(sql).expect("the statement runs");
}

#[tokio::test]
async fn a_second_opener_is_refused_with_the_reason() {
    let files = Files::new();
    let (log, store) = (open(&files), SqliteOrders::open(files.orders_path()).unwrap());
    let second_log = SqliteLog::open(files.log_path(), settings()).err();
    let second_store = SqliteOrders::open(files.orders_path()).err();
    for error in [second_log, second_store] {
        let Some(EngineError::Unavailable(text)) = error else { panic!("{error:?}") };
        assert!(text.contains("in use by another payfold process"), "{text}");
    }
    drop((log, store));
    drop((open(&files), SqliteOrders::open(files.orders_path()).unwrap()));
}

#[tokio::test]
async fn a_gap_is_corrupt_for_every_kind_of_read() {
    for (lost, read_before) in [(1, 0), (3, 2)] {
        let files = Files::new();
        append_each(&open(&files), &["1", "2", "3", "4"]).await;
        outside(&files.log_path(), &format!("DELETE FROM intake WHERE position = {lost}"));
        let log = open(&files);
        let mut reader = log.subscribe(Topic::Intake, "g", Start::Group).await.unwrap();
        if read_before > 0 {
            assert_eq!(soon(reader.next_batch(read_before)).await.unwrap().len(), read_before);
        }
        let met = soon(reader.next_batch(10)).await;
        assert!(
            matches!(&met, Err(EngineError::Corrupt(text)) if text.contains("missing")),
            "{met:?}"
        );
        let listed = soon(log.read_after(Topic::Intake, at(lost - 1), 10)).await;
        assert!(matches!(listed, Err(EngineError::Corrupt(_))), "{listed:?}");
    }
}

#[tokio::test]
async fn a_read_only_log_lists_and_refuses_appends() {
    let files = Files::new();
    assert!(matches!(
        SqliteLog::open_read_only(files.log_path()).err(),
        Some(EngineError::Invalid(_))
    ));
    let live = open(&files);
    append_each(&live, &["1", "2"]).await;
    let beside = SqliteLog::open_read_only(files.log_path()).unwrap();
    assert_eq!(texts(&read(&beside, Topic::Intake, 2).await), ["1", "2"]);
    let id = live.id();
    drop((live, beside));

    let alone = SqliteLog::open_read_only(files.log_path()).unwrap();
    assert_eq!(alone.id(), id);
    assert_eq!(texts(&soon(alone.read_after(Topic::Intake, at(1), 9)).await.unwrap()), ["2"]);
    let refused = soon(alone.append(Topic::Intake, message("k", "3"))).await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    let mut reader = alone.subscribe(Topic::Intake, "g", Start::Group).await.unwrap();
    assert!(matches!(soon(reader.ack(vec![at(1)])).await, Err(EngineError::Invalid(_))));
}

#[tokio::test]
async fn a_read_only_store_lists_and_refuses_commits() {
    let files = Files::new();
    let row = order("p/M/a", 1);
    let commit = Commit { orders: vec![row.clone().into()], ..Commit::default() };
    soon(SqliteOrders::open(files.orders_path()).unwrap().commit(commit.clone())).await.unwrap();
    let store = SqliteOrders::open_read_only(files.orders_path()).unwrap();
    assert_eq!(soon(store.load(vec![key("p/M/a")])).await, Ok(vec![Some(row)]));
    assert!(matches!(soon(store.commit(commit)).await, Err(EngineError::Invalid(_))));
}

#[tokio::test]
async fn a_file_of_the_other_kind_is_refused() {
    let files = Files::new();
    drop(SqliteOrders::open(files.log_path()).unwrap());
    assert!(SqliteLog::open(files.log_path(), settings()).is_err());
}

#[tokio::test]
async fn acks_and_starts_past_the_end_are_refused() {
    let files = Files::new();
    let log = open(&files);
    append_each(&log, &["1"]).await;
    let mut reader = log.subscribe(Topic::Intake, "g", Start::Group).await.unwrap();
    assert!(matches!(soon(reader.ack(vec![at(2)])).await, Err(EngineError::Invalid(_))));
    let start = Start::After(vec![at(2)]);
    assert!(matches!(
        soon(log.subscribe(Topic::Intake, "g", start)).await,
        Err(EngineError::Invalid(_))
    ));
}

#[tokio::test]
async fn a_failed_group_stores_nothing_and_the_next_one_succeeds() {
    let files = Files::new();
    let log = open(&files);
    append_each(&log, &["1"]).await;
    outside(
        &files.log_path(),
        "CREATE TRIGGER refuse BEFORE INSERT ON intake WHEN new.value = x'62' BEGIN
         SELECT raise(FAIL, 'refused'); END",
    );
    let list = ["a", "b", "c"].map(|text| message("k", text)).to_vec();
    assert!(soon(log.append_all(Topic::Intake, list)).await.is_err());
    assert_eq!(append_each(&log, &["2"]).await, [at(2)]);
    assert_eq!(texts(&read(&log, Topic::Intake, 2).await), ["1", "2"]);
    assert_eq!(log.stats().unwrap().failures(), 1);
}

/// A small mounted file system.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` if this user may not mount.
    fn mount(directory: &Path) -> Option<Self> {
        // No program is started for it: a child holds the lock files of the tests beside this one
        // until it runs its own program.
        let mounted = mount("tmpfs", directory, "tmpfs", MountFlags::empty(), Some(c"size=8m"));
        let found = mounted.map_err(|error| error.to_string());
        needs::require(Need::Root, found).map(|()| Self(directory.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A mount that can't be removed stays until the machine restarts.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[tokio::test]
async fn a_full_disk_is_unavailable_and_the_log_recovers_without_a_restart() {
    let files = Files::new();
    let Some(_disk) = SmallDisk::mount(files.0.path()) else { return };
    // The reserve is larger than this disk, so the log must open without it.
    let settings = SqliteLogSettings { wal_bytes: 16 << 20, ..SqliteLogSettings::default() };
    let log = SqliteLog::open(files.log_path(), settings).unwrap();
    let reserved = std::fs::metadata(files.0.path().join("log.db-wal")).unwrap().len();
    assert!(reserved < 1 << 20, "{reserved} bytes of a full disk were kept");
    let ballast = files.0.path().join("ballast");
    std::fs::write(&ballast, vec![0; 3 << 20]).unwrap();
    let append = || {
        let message =
            Message { key: "k".to_owned(), event: None, value: vec![1; 64 << 10], mac: None };
        soon(log.append(Topic::Intake, message))
    };
    let mut stored = 0;
    let refused = loop {
        match append().await {
            Ok(position) => {
                stored += 1;
                assert_eq!(position, at(stored));
            }
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&refused, EngineError::Unavailable(text) if text.contains("full")),
        "{refused:?}"
    );
    assert!(matches!(append().await, Err(EngineError::Unavailable(_))), "it is still full");
    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(append().await, Ok(at(stored + 1)), "there is room again");
    let count = usize::try_from(stored + 1).unwrap();
    assert_eq!(read(&log, Topic::Intake, count).await.len(), count);
    drop(log);
    assert_eq!(read(&open(&files), Topic::Intake, count).await.len(), count);
}
