//! The parking marker of a damaged record is found after the record, on every engine of the log.

use std::sync::Arc;
use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::kafka::topics::{self, Footing, TopicsWanted};
use payfold_engines::log::kafka::{KafkaLog, KafkaSettings, Observers};
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::Author;
use payfold_testing::stack;

use super::*;

async fn append(log: &dyn EventLog, text: &str) -> Position {
    let message =
        Message { key: "k".to_owned(), event: None, value: text.as_bytes().to_vec(), mac: None };
    log.append(Topic::Intake, message).await.expect("appended")
}

/// A marker parks the record with its digest at its position, and no other.
async fn a_marker_is_found_and_parks_one_record(log: Arc<dyn EventLog>) {
    let positions = [append(&*log, "damaged").await, append(&*log, "damaged").await];
    let mut read = Vec::new();
    for position in positions {
        let before = Position { offset: position.offset - 1, ..position };
        read.extend(log.read_after(Topic::Intake, before, 1).await.expect("read"));
    }
    let [first, second] = [&read[0], &read[1]];
    assert_eq!(find_marker(&*log, first).await, Ok(None));
    let parked = Parked {
        parked: first.position,
        digest: Digest::of_bytes(&first.value),
        author: Author::parse("mai").expect("a name"),
        reason: "a disk lost it".to_owned(),
        request_id: SystemClock.request_id(),
        at: SystemClock.now(),
        seconded_by: None,
        second_reason: None,
    };
    log.append_marker(Topic::Intake, proposal_message(&parked)).await.expect("proposed");
    assert_eq!(find_marker(&*log, first).await, Ok(None), "a proposal parks nothing");
    assert_eq!(read_all_markers(&*log).await, Ok(vec![]));
    assert_eq!(find_proposals(&*log, first).await, Ok(vec![parked.clone()]));
    assert_eq!(find_proposals(&*log, second).await, Ok(vec![]));
    let proposed_by = parked.author.clone();
    let parked = Parked { seconded_by: Some(proposed_by), ..parked };
    log.append_marker(Topic::Intake, marker_message(&parked)).await.expect("marked");
    append(&*log, "later").await;
    assert_eq!(find_marker(&*log, first).await, Ok(Some(parked.clone())));
    assert_eq!(find_marker(&*log, second).await, Ok(None), "the same bytes at another position");
    let other = Delivered { value: b"others".to_vec(), ..first.clone() };
    assert_eq!(find_marker(&*log, &other).await, Ok(None), "other bytes at this position");
    assert_eq!(read_all_markers(&*log).await, Ok(vec![parked]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_record_is_found_on_sqlite() {
    let dir = tempfile::tempdir().expect("a folder");
    let log = SqliteLog::open(dir.path().join("log.db"), SqliteLogSettings::default());
    a_marker_is_found_and_parks_one_record(Arc::new(log.expect("the log opens"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_record_is_found_on_kafka() {
    if !stack::is_available() {
        return;
    }
    let prefix = format!("parked-{}", SystemClock.request_id());
    let mut settings = KafkaSettings::new(vec![stack::broker()], &prefix);
    // More time than a busy machine takes.
    settings.delivery_timeout = Duration::from_secs(30);
    let (partitions, footing) = (2, Footing::Dev);
    let wanted = TopicsWanted { partitions, replication: 1, footing, ..TopicsWanted::default() };
    topics::apply(&settings, &wanted).await.expect("the topics are made");
    let log = KafkaLog::open(&settings, Observers::default()).await.expect("the log opens");
    a_marker_is_found_and_parks_one_record(Arc::new(log)).await;
}
