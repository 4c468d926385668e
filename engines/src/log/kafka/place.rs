//! Owns where a reader stands in its partitions: where each begins, and what the group is told is done.
//! Invariants: a partition begins where it was told, or at its first message, never where the client would go by
//! itself; what the group was told is done never goes back; nothing is told of partitions that are not held.

use std::sync::atomic::Ordering;
use std::time::Duration;

use payfold_schemas::record::Position;
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

use super::group::Part;
use super::layout::kafka_offset;
use super::reader::{POLL, Shared};
use crate::EngineError;
use crate::log::epoch::{epoch_of, partition_of};

/// How long a request to the group or to a partition's leader may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

impl Shared {
    /// Members begin by themselves, after what the group acknowledged.
    pub(super) fn begin_members(&self) {
        let context = self.consumer.context();
        let standing = context.held(|held| held.standing.clone());
        if self.part != Part::Member || standing.is_empty() {
            return;
        }
        let begun = self.acknowledged(&standing).and_then(|after| self.begin(&after, &standing));
        if let Err(error) = begun {
            self.fail(error);
            std::thread::sleep(POLL);
        }
    }

    /// What the group acknowledged of these partitions of Kafka.
    fn acknowledged(&self, partitions: &[i32]) -> Result<Vec<Position>, EngineError> {
        let unavailable = |error: KafkaError| self.consumer.context().quiet().unavailable(&error);
        let name = self.layout.current(self.topic);
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(&name, *partition);
        }
        let answer = self.consumer.committed_offsets(list, ANSWER_MAX).map_err(unavailable)?;
        self.remember(&answer);
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

    /// Lets what stands of these partitions begin: after these positions, where none is named at the first message.
    /// What came meanwhile stands on; what went meanwhile is left out. Blocks.
    pub(super) fn begin(&self, after: &[Position], given: &[i32]) -> Result<(), EngineError> {
        let context = self.consumer.context();
        let standing: Vec<i32> = context
            .held(|held| held.standing.iter().copied().filter(|one| given.contains(one)).collect());
        if standing.is_empty() {
            return Ok(());
        }
        let name = self.layout.current(self.topic);
        let unavailable = |error: KafkaError| context.quiet().unavailable(&error);
        let (mut seeks, mut list) = (TopicPartitionList::new(), TopicPartitionList::new());
        for partition in &standing {
            let ours = partition_of(self.epoch, *partition);
            let named = after.iter().find(|position| position.partition == ours);
            let offset = named.map(|position| kafka_offset(position.offset.saturating_add(1)));
            let place = offset.map_or(Offset::Beginning, Offset::Offset);
            seeks.add_partition_offset(&name, *partition, place).map_err(unavailable)?;
            list.add_partition(&name, *partition);
            context.held(|held| {
                if let Some(next) = held.partitions.get_mut(partition) {
                    *next = offset;
                }
            });
        }
        let sought = self.consumer.seek_partitions(seeks, ANSWER_MAX).map_err(unavailable)?;
        for element in sought.elements() {
            element.error().map_err(unavailable)?;
        }
        context.held(|held| held.standing.retain(|one| !standing.contains(one)));
        self.consumer.resume(&list).map_err(unavailable)?;
        self.begun.store(true, Ordering::Release);
        Ok(())
    }

    /// Remembers for the group that everything up to these positions is done; what is not held is left out.
    pub(super) fn ack(&self, through: &[Position], mode: CommitMode) -> Result<(), EngineError> {
        let name = self.layout.current(self.topic);
        let unavailable = |error: KafkaError| self.consumer.context().quiet().unavailable(&error);
        let mut list = TopicPartitionList::new();
        for position in through {
            let place = self.layout.place(self.topic, position.partition)?;
            let next = kafka_offset(position.offset.saturating_add(1));
            let (held, known) = self.consumer.context().held(|held| {
                let acked = held.acked.get(&place.partition).copied().unwrap_or(0);
                // What was delivered before the partition went and came again is delivered once more.
                let before = held.before.get(&place.partition).copied().unwrap_or(0);
                (held.partitions.get(&place.partition).copied(), (acked, before))
            });
            match held {
                Some(_) if place.topic == name && next <= known.0 => {}
                Some(Some(delivered)) if place.topic == name && next <= delivered => {
                    list.add_partition_offset(&name, place.partition, Offset::Offset(next))
                        .map_err(unavailable)?;
                }
                Some(_) if place.topic == name && next <= known.1 => {}
                Some(_) if place.topic == name => {
                    return Err(EngineError::Invalid(format!(
                        "ack of {position}, which was not delivered"
                    )));
                }
                _ => {}
            }
        }
        if list.count() == 0 {
            return Ok(());
        }
        self.consumer.commit(&list, mode).map_err(unavailable)?;
        self.remember(&list);
        Ok(())
    }

    /// These offsets are the group's.
    fn remember(&self, list: &TopicPartitionList) {
        self.consumer.context().held(|held| {
            for element in list.elements() {
                if let Offset::Offset(next) = element.offset() {
                    held.acked.insert(element.partition(), next);
                }
            }
        });
    }

    /// Starts to read alone, every partition named, each after its position. Blocks.
    pub(super) fn assign(&self, after: &[Position]) -> Result<(), EngineError> {
        let unavailable = |error: KafkaError| self.consumer.context().quiet().unavailable(&error);
        let mut list = TopicPartitionList::new();
        for position in after {
            let place = self.layout.place(self.topic, position.partition)?;
            let next = kafka_offset(position.offset.saturating_add(1));
            let offset =
                if position.offset == 0 { Offset::Beginning } else { Offset::Offset(next) };
            list.add_partition_offset(&place.topic, place.partition, offset)
                .map_err(unavailable)?;
            let key = self.held_key(epoch_of(position.partition), place.partition);
            let expected = (position.offset != 0).then_some(next);
            self.consumer.context().held(|held| held.partitions.insert(key, expected));
        }
        self.consumer.assign(&list).map_err(unavailable)
    }
}
