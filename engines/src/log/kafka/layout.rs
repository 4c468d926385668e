//! Owns how the log lies in Kafka: which topic and partition of the cluster a partition of the log is.
//!
//! A topic of the log is `PREFIX.intake`, `PREFIX.orders`, … The partition count of intake is fixed for life by its
//! markers, because a key's partition follows from it; to grow, a new topic of the next *epoch* is opened, `PREFIX.intake.e1`,
//! once the one before it is folded to its end. Invariant: a partition of the log is one partition of one Kafka
//! topic for ever: its number is `epoch << 16 | Kafka's number`, so positions of all epochs live side by side.

use payfold_schemas::record::Position;

use crate::EngineError;
use crate::log::Topic;
use crate::log::epoch::{EPOCHS, broker_number, epoch_of, partition_of};

/// A partition as Kafka knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    /// Kafka's topic.
    pub(super) topic: String,
    /// Kafka's partition.
    pub(super) partition: i32,
}

/// The topics of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    prefix: String,
    /// The epoch appends go to; those before it are only read.
    epoch: u32,
}

impl Layout {
    /// The topics behind a prefix, with intake in this epoch.
    pub fn new(prefix: &str, epoch: u32) -> Self {
        assert!(epoch < EPOCHS, "settings allow epochs below {EPOCHS}");
        Self { prefix: prefix.to_owned(), epoch }
    }

    /// The epoch appends go to.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The epochs a topic has: only intake has more than one.
    pub(super) fn epochs(&self, topic: Topic) -> std::ops::RangeInclusive<u32> {
        match topic {
            Topic::Intake => 0..=self.epoch,
            Topic::Orders | Topic::Findings | Topic::Quarantine => 0..=0,
        }
    }

    /// Kafka's name of a topic in an epoch.
    pub fn name(&self, topic: Topic, epoch: u32) -> String {
        match epoch {
            0 => format!("{}.{}", self.prefix, topic.name()),
            _ => format!("{}.{}.e{epoch}", self.prefix, topic.name()),
        }
    }

    /// Kafka's name of the topic that is appended to.
    pub fn current(&self, topic: Topic) -> String {
        self.name(topic, *self.epochs(topic).end())
    }

    /// Kafka's name of the compacted twin of `orders`. It is no topic of the log: nothing of ours reads it.
    pub fn latest(&self) -> String {
        format!("{}.latest", self.current(Topic::Orders))
    }

    /// Which partition of Kafka a partition of the log is. Errors: `Invalid` for an epoch that is not there.
    pub(super) fn place(&self, topic: Topic, partition: u32) -> Result<Place, EngineError> {
        let epoch = epoch_of(partition);
        if !self.epochs(topic).contains(&epoch) {
            return Err(EngineError::Invalid(format!(
                "partition {partition} of {} is of epoch {epoch}, and this log is in epoch {}",
                topic.name(),
                self.epoch
            )));
        }
        Ok(Place { topic: self.name(topic, epoch), partition: broker_number(partition) })
    }

    /// The position of a message Kafka has at `offset` of a topic's partition.
    pub(super) fn position(&self, epoch: u32, kafka: i32, offset: i64) -> Position {
        let offset = u64::try_from(offset).expect("stored messages have offsets from 0");
        Position { partition: partition_of(epoch, kafka), offset }
    }
}

/// An offset as Kafka writes it.
pub(super) fn kafka_offset(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_of_the_log_is_one_of_one_topic() {
        let layout = Layout::new("pay", 2);
        for (epoch, kafka, partition, topic) in [
            (0, 0, 0, "pay.intake"),
            (0, 7, 7, "pay.intake"),
            (1, 0, 65_536, "pay.intake.e1"),
            (2, 15, 131_087, "pay.intake.e2"),
        ] {
            assert_eq!(partition_of(epoch, kafka), partition);
            assert_eq!(epoch_of(partition), epoch);
            let place = Place { topic: topic.to_owned(), partition: kafka };
            assert_eq!(layout.place(Topic::Intake, partition), Ok(place));
        }
        assert_eq!(layout.current(Topic::Intake), "pay.intake.e2");
        assert_eq!(layout.current(Topic::Orders), "pay.orders");
        assert_eq!(layout.latest(), "pay.orders.latest");
        for (topic, partition) in [(Topic::Intake, 3 << 16), (Topic::Orders, 1 << 16)] {
            assert!(matches!(layout.place(topic, partition), Err(EngineError::Invalid(_))));
        }
    }
}
