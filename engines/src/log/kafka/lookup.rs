//! Owns the looking up beside the readers: how far topics reach, and messages at a position.
//! Invariants: nothing here joins a group or commits; a few consumers are kept and lent to one look-up at a time;
//! every look-up ends within `ANSWER_MAX`; of what is read nothing is missing in the middle.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use payfold_schemas::record::Position;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};

use super::delivered::delivered;
use super::group::Quiet;
use super::layout::{Layout, Place, kafka_offset};
use super::settings::KafkaSettings;
use crate::log::epoch::epoch_of;
use crate::log::{Delivered, Extent, Topic};
use crate::{EngineError, lock};

/// How long a look-up may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Between two looks whether the consumer has something.
const POLL: Duration = Duration::from_millis(100);
/// Consumers kept; more are made while more look-ups are under way, and dropped after.
const IDLE_MAX: usize = 4;

/// Looks things up in a log.
pub(super) struct Lookup {
    settings: KafkaSettings,
    layout: Layout,
    idle: Mutex<Vec<BaseConsumer<Quiet>>>,
}

impl Lookup {
    pub(super) fn new(settings: &KafkaSettings) -> Self {
        let (settings, layout) = (settings.clone(), settings.layout());
        Self { settings, layout, idle: Mutex::default() }
    }

    /// How far these partitions of a topic reach. Blocks. Errors: `Unavailable`.
    pub(super) fn extents(
        &self,
        topic: Topic,
        partitions: &[u32],
    ) -> Result<Vec<Extent>, EngineError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        self.with(|consumer| {
            let first = self.offsets(consumer, topic, (partitions, Offset::Beginning))?;
            let next = self.offsets(consumer, topic, (partitions, Offset::End))?;
            Ok(partitions.iter().map(|one| extent(*one, first[one], next[one])).collect())
        })
    }

    /// Up to `limit` messages of one partition after a position. Blocks.
    pub(super) fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Delivered>, EngineError> {
        let place = self.layout.place(topic, after.partition)?;
        let [extent] = self.extents(topic, &[after.partition])?[..] else {
            unreachable!("one partition has one extent")
        };
        let from = after.offset.saturating_add(1).max(extent.first);
        if from > extent.last || limit == 0 {
            return Ok(Vec::new());
        }
        self.with(|consumer| {
            let mut list = TopicPartitionList::new();
            let offset = Offset::Offset(kafka_offset(from));
            list.add_partition_offset(&place.topic, place.partition, offset)
                .and_then(|()| consumer.assign(&list))
                .map_err(|error| consumer.context().unavailable(&error))?;
            let epoch = epoch_of(after.partition);
            let read = self.collect(consumer, (&place, epoch), (from, extent.last), limit);
            consumer.unassign().map_err(|error| consumer.context().unavailable(&error))?;
            read
        })
    }

    /// The messages from `from` on, until `limit` or the one at `last`. A kept consumer may still deliver what was
    /// fetched for the look-up before: only what comes next is taken.
    fn collect(
        &self,
        consumer: &BaseConsumer<Quiet>,
        (place, epoch): (&Place, u32),
        (from, last): (u64, u64),
        limit: usize,
    ) -> Result<Vec<Delivered>, EngineError> {
        let until = Instant::now() + ANSWER_MAX;
        let (mut next, mut found, mut strange) = (from, Vec::new(), None);
        while found.len() < limit && next <= last {
            match consumer.poll(POLL) {
                Some(Ok(message)) => {
                    let offset = u64::try_from(message.offset()).unwrap_or(0);
                    let is_of =
                        message.partition() == place.partition && message.topic() == place.topic;
                    if is_of && offset == next {
                        found.extend(delivered(&self.layout, epoch, &message)?);
                        next += 1;
                    } else if is_of && offset > next {
                        strange = Some(offset);
                    }
                }
                Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => {
                    return Err(consumer.context().unavailable(&error));
                }
                // What it says besides is about connections, and the time-out tells.
                Some(Err(_)) | None => {}
            }
            if Instant::now() >= until {
                return Err(match strange {
                    Some(offset) => EngineError::Corrupt(format!(
                        "{} has no message at offset {next} of partition {}, but one at {offset}",
                        place.topic, place.partition
                    )),
                    None => consumer.context().late("a message"),
                });
            }
        }
        Ok(found)
    }

    /// The first offset, or the one after the last, of each partition.
    fn offsets(
        &self,
        consumer: &BaseConsumer<Quiet>,
        topic: Topic,
        (partitions, which): (&[u32], Offset),
    ) -> Result<HashMap<u32, u64>, EngineError> {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            let place = self.layout.place(topic, *partition)?;
            list.add_partition_offset(&place.topic, place.partition, which)
                .map_err(|error| consumer.context().unavailable(&error))?;
        }
        // The question "which offset has this time" takes the two ends as times, for all partitions at once.
        let answer = consumer
            .offsets_for_times(list, ANSWER_MAX)
            .map_err(|error| consumer.context().unavailable(&error))?;
        let mut offsets = HashMap::with_capacity(partitions.len());
        for partition in partitions {
            let place = self.layout.place(topic, *partition)?;
            let found = answer.find_partition(&place.topic, place.partition);
            let offset = found.map(|found| found.error().map(|()| found.offset()));
            match offset {
                Some(Ok(Offset::Offset(offset))) => {
                    offsets.insert(*partition, u64::try_from(offset).unwrap_or(0));
                }
                Some(Err(error)) => return Err(consumer.context().unavailable(&error)),
                Some(Ok(_)) | None => return Err(consumer.context().late("an offset")),
            }
        }
        Ok(offsets)
    }

    /// Lends a consumer to a look-up; one that failed is not kept.
    fn with<T>(
        &self,
        look: impl FnOnce(&BaseConsumer<Quiet>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let kept = lock(&self.idle).pop();
        let consumer = match kept {
            Some(consumer) => consumer,
            None => self.consumer()?,
        };
        let result = look(&consumer);
        if result.is_ok() {
            let mut idle = lock(&self.idle);
            if idle.len() < IDLE_MAX {
                idle.push(consumer);
            }
        }
        result
    }

    fn consumer(&self) -> Result<BaseConsumer<Quiet>, EngineError> {
        let mut config = self.settings.consumer(&format!("{}.lookup", self.settings.prefix));
        config
            .set("fetch.message.max.bytes", "262144")
            .set("queued.max.messages.kbytes", "2048")
            .set("fetch.wait.max.ms", "10");
        config.create_with_context(Quiet::default()).map_err(|error: KafkaError| {
            EngineError::Invalid(format!("the Kafka client can't be made: {error}"))
        })
    }
}

/// What a partition reaches, from its first offset and the one after its last. The marker is no message.
fn extent(partition: u32, first: u64, next: u64) -> Extent {
    let empty = next <= 1;
    let (first, last) = if empty { (0, 0) } else { (first.max(1), next - 1) };
    Extent { partition, first, last, bytes: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_no_message() {
        for (first, next, expected) in [
            (0, 0, (0, 0)),
            (0, 1, (0, 0)),
            (0, 2, (1, 1)),
            (0, 9, (1, 8)),
            (5, 9, (5, 8)),
            (9, 9, (9, 8)),
        ] {
            let extent = extent(3, first, next);
            assert_eq!((extent.first, extent.last), expected, "{first} {next}");
        }
    }
}
