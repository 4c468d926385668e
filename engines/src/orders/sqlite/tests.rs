//! Tests of the SQLite order store across restarts and lost files.

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::ShopName;
use payfold_schemas::order::{KnownFacts, OrderState, Summary};
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

use super::*;
use crate::orders::{ClaimKey, Folded, ViewEntry};

fn order(key: &str, offset: u64) -> Order {
    let summary = Summary::new(OrderState::Pending);
    Order {
        key: OrderKey::parse(key).unwrap(),
        version: offset,
        first_seen: Time::from_unix_ms(1),
        position: Position { partition: 0, offset },
        summary,
        facts: KnownFacts::default(),
    }
}

#[tokio::test]
async fn a_commit_is_read_back_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("orders.db");
    let store = SqliteOrders::open(&path).unwrap();
    assert_eq!(store.progress().await, Ok(None));
    let (a, b) = (order("p/M/a", 1), order("p/M/b", 2));
    let folded = vec![Folded::new(b.position, Digest::of_bytes(b"2"))];
    let views = vec![
        (a.key.clone(), ViewEntry::Created(a.first_seen)),
        (b.key.clone(), ViewEntry::Created(b.first_seen)),
    ];
    let commit = Commit {
        orders: vec![a.clone().into(), b.clone().into()],
        views: views.clone().into(),
        folded: folded.clone(),
        log_id: [7; 16],
    };
    store.commit(commit.clone()).await.unwrap();
    store.commit(commit).await.unwrap();
    drop(store);

    let store = SqliteOrders::open(&path).unwrap();
    let missing = OrderKey::parse("p/M/c").unwrap();
    let loaded = store.load(vec![b.key.clone(), missing, a.key.clone()]).await.unwrap();
    assert_eq!(loaded, vec![Some(b), None, Some(a)]);
    assert_eq!(store.progress().await, Ok(Some(Progress { log_id: [7; 16], folded })));
    let scan = Scan::Created { from: Time::from_unix_ms(0), until: Time::from_unix_ms(2) };
    let first = store.scan(scan.clone(), None, 1).await.unwrap();
    let second = store.scan(scan, first.next.clone(), 1).await.unwrap();
    assert_eq!([first.entries, second.entries].concat(), views);
    assert_eq!(second.next, None);
}

#[tokio::test]
async fn no_claim_is_granted_in_a_lost_file() {
    for suffix in ["", "-wal"] {
        let dir = tempfile::tempdir().unwrap();
        let (path, away) = (dir.path().join("orders.db"), dir.path().join("away"));
        let mut lost = claims_beside(&path).into_os_string();
        lost.push(suffix);
        let lost = PathBuf::from(lost);
        let store = SqliteOrders::open(&path).unwrap();
        let claim = |key: &str| {
            let key = ClaimKey::create_request(&ShopName::parse("shop").unwrap(), key).unwrap();
            store.claim(key, b"record".to_vec())
        };
        assert_eq!(claim("a").await, Ok(Claimed::Mine));
        assert_eq!(store.check_storage().await, Ok(()));
        std::fs::rename(&lost, &away).unwrap();
        for key in ["a", "b", "c"] {
            let error = claim(key).await.unwrap_err();
            assert!(
                matches!(&error, EngineError::Unavailable(text) if text.contains("moved away")),
                "{error}"
            );
            assert!(!lost.exists());
        }
        assert!(matches!(store.check_storage().await, Err(EngineError::Unavailable(_))));
        // Another file at the path is not used.
        std::fs::write(&lost, b"").unwrap();
        assert!(matches!(claim("d").await, Err(EngineError::Unavailable(_))));
        assert_eq!(lost.metadata().unwrap().len(), 0);
        std::fs::rename(&away, &lost).unwrap();
        assert_eq!(claim("a").await, Ok(Claimed::Taken(b"record".to_vec())));
        assert_eq!(claim("e").await, Ok(Claimed::Mine));
        assert_eq!(store.check_storage().await, Ok(()));
    }
}

/// Claims a create request's key.
async fn claim(store: &SqliteOrders, key: &str) -> Result<Claimed, EngineError> {
    let shop = ShopName::parse("shop").unwrap();
    store.claim(ClaimKey::create_request(&shop, key).unwrap(), b"record".to_vec()).await
}

fn wal_of(path: &Path) -> PathBuf {
    let mut wal = claims_beside(path).into_os_string();
    wal.push("-wal");
    wal.into()
}

#[tokio::test]
async fn claims_survive_the_loss_of_their_write_ahead_log() {
    for is_noticed in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("orders.db");
        let store = SqliteOrders::open(&path).unwrap();
        assert_eq!(claim(&store, "a").await, Ok(Claimed::Mine));
        std::fs::remove_file(wal_of(&path)).unwrap();
        if is_noticed {
            assert!(matches!(claim(&store, "b").await, Err(EngineError::Unavailable(_))));
            assert!(!wal_of(&path).exists());
        }
        drop(store);
        let store = SqliteOrders::open(&path).unwrap();
        let record = b"record".to_vec();
        assert_eq!(claim(&store, "a").await, Ok(Claimed::Taken(record)), "noticed: {is_noticed}");
    }
}

#[tokio::test]
async fn a_group_that_fails_while_its_file_is_lost_keeps_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let (path, away) = (dir.path().join("orders.db"), dir.path().join("away"));
    let store = SqliteOrders::open(&path).unwrap();
    let refusal = "CREATE TRIGGER refusing BEFORE INSERT ON claims WHEN new.key = 'shop/bad'
        BEGIN SELECT RAISE(ABORT, 'refused'); END";
    Connection::open(claims_beside(&path)).unwrap().execute_batch(refusal).unwrap();
    std::fs::rename(claims_beside(&path), &away).unwrap();
    let error = claim(&store, "bad").await.unwrap_err();
    assert!(error.to_string().contains("refused"), "its transaction was open: {error}");
    std::fs::rename(&away, claims_beside(&path)).unwrap();
    assert_eq!(claim(&store, "a").await, Ok(Claimed::Mine));
}

#[tokio::test]
async fn claims_behind_a_symlink_are_checked_at_their_target() {
    let dir = tempfile::tempdir().unwrap();
    let (path, real) = (dir.path().join("orders.db"), dir.path().join("real.db"));
    std::os::unix::fs::symlink(&real, claims_beside(&path)).unwrap();
    let store = SqliteOrders::open(&path).unwrap();
    assert_eq!(claim(&store, "a").await, Ok(Claimed::Mine));
    std::fs::remove_file(dir.path().join("real.db-wal")).unwrap();
    assert!(matches!(claim(&store, "b").await, Err(EngineError::Unavailable(_))));
    drop(store);
    let store = SqliteOrders::open(&path).unwrap();
    assert_eq!(claim(&store, "a").await, Ok(Claimed::Taken(b"record".to_vec())));
}

/// A position without its rows would never be folded again.
#[tokio::test]
async fn a_commit_that_fails_moves_no_position_and_lists_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("orders.db");
    let store = SqliteOrders::open(&path).unwrap();
    let refusal = "CREATE TRIGGER refusing BEFORE INSERT ON orders_g1 WHEN new.key = 'p/M/bad'
        BEGIN SELECT RAISE(ABORT, 'refused'); END";
    Connection::open(&path).unwrap().execute_batch(refusal).unwrap();
    let commit = |key: &str, offset| {
        let order = order(key, offset);
        let folded = vec![Folded::new(order.position, Digest::of_bytes(key.as_bytes()))];
        let views = vec![(order.key.clone(), ViewEntry::Created(order.first_seen))];
        Commit { orders: vec![order.into()], views: views.into(), folded, log_id: [7; 16] }
    };
    store.commit(commit("p/M/a", 1)).await.unwrap();
    let before = store.progress().await.unwrap();
    let error = store.commit(commit("p/M/bad", 2)).await.unwrap_err();
    assert!(error.to_string().contains("refused"), "its transaction was open: {error}");
    assert_eq!(store.progress().await.unwrap(), before);
    let all = Scan::Created { from: Time::from_unix_ms(0), until: Time::from_unix_ms(2) };
    assert_eq!(store.scan(all, None, 9).await.unwrap().entries.len(), 1);
    store.commit(commit("p/M/b", 2)).await.unwrap();
}

/// An answered claim survives a power cut, or a second call could be made with its key.
#[test]
fn a_claim_is_synced_before_it_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let connection = claims::open(&dir.path().join("orders.claims.db")).unwrap();
    let mode = |name: &str| {
        let sql = format!("PRAGMA {name}");
        connection.query_row(&sql, [], |row| row.get::<_, rusqlite::types::Value>(0)).unwrap()
    };
    // 2 is FULL: a commit returns once the write-ahead log is synced.
    assert_eq!(mode("synchronous"), rusqlite::types::Value::Integer(2));
    assert_eq!(mode("journal_mode"), rusqlite::types::Value::Text("wal".to_owned()));
}
