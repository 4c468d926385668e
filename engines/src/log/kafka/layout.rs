//! Owns the mapping between partitions of the log and partitions of Kafka's topics.
//!
//! Kafka's topics are named `PREFIX.intake`, `PREFIX.orders`, … The partition count of intake never
//! changes, because a key's partition follows from it; the markers record it. To get more
//! partitions, the log continues in a new topic of the next *log epoch*, `PREFIX.intake.e1`, once
//! the last one is folded to its end. Invariant: a partition of the log is the same partition of
//! the same Kafka topic for ever. Its number is `log epoch << 16 | Kafka's number`, so positions of
//! different log epochs never collide.

use payfold_schemas::position::Position;

use crate::EngineError;
use crate::log::Topic;
use crate::log::epoch::{EPOCHS, broker_number, epoch_of, partition_of};

/// A partition of one of Kafka's topics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct KafkaPartition {
    /// The name of Kafka's topic.
    pub(super) topic: String,
    /// Kafka's number of the partition.
    pub(super) partition: i32,
}

/// The names and partition numbers of one log's topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    prefix: String,
    /// The log epoch that appends go to; earlier ones are read only.
    epoch: u32,
}

impl Layout {
    /// The layout of the topics with this prefix, with intake in this log epoch.
    pub fn new(prefix: &str, epoch: u32) -> Self {
        assert!(epoch < EPOCHS, "settings allow epochs below {EPOCHS}");
        Self { prefix: prefix.to_owned(), epoch }
    }

    /// The log epoch that appends go to.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The log epochs of a topic: only intake has more than one.
    pub(super) fn epochs(&self, topic: Topic) -> std::ops::RangeInclusive<u32> {
        match topic {
            Topic::Intake => 0..=self.epoch,
            Topic::Orders | Topic::Findings | Topic::Quarantine => 0..=0,
        }
    }

    /// The name of Kafka's topic for a topic in a log epoch.
    pub fn name(&self, topic: Topic, epoch: u32) -> String {
        match epoch {
            0 => format!("{}.{}", self.prefix, topic.name()),
            _ => format!("{}.{}.e{epoch}", self.prefix, topic.name()),
        }
    }

    /// The name of Kafka's topic that appends go to.
    pub fn current(&self, topic: Topic) -> String {
        self.name(topic, *self.epochs(topic).end())
    }

    /// The name of Kafka's topic for the compacted copy of `orders`. It is not part of the log, and
    /// payfold itself never reads it.
    pub fn latest(&self) -> String {
        format!("{}.latest", self.current(Topic::Orders))
    }

    /// Kafka's partition for a partition of the log. Errors: `Invalid` for a log epoch that the
    /// topic doesn't have.
    pub(super) fn kafka_partition(
        &self,
        topic: Topic,
        partition: u32,
    ) -> Result<KafkaPartition, EngineError> {
        let epoch = epoch_of(partition);
        if !self.epochs(topic).contains(&epoch) {
            return Err(EngineError::Invalid(format!(
                "partition {partition} of {} is of log epoch {epoch}, and this log is in log epoch \
                 {} (kafka.epoch)",
                topic.name(),
                self.epoch
            )));
        }
        Ok(KafkaPartition { topic: self.name(topic, epoch), partition: broker_number(partition) })
    }

    /// The position in the log of the message at `offset` of Kafka's partition.
    pub(super) fn position(&self, epoch: u32, kafka: i32, offset: i64) -> Position {
        let offset = u64::try_from(offset).expect("stored messages have offsets from 0");
        Position { partition: partition_of(epoch, kafka), offset }
    }
}

/// Converts an offset to Kafka's signed one.
pub(super) fn kafka_offset(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_of_the_log_is_one_partition_of_one_kafka_topic() {
        let layout = Layout::new("pay", 2);
        for (epoch, kafka, partition, topic) in [
            (0, 0, 0, "pay.intake"),
            (0, 7, 7, "pay.intake"),
            (1, 0, 65_536, "pay.intake.e1"),
            (2, 15, 131_087, "pay.intake.e2"),
        ] {
            assert_eq!(partition_of(epoch, kafka), partition);
            assert_eq!(epoch_of(partition), epoch);
            let place = KafkaPartition { topic: topic.to_owned(), partition: kafka };
            assert_eq!(layout.kafka_partition(Topic::Intake, partition), Ok(place));
        }
        assert_eq!(layout.current(Topic::Intake), "pay.intake.e2");
        assert_eq!(layout.current(Topic::Orders), "pay.orders");
        assert_eq!(layout.latest(), "pay.orders.latest");
        for (topic, partition) in [(Topic::Intake, 3 << 16), (Topic::Orders, 1 << 16)] {
            assert!(matches!(
                layout.kafka_partition(topic, partition),
                Err(EngineError::Invalid(_))
            ));
        }
    }
}
