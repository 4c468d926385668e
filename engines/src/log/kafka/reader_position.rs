//! Owns a reader's positions in its partitions: the start of each, and the offsets committed to the
//! group. Invariants: a partition starts after the named position or at its first message, never
//! where librdkafka would start by itself; a committed offset never goes back; nothing is committed
//! for partitions that are not held.

use std::sync::atomic::Ordering;
use std::time::Duration;

use payfold_schemas::position::Position;
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

use super::group::GroupRole;
use super::layout::kafka_offset;
use super::reader::{ConsumerShared, POLL};
use crate::EngineError;
use crate::log::epoch::{epoch_of, partition_of};

/// How long a request to the group or to a partition's leader may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

impl ConsumerShared {
    /// Starts the assigned partitions of a subscriber after the group's committed offsets.
    pub(super) fn start_subscriber(&self) {
        let context = self.consumer.context();
        let not_started = context.with_held(|held| held.not_started.clone());
        if self.role != GroupRole::Subscriber || not_started.is_empty() {
            return;
        }
        let started = self
            .committed_positions(&not_started)
            .and_then(|after| self.start_partitions(&after, &not_started));
        if let Err(error) = started {
            self.fail(error);
            std::thread::sleep(POLL);
        }
    }

    /// Reads the group's committed offsets of these partitions, by Kafka's numbers.
    fn committed_positions(&self, partitions: &[i32]) -> Result<Vec<Position>, EngineError> {
        let unavailable = |error: KafkaError| self.consumer.context().quiet().unavailable(&error);
        let name = self.layout.current(self.topic);
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(&name, *partition);
        }
        let answer = self.consumer.committed_offsets(list, ANSWER_MAX).map_err(unavailable)?;
        self.record_committed(&answer);
        let mut after = Vec::new();
        for element in answer.elements() {
            element.error().map_err(unavailable)?;
            if let Offset::Offset(next) = element.offset() {
                after.push(self.layout.position(
                    self.epoch,
                    element.partition(),
                    (next - 1).max(0),
                ));
            }
        }
        Ok(after)
    }

    /// Starts those of the `assigned` partitions that are not started: after these positions, or at
    /// the first message where none is named. Partitions that were assigned since stay paused, and
    /// revoked ones are left out. Blocks.
    pub(super) fn start_partitions(
        &self,
        after: &[Position],
        assigned: &[i32],
    ) -> Result<(), EngineError> {
        let context = self.consumer.context();
        let not_started: Vec<i32> = context.with_held(|held| {
            held.not_started.iter().copied().filter(|one| assigned.contains(one)).collect()
        });
        if not_started.is_empty() {
            return Ok(());
        }
        let name = self.layout.current(self.topic);
        let unavailable = |error: KafkaError| context.quiet().unavailable(&error);
        let (mut seeks, mut list) = (TopicPartitionList::new(), TopicPartitionList::new());
        for partition in &not_started {
            let ours = partition_of(self.epoch, *partition);
            let named = after.iter().find(|position| position.partition == ours);
            let offset = named.map(|position| kafka_offset(position.offset.saturating_add(1)));
            let place = offset.map_or(Offset::Beginning, Offset::Offset);
            seeks.add_partition_offset(&name, *partition, place).map_err(unavailable)?;
            list.add_partition(&name, *partition);
            context.with_held(|held| {
                if let Some(next) = held.partitions.get_mut(partition) {
                    *next = offset;
                }
            });
        }
        let sought = self.consumer.seek_partitions(seeks, ANSWER_MAX).map_err(unavailable)?;
        for element in sought.elements() {
            element.error().map_err(unavailable)?;
        }
        context.with_held(|held| held.not_started.retain(|one| !not_started.contains(one)));
        self.consumer.resume(&list).map_err(unavailable)?;
        self.started.store(true, Ordering::Release);
        Ok(())
    }

    /// Commits to the group that everything up to these positions is done; partitions that are not
    /// held are left out. Errors: `Invalid` for a position that was not delivered.
    pub(super) fn ack(&self, through: &[Position], mode: CommitMode) -> Result<(), EngineError> {
        let name = self.layout.current(self.topic);
        let unavailable = |error: KafkaError| self.consumer.context().quiet().unavailable(&error);
        let mut list = TopicPartitionList::new();
        for position in through {
            let place = self.layout.kafka_partition(self.topic, position.partition)?;
            let next = kafka_offset(position.offset.saturating_add(1));
            let (held, acked, delivered_before) = self.consumer.context().with_held(|held| {
                let acked = held.acked.get(&place.partition).copied().unwrap_or(0);
                let before = held.delivered_before.get(&place.partition).copied().unwrap_or(0);
                (held.partitions.get(&place.partition).copied(), acked, before)
            });
            match held {
                Some(_) if place.topic == name && next <= acked => {}
                Some(Some(delivered)) if place.topic == name && next <= delivered => {
                    list.add_partition_offset(&name, place.partition, Offset::Offset(next))
                        .map_err(unavailable)?;
                }
                // Delivered before the partition was revoked and assigned again. It is delivered
                // once more, so this ack is too early to be committed.
                Some(_) if place.topic == name && next <= delivered_before => {}
                Some(_) if place.topic == name => {
                    return Err(EngineError::Invalid(format!(
                        "can't ack {position}: it was not delivered"
                    )));
                }
                _ => {}
            }
        }
        if list.count() == 0 {
            return Ok(());
        }
        self.consumer.commit(&list, mode).map_err(unavailable)?;
        self.record_committed(&list);
        Ok(())
    }

    /// Records that these offsets are committed to the group.
    fn record_committed(&self, list: &TopicPartitionList) {
        self.consumer.context().with_held(|held| {
            for element in list.elements() {
                if let Offset::Offset(next) = element.offset() {
                    held.acked.insert(element.partition(), next);
                }
            }
        });
    }

    /// Assigns these partitions to a consumer outside any group, each after its position. Blocks.
    pub(super) fn assign(&self, after: &[Position]) -> Result<(), EngineError> {
        let unavailable = |error: KafkaError| self.consumer.context().quiet().unavailable(&error);
        let mut list = TopicPartitionList::new();
        for position in after {
            let place = self.layout.kafka_partition(self.topic, position.partition)?;
            let next = kafka_offset(position.offset.saturating_add(1));
            let offset =
                if position.offset == 0 { Offset::Beginning } else { Offset::Offset(next) };
            list.add_partition_offset(&place.topic, place.partition, offset)
                .map_err(unavailable)?;
            let key = self.held_key(epoch_of(position.partition), place.partition);
            let expected = (position.offset != 0).then_some(next);
            self.consumer.context().with_held(|held| held.partitions.insert(key, expected));
        }
        self.consumer.assign(&list).map_err(unavailable)
    }
}
