//! The SQLite log opened again: what was appended is there.

use super::*;

fn message(n: usize) -> Message {
    Message { key: format!("k{}", n % 7), event: None, value: format!("v{n}").into_bytes() }
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
