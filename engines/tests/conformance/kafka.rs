//! Kafka's list of the suite, and tests of rebalances, which only a cluster has.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::kafka::topics::{Footing, TopicsWanted};
use payfold_engines::log::kafka::{KafkaLog, KafkaSettings, Observers, topics};
use payfold_engines::log::{
    AssignedReader, Delivered, EventLog, ReaderOutput, Rebalance, Start, Topic,
};
use payfold_engines::orders::OrderStore;
use payfold_engines::{EngineError, SeamFuture};

use crate::bed::{self, Bed, soon};
use crate::cql::Keyspace;
use crate::stack::{is_available, shared};
use crate::{assigned_reader, authenticated, log, pairing};

/// Topics with a prefix of their own on the shared broker, and a keyspace for tests with a store.
pub struct Topics {
    pub settings: KafkaSettings,
    keyspace: Keyspace,
}

impl Topics {
    /// Makes the topics; `None` when tests with real servers are left out.
    pub async fn new(partitions: u32) -> Option<Self> {
        if !is_available() {
            return None;
        }
        let prefix = format!("suite-{}", SystemClock.request_id());
        let mut settings = KafkaSettings::new(shared().kafka.clone(), &prefix);
        settings.delivery_timeout = std::time::Duration::from_secs(30);
        let wanted = TopicsWanted {
            partitions,
            replication: 1,
            footing: Footing::Dev,
            ..TopicsWanted::default()
        };
        topics::apply(&settings, &wanted).await.expect("the topics are made");
        Some(Self { settings, keyspace: Keyspace::unmade()? })
    }

    /// Makes the topics and the tables of a store.
    async fn paired() -> Option<Self> {
        let made = Self::new(1).await?;
        made.keyspace.make_tables().await;
        Some(made)
    }
}

impl Bed for Topics {
    fn log(&self, queue_max: usize) -> SeamFuture<'_, Arc<dyn EventLog>, EngineError> {
        let settings = KafkaSettings { queue_max, ..self.settings.clone() };
        Box::pin(async move {
            let log = KafkaLog::open(&settings, Observers::default()).await?;
            Ok(Arc::new(log) as Arc<dyn EventLog>)
        })
    }

    fn orders(&self) -> SeamFuture<'_, Arc<dyn OrderStore>, EngineError> {
        self.keyspace.orders()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_keeps_acknowledged_messages() {
    let Some(bed) = Topics::new(3).await else { return };
    log::keeps_acknowledged_messages(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_keeps_the_order_of_a_key() {
    let Some(bed) = Topics::new(3).await else { return };
    log::keeps_the_order_of_a_key(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_marks_every_partition() {
    let Some(bed) = Topics::new(3).await else { return };
    log::marks_every_partition(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_appends_lists() {
    let Some(bed) = Topics::new(3).await else { return };
    log::appends_lists(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_checks_who_wrote() {
    let Some(bed) = Topics::new(3).await else { return };
    authenticated::checks_who_wrote(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_keeps_topics_and_attributes() {
    let Some(bed) = Topics::new(3).await else { return };
    log::keeps_topics_and_attributes(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_delivers_batches() {
    let Some(bed) = Topics::new(3).await else { return };
    log::delivers_batches(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_remembers_acks() {
    let Some(bed) = Topics::new(3).await else { return };
    log::remembers_acks(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_wakes_a_waiting_reader() {
    let Some(bed) = Topics::new(3).await else { return };
    log::wakes_a_waiting_reader(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_survives_dropped_reads() {
    let Some(bed) = Topics::new(3).await else { return };
    log::survives_dropped_reads(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_refuses_at_once_when_full() {
    let Some(bed) = Topics::new(3).await else { return };
    log::refuses_at_once_when_full(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_keeps_dropped_appends() {
    let Some(bed) = Topics::new(3).await else { return };
    log::keeps_dropped_appends(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_drains_when_closed() {
    let Some(bed) = Topics::new(3).await else { return };
    log::drains_when_closed(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_lists_long_topics() {
    let Some(bed) = Topics::new(3).await else { return };
    log::lists_long_topics(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_lists() {
    let Some(bed) = Topics::new(3).await else { return };
    log::lists(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn assigned_reader_starts_after_the_named_position() {
    let Some(bed) = Topics::new(3).await else { return };
    assigned_reader::starts_after_the_named_position(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn assigned_reader_delivers_later_appends() {
    let Some(bed) = Topics::new(3).await else { return };
    assigned_reader::delivers_later_appends(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn assigned_reader_refuses_to_start_past_the_end() {
    let Some(bed) = Topics::new(3).await else { return };
    assigned_reader::refuses_to_start_past_the_end(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairing_pairs_what_belongs_together() {
    let Some(bed) = Topics::paired().await else { return };
    pairing::pairs_what_belongs_together(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairing_refuses_another_log() {
    let Some(bed) = Topics::paired().await else { return };
    pairing::refuses_another_log(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairing_refuses_a_log_that_lost_its_end() {
    let Some(bed) = Topics::paired().await else { return };
    pairing::refuses_a_log_that_lost_its_end(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairing_refuses_another_record() {
    let Some(bed) = Topics::paired().await else { return };
    pairing::refuses_another_record(&bed).await;
}

/// Waits for the reader's next output, which must be a rebalance of this kind; returns its
/// partitions.
async fn await_rebalance(
    reader: &mut dyn AssignedReader,
    kind: fn(Vec<u32>) -> Rebalance,
) -> Vec<u32> {
    match soon(reader.next(10)).await.expect("the reader's next output") {
        ReaderOutput::Rebalance(rebalance) => {
            let partitions = rebalance.partitions().to_vec();
            assert_eq!(rebalance, kind(partitions.clone()));
            partitions
        }
        other @ ReaderOutput::Messages(_) => panic!("expected a rebalance, got {other:?}"),
    }
}

/// A revoked partition delivers nothing any more, and the next reader gets it only after the
/// release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_partition_is_assigned_after_its_release() {
    let Some(bed) = Topics::new(4).await else { return };
    let log = bed::log(&bed).await;
    let mut first = soon(log.join_group(Topic::Intake, "assigned-reader")).await.expect("a reader");
    assert_eq!(await_rebalance(&mut *first, Rebalance::Assigned).await, [0, 1, 2, 3]);
    soon(first.start_after(Vec::new())).await.expect("begun");

    let mut second =
        soon(log.join_group(Topic::Intake, "assigned-reader")).await.expect("a reader");
    let taken = await_rebalance(&mut *first, Rebalance::Revoked).await;
    assert_eq!(taken.len(), 2);
    let early = tokio::time::timeout(Duration::from_secs(2), second.next(10)).await;
    assert!(early.is_err(), "{early:?} before the first reader released them");
    for n in 0..40 {
        let appended = log.append(Topic::Intake, bed::message(&format!("key-{n}"), "late"));
        soon(appended).await.expect("appended");
    }
    soon(first.release_revoked()).await.expect("released");
    assert_eq!(await_rebalance(&mut *second, Rebalance::Assigned).await, taken);
    soon(second.start_after(Vec::new())).await.expect("begun");

    let mut found = [HashSet::new(), HashSet::new()];
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    // Until all messages came, and then once more to see that no other follows.
    let mut is_over = false;
    while !is_over {
        is_over = found.iter().map(HashSet::len).sum::<usize>() == 40;
        for (n, reader) in [&mut first, &mut second].into_iter().enumerate() {
            assert!(tokio::time::Instant::now() < until, "[time] {found:?} of 40");
            let asked = tokio::time::timeout(Duration::from_millis(500), reader.next(100)).await;
            let Ok(next) = asked else { continue };
            let ReaderOutput::Messages(messages) = next.expect("the reader's next output") else {
                continue;
            };
            for one in messages {
                let right = taken.contains(&one.position.partition) == (n == 1);
                assert!(right, "a message of the other's partition");
                assert!(found[n].insert(one.position), "{} twice", one.position);
            }
        }
    }
    assert!(found.iter().all(|of_reader| !of_reader.is_empty()), "some keys fall to each");
    // A dropped reader leaves the group at once, and the other one gets its partitions.
    drop(second);
    assert_eq!(await_rebalance(&mut *first, Rebalance::Assigned).await, taken);
}

/// Messages of a revoked partition that were polled and not delivered are dropped; when the
/// partition is assigned again, it starts after the group's committed offset.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reassigned_partition_starts_after_the_committed_offset() {
    let Some(bed) = Topics::new(2).await else { return };
    let log = bed::log(&bed).await;
    let member = || log.subscribe(Topic::Intake, "member", Start::Group);
    let mut first = soon(member()).await.expect("a member");
    // Two waves, which the reader polls one after the other.
    for wave in ["early", "late"] {
        let messages = (0..40).map(|n| bed::message(&format!("key-{n}"), wave)).collect();
        soon(log.append_all(Topic::Intake, messages)).await.expect("appended");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let all = bed::read(&*log, Topic::Intake, 80).await;
    let mut second = soon(member()).await.expect("a member");
    let moved = soon(second.next_batch(1)).await.expect("a batch")[0].position.partition;
    let is_moved = |one: &Delivered| one.position.partition == moved;
    // The first wave of the partition that stays; the revoked one's messages are left out.
    let is_early = |one: &&Delivered| one.value == b"early" && !is_moved(one);
    let mut early = all.iter().filter(is_early).count();
    while early > 0 {
        let batch = soon(first.next_batch(early)).await.expect("a batch");
        assert!(batch.iter().all(|one| is_early(&one)), "another's, or too soon: {batch:?}");
        early -= batch.len();
    }
    drop(second);
    tokio::time::sleep(Duration::from_secs(4)).await;

    let moved_ones = all.iter().filter(|one| is_moved(one));
    let expected: Vec<_> = moved_ones.map(|one| one.position).collect();
    let mut found = Vec::new();
    while found.len() < expected.len() {
        let batch = soon(first.next_batch(100)).await.expect("a batch");
        found.extend(batch.iter().filter(|one| is_moved(one)).map(|one| one.position));
    }
    assert_eq!(found, expected, "all of it, in order");
}
