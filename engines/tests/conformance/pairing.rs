//! The guarantees of `pairing::check`.

use payfold_engines::EngineError;
use payfold_engines::log::EventLog;
use payfold_engines::orders::{Commit, Folded};
use payfold_engines::pairing::check;
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;

use crate::bed::{Bed, append_each, at, log, orders, soon};

/// Folds the bed's store up to a record with these bytes, of the log with this id.
async fn fold(bed: &dyn Bed, log_id: [u8; 16], position: Position, bytes: &[u8]) {
    let folded = vec![Folded::new(position, Digest::of_bytes(bytes))];
    let commit = Commit { folded, log_id, ..Commit::default() };
    soon(orders(bed).await.commit(commit)).await.expect("committed");
}

async fn three_records(bed: &dyn Bed) -> (std::sync::Arc<dyn EventLog>, Vec<Position>) {
    let log = log(bed).await;
    let positions = append_each(&*log, &["1", "2", "3"]).await;
    (log, positions)
}

async fn refused_for(bed: &dyn Bed, log: &dyn EventLog, why: &str) {
    match soon(check(log, &*orders(bed).await)).await {
        Err(EngineError::Corrupt(text)) => {
            assert!(text.contains(why) && text.contains("restore the log"), "{text}");
            assert!(!text.contains("away") && !text.contains("rebuilt"), "{text}");
        }
        other => panic!("expected {why:?}, got {other:?}"),
    }
}

/// A new store fits any log, and a folded store fits the log it was folded from.
pub async fn pairs_what_belongs_together(bed: &dyn Bed) {
    let (log, positions) = three_records(bed).await;
    assert_eq!(soon(check(&*log, &*orders(bed).await)).await, Ok(()));
    fold(bed, log.id(), positions[1], b"2").await;
    assert_eq!(soon(check(&*log, &*orders(bed).await)).await, Ok(()));
}

/// A log with another id is refused.
pub async fn refuses_another_log(bed: &dyn Bed) {
    let (log, positions) = three_records(bed).await;
    fold(bed, [9; 16], positions[1], b"2").await;
    refused_for(bed, &*log, "another log").await;
}

/// A log that ends before the store's progress is refused.
pub async fn refuses_a_log_that_lost_its_end(bed: &dyn Bed) {
    let (log, _) = three_records(bed).await;
    fold(bed, log.id(), at(4), b"4").await;
    refused_for(bed, &*log, "up to 0-4, but the log ends at 0-3").await;
}

/// A log with another record at the store's progress is refused.
pub async fn refuses_another_record(bed: &dyn Bed) {
    let (log, positions) = three_records(bed).await;
    fold(bed, log.id(), positions[1], b"another").await;
    refused_for(bed, &*log, "not the one that was folded").await;
}
