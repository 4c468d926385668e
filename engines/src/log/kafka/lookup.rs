//! Owns look-ups outside the readers: the offsets that topics hold, and messages after a position.
//! Invariants: a look-up joins no group and commits nothing; each pooled consumer serves one
//! look-up at a time; every request and every read ends within `ANSWER_MAX`; the returned messages
//! have no gap.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use payfold_schemas::position::Position;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};

use super::group::QuietContext;
use super::layout::{KafkaPartition, Layout, kafka_offset};
use super::message_decoder::decode_message;
use super::settings::KafkaSettings;
use crate::log::epoch::epoch_of;
use crate::log::{Delivered, Extent, Topic};
use crate::{EngineError, lock};

/// How long one request, or reading the messages of one look-up, may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long one poll waits for a message.
const POLL: Duration = Duration::from_millis(100);
/// How many idle consumers are pooled. More are made while more look-ups run, and dropped after.
const IDLE_MAX: usize = 4;

/// Serves look-ups from a pool of consumers.
pub(super) struct Lookup {
    settings: KafkaSettings,
    layout: Layout,
    idle: Mutex<Vec<BaseConsumer<QuietContext>>>,
}

impl Lookup {
    pub(super) fn new(settings: &KafkaSettings) -> Self {
        let (settings, layout) = (settings.clone(), settings.layout());
        Self { settings, layout, idle: Mutex::default() }
    }

    /// Reads the offsets that these partitions of a topic hold. Blocks. Errors: `Unavailable`.
    pub(super) fn extents(
        &self,
        topic: Topic,
        partitions: &[u32],
    ) -> Result<Vec<Extent>, EngineError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        self.with_consumer(|consumer| {
            let first = self.offsets(consumer, topic, (partitions, Offset::Beginning))?;
            let next = self.offsets(consumer, topic, (partitions, Offset::End))?;
            Ok(partitions.iter().map(|one| extent(*one, first[one], next[one])).collect())
        })
    }

    /// Reads up to `limit` messages of one partition after a position. Blocks.
    pub(super) fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> Result<Vec<Delivered>, EngineError> {
        let place = self.layout.kafka_partition(topic, after.partition)?;
        let [extent] = self.extents(topic, &[after.partition])?[..] else {
            unreachable!("one partition has one extent")
        };
        let from = after.offset.saturating_add(1).max(extent.first);
        if from > extent.last || limit == 0 {
            return Ok(Vec::new());
        }
        self.with_consumer(|consumer| {
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

    /// Reads the messages from offset `from` to `last`, at most `limit`. A pooled consumer may
    /// still deliver messages it fetched for an earlier look-up, so only the next offset is
    /// accepted.
    fn collect(
        &self,
        consumer: &BaseConsumer<QuietContext>,
        (place, epoch): (&KafkaPartition, u32),
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
                        found.extend(decode_message(&self.layout, epoch, &message));
                        next += 1;
                    } else if is_of && offset > next {
                        strange = Some(offset);
                    }
                }
                Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => {
                    return Err(consumer.context().unavailable(&error));
                }
                // Other errors concern connections; if they last, the timeout below reports them.
                Some(Err(_)) | None => {}
            }
            if Instant::now() >= until {
                return Err(match strange {
                    Some(offset) => EngineError::Corrupt(format!(
                        "{}: the message at offset {next} of partition {} is missing, and {offset} \
                         follows: restore the topic from a mirror or backup",
                        place.topic, place.partition
                    )),
                    None => consumer.context().timed_out("a message"),
                });
            }
        }
        Ok(found)
    }

    /// Reads the first offset, or the one after the last, of each partition.
    fn offsets(
        &self,
        consumer: &BaseConsumer<QuietContext>,
        topic: Topic,
        (partitions, which): (&[u32], Offset),
    ) -> Result<HashMap<u32, u64>, EngineError> {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            let place = self.layout.kafka_partition(topic, *partition)?;
            list.add_partition_offset(&place.topic, place.partition, which)
                .map_err(|error| consumer.context().unavailable(&error))?;
        }
        // ListOffsets takes "beginning" and "end" as special timestamps, for all partitions in one
        // request.
        let answer = consumer
            .offsets_for_times(list, ANSWER_MAX)
            .map_err(|error| consumer.context().unavailable(&error))?;
        let mut offsets = HashMap::with_capacity(partitions.len());
        for partition in partitions {
            let place = self.layout.kafka_partition(topic, *partition)?;
            let found = answer.find_partition(&place.topic, place.partition);
            let offset = found.map(|found| found.error().map(|()| found.offset()));
            match offset {
                Some(Ok(Offset::Offset(offset))) => {
                    offsets.insert(*partition, u64::try_from(offset).unwrap_or(0));
                }
                Some(Err(error)) => return Err(consumer.context().unavailable(&error)),
                Some(Ok(_)) | None => return Err(consumer.context().timed_out("an offset")),
            }
        }
        Ok(offsets)
    }

    /// Runs a look-up on a consumer of the pool. After an error the consumer is dropped.
    fn with_consumer<T>(
        &self,
        read: impl FnOnce(&BaseConsumer<QuietContext>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let kept = lock(&self.idle).pop();
        let consumer = match kept {
            Some(consumer) => consumer,
            None => self.consumer()?,
        };
        let result = read(&consumer);
        if result.is_ok() {
            let mut idle = lock(&self.idle);
            if idle.len() < IDLE_MAX {
                idle.push(consumer);
            }
        }
        result
    }

    fn consumer(&self) -> Result<BaseConsumer<QuietContext>, EngineError> {
        let mut config = self.settings.consumer(&format!("{}.lookup", self.settings.prefix));
        config
            .set("fetch.message.max.bytes", "262144")
            .set("queued.max.messages.kbytes", "2048")
            .set("fetch.wait.max.ms", "10");
        config.create_with_context(QuietContext::default()).map_err(|error: KafkaError| {
            EngineError::Invalid(format!("can't make the Kafka client: {error}"))
        })
    }
}

/// The extent of a partition, from its first offset and the one after its last. The marker at
/// offset 0 doesn't count as a message.
fn extent(partition: u32, first: u64, next: u64) -> Extent {
    let empty = next <= 1;
    let (first, last) = if empty { (0, 0) } else { (first.max(1), next - 1) };
    Extent { partition, first, last, bytes: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_leaves_the_marker_out() {
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
