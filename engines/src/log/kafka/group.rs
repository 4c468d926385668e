//! Owns a consumer's callbacks from librdkafka: errors, and rebalances of its group.
//!
//! An assigned partition stays paused until its start offset is set. A revoked partition delivers
//! nothing from that moment on; it goes back to the group when its reader has finished, or after
//! `RELEASE_MAX`. Invariant: `HeldPartitions` has exactly the partitions this consumer may deliver,
//! each with its next offset. So a gap is detected, and between two rebalances no message is
//! delivered twice or out of order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, Statistics, TopicPartitionList};
use tokio::sync::mpsc;

use super::context::Context;
use super::rejoin::{AnswerCounts, MissedAnswers};
use crate::log::{Delivered, RELEASE_MAX};
use crate::{EngineError, lock};

/// What the polling thread sends to its reader. Partitions have Kafka's numbers.
#[derive(Debug)]
pub(super) enum ConsumerEvent {
    /// Messages, and the rebalance round (`HeldPartitions::round`) in which they were polled.
    Messages(u64, Vec<Delivered>),
    Assigned(Vec<i32>),
    Revoked(Vec<i32>),
    Lost(Vec<i32>),
    Failed(EngineError),
}

/// A client context that keeps the last error as the reason of later failures, and logs quietly.
#[derive(Debug, Default)]
pub(super) struct QuietContext(Context);

impl QuietContext {
    /// The error of a request that failed.
    pub(super) fn unavailable(&self, error: &KafkaError) -> EngineError {
        EngineError::Unavailable(format!("Kafka: {error}{}", self.reason()))
    }

    /// The error of a request that was not answered in time.
    pub(super) fn timed_out(&self, what: &str) -> EngineError {
        EngineError::Unavailable(format!("Kafka did not send {what} in time{}", self.reason()))
    }

    pub(super) fn reason(&self) -> String {
        self.0.last_error().map(|reason| format!(" ({reason})")).unwrap_or_default()
    }
}

impl ClientContext for QuietContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ConsumerContext for QuietContext {}

/// The partitions a consumer may deliver.
#[derive(Debug, Default)]
pub(super) struct HeldPartitions {
    /// The assigned partitions, each with the offset of its next message. `None` until the
    /// partition starts, and while it starts at its first message, whatever offset that has.
    pub(super) partitions: BTreeMap<i32, Option<i64>>,
    /// Assigned partitions that were not started yet.
    pub(super) not_started: Vec<i32>,
    /// The offset that was committed to the group; it never goes back.
    pub(super) acked: BTreeMap<i32, i64>,
    /// How often partitions were revoked so far. Messages that were polled in an earlier round than
    /// their partition was last assigned in are dropped.
    pub(super) round: u64,
    /// The round in which each of `partitions` was assigned.
    pub(super) since: BTreeMap<i32, u64>,
    /// For partitions that were revoked, the offset after the last delivered message.
    pub(super) delivered_before: BTreeMap<i32, i64>,
    /// Whether the reader still has to release revoked partitions.
    release_pending: bool,
    /// Whether the reader was dropped and so will not release anything.
    closing: bool,
}

/// How a reader's consumer takes part in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupRole {
    /// It is outside any group.
    Standalone,
    /// It starts partitions after the offsets that the group committed.
    Subscriber,
    /// Its caller names each partition's start, and finishes revoked partitions.
    AssignedReader,
}

/// The context of a reader's consumer, which librdkafka calls back.
pub(super) struct GroupContext {
    quiet: QuietContext,
    role: GroupRole,
    /// How many partitions of the topic belong to the log; `None` outside a group.
    partitions: Option<u32>,
    held: Mutex<HeldPartitions>,
    released: Condvar,
    missed: Mutex<MissedAnswers>,
    /// Whether the consumer must rejoin its group, because it may have missed an assignment.
    rejoin: AtomicBool,
    events: mpsc::UnboundedSender<ConsumerEvent>,
}

impl GroupContext {
    pub(super) fn new(
        role: GroupRole,
        partitions: Option<u32>,
        events: mpsc::UnboundedSender<ConsumerEvent>,
    ) -> Self {
        Self {
            quiet: QuietContext::default(),
            role,
            partitions,
            held: Mutex::default(),
            released: Condvar::new(),
            missed: Mutex::default(),
            rejoin: AtomicBool::new(false),
            events,
        }
    }

    pub(super) fn quiet(&self) -> &QuietContext {
        &self.quiet
    }

    /// Reads or changes the held partitions under their lock.
    pub(super) fn with_held<T>(&self, access: impl FnOnce(&mut HeldPartitions) -> T) -> T {
        access(&mut lock(&self.held))
    }

    /// Records that the reader has finished the revoked partitions.
    pub(super) fn release(&self) {
        self.with_held(|held| held.release_pending = false);
        self.released.notify_all();
    }

    /// Records that the reader was dropped.
    pub(super) fn close(&self) {
        self.with_held(|held| held.closing = true);
        self.released.notify_all();
    }

    /// Returns once whether the consumer must leave its group and join it again.
    pub(super) fn take_rejoin(&self) -> bool {
        self.rejoin.swap(false, Ordering::AcqRel)
    }

    pub(super) fn send_event(&self, event: ConsumerEvent) {
        // Fails only while the reader is dropped.
        let _ = self.events.send(event);
    }

    /// Whether a partition of the topic belongs to the log. The group also assigns partitions that
    /// were added to the topic later. They stay assigned and paused, and the reader never learns of
    /// them.
    pub(super) fn is_of_log(&self, partition: i32) -> bool {
        let number = u32::try_from(partition).unwrap_or(u32::MAX);
        self.partitions.is_none_or(|partitions| number < partitions)
    }

    /// The partitions of the log among these, by Kafka's numbers.
    fn log_partitions(&self, list: &TopicPartitionList) -> Vec<i32> {
        let numbers = list.elements().into_iter().map(|element| element.partition());
        numbers.filter(|partition| self.is_of_log(*partition)).collect()
    }

    /// Takes over assigned partitions, paused until they are started.
    fn on_assigned(&self, consumer: &BaseConsumer<Self>, list: &mut TopicPartitionList) {
        let partitions = self.log_partitions(list);
        if partitions.len() < list.count() {
            let (added, topic) = (list.count() - partitions.len(), list.elements());
            let topic = topic.first().map(|element| element.topic().to_owned());
            tracing::warn!(
                topic,
                added,
                "partitions were added to a topic of the log: payfold neither writes nor reads \
                 them; `payfold check --connect` says what they hold"
            );
        }
        // A fixed offset, not `Beginning`: the client would resolve `Beginning` with a request, and
        // its late answer would undo a seek.
        let assigned = list
            .set_all_offsets(Offset::Offset(0))
            .and_then(|()| match consumer.rebalance_protocol() {
                RebalanceProtocol::Cooperative => consumer.incremental_assign(list),
                RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.assign(list),
            })
            .and_then(|()| consumer.pause(list));
        if let Err(error) = assigned {
            self.send_event(ConsumerEvent::Failed(must_restart("take over partitions", &error)));
            return;
        }
        self.with_held(|held| {
            held.partitions.extend(partitions.iter().map(|partition| (*partition, None)));
            let round = held.round;
            held.since.extend(partitions.iter().map(|partition| (*partition, round)));
            held.not_started.extend(&partitions);
        });
        if self.role == GroupRole::AssignedReader && !partitions.is_empty() {
            self.send_event(ConsumerEvent::Assigned(partitions));
        }
    }

    /// Gives revoked partitions back. Waits until their reader has finished them, unless they are
    /// lost: then another reader may have them already.
    fn on_revoked(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        let partitions = self.log_partitions(list);
        let lost = consumer.assignment_lost();
        let await_reader = self.with_held(|held| {
            partitions.iter().for_each(|partition| {
                if let Some(Some(next)) = held.partitions.remove(partition) {
                    held.delivered_before.insert(*partition, next);
                }
                held.acked.remove(partition);
                held.since.remove(partition);
            });
            held.round += 1;
            held.not_started.retain(|one| !partitions.contains(one));
            held.release_pending =
                self.role == GroupRole::AssignedReader && !lost && !partitions.is_empty();
            held.release_pending
        });
        if lost && self.role == GroupRole::AssignedReader && !partitions.is_empty() {
            self.send_event(ConsumerEvent::Lost(partitions.clone()));
        }
        if await_reader {
            self.send_event(ConsumerEvent::Revoked(partitions.clone()));
            if !self.await_release() {
                self.send_event(ConsumerEvent::Lost(partitions));
            }
        }
        let unassigned = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(list),
            RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.unassign(),
        };
        if let Err(error) = unassigned {
            self.send_event(ConsumerEvent::Failed(must_restart("give partitions back", &error)));
        }
    }

    /// Waits until the reader has released the revoked partitions; false after `RELEASE_MAX`.
    fn await_release(&self) -> bool {
        let until = Instant::now() + RELEASE_MAX;
        let mut held = lock(&self.held);
        while held.release_pending && !held.closing {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                held.release_pending = false;
                return false;
            }
            let waited = self.released.wait_timeout(held, left);
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// The error of a consumer that can't go on although its group still counts on it: the process has
/// to restart to leave the group.
pub(super) fn must_restart(what: &str, error: &KafkaError) -> EngineError {
    EngineError::Invalid(format!("this reader could not {what}: {error}; restart the process"))
}

impl ClientContext for GroupContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.quiet.log(level, facility, message);
    }

    fn stats(&self, statistics: Statistics) {
        if lock(&self.missed).needs_rejoin(AnswerCounts::of(&statistics), Instant::now()) {
            self.rejoin.store(true, Ordering::Release);
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.quiet.error(error, reason);
    }
}

impl ConsumerContext for GroupContext {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        what: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        match what {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                self.on_assigned(consumer, list);
            }
            _ => self.on_revoked(consumer, list),
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        if let Err(error) = result {
            tracing::debug!(%error, "a group's offsets were not committed");
        }
    }
}
