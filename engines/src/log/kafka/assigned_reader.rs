//! Owns the assigned reader of a Kafka log: it reads the partitions that its group assigns, from
//! start positions that its caller names. Invariant: a revoked or lost partition delivers nothing
//! any more, not even messages that were polled before.

use std::collections::VecDeque;
use std::sync::Arc;

use payfold_schemas::position::Position;
use rdkafka::consumer::{CommitMode, Consumer};

use super::group::ConsumerEvent;
use super::lookup::Lookup;
use super::reader::ConsumerReader;
use crate::blocking::blocking;
use crate::log::epoch::partition_of;
use crate::log::{AssignedReader, Delivered, Extent, ReaderOutput, Rebalance, Topic};
use crate::{EngineError, SeamFuture};

/// A reader of the partitions that a group assigns to it.
pub(super) struct KafkaAssignedReader {
    pub(super) reader: ConsumerReader,
    pub(super) lookup: Arc<Lookup>,
    /// Messages that were polled and not returned yet.
    pub(super) unread: VecDeque<Delivered>,
    /// The rebalance round in which `unread` was polled.
    pub(super) round: u64,
    /// Kafka's numbers of the assigned partitions that the caller knows of and has not started.
    pub(super) assigned: Vec<i32>,
}

impl KafkaAssignedReader {
    async fn read_next(&mut self, limit: usize) -> Result<ReaderOutput, EngineError> {
        if limit == 0 {
            return Err(EngineError::Invalid("a batch needs a limit of at least 1".to_owned()));
        }
        while self.unread.is_empty() {
            match self.reader.next().await? {
                ConsumerEvent::Messages(round, messages) => {
                    self.round = round;
                    self.unread.extend(messages);
                }
                ConsumerEvent::Assigned(partitions) => {
                    self.assigned.extend(&partitions);
                    return Ok(ReaderOutput::Rebalance(Rebalance::Assigned(
                        self.log_numbers(&partitions),
                    )));
                }
                ConsumerEvent::Revoked(partitions) => {
                    self.assigned.retain(|one| !partitions.contains(one));
                    return Ok(ReaderOutput::Rebalance(Rebalance::Revoked(
                        self.log_numbers(&partitions),
                    )));
                }
                ConsumerEvent::Lost(partitions) => {
                    self.assigned.retain(|one| !partitions.contains(one));
                    return Ok(ReaderOutput::Rebalance(Rebalance::Lost(
                        self.log_numbers(&partitions),
                    )));
                }
                ConsumerEvent::Failed(error) => return Err(error),
            }
        }
        let count = limit.min(self.unread.len());
        let mut messages: Vec<_> = self.unread.drain(..count).collect();
        self.reader.shared.retain_held(self.round, &mut messages);
        if messages.is_empty() {
            // All of these partitions were revoked meanwhile; that event comes next.
            return Box::pin(self.read_next(limit)).await;
        }
        Ok(ReaderOutput::Messages(messages))
    }

    /// The log's numbers of Kafka's partitions.
    fn log_numbers(&self, partitions: &[i32]) -> Vec<u32> {
        partitions.iter().map(|one| partition_of(self.reader.shared.epoch, *one)).collect()
    }
}

/// Checks that a position is not past the partition's end. Errors: `Invalid`.
pub(super) fn check_end(
    topic: Topic,
    position: Position,
    extent: &Extent,
) -> Result<(), EngineError> {
    if position.offset <= extent.last {
        return Ok(());
    }
    let (name, end) = (topic.name(), extent.end());
    Err(EngineError::Invalid(format!("can't read after {position}: topic {name} ends at {end}")))
}

impl AssignedReader for KafkaAssignedReader {
    fn next(&mut self, limit: usize) -> SeamFuture<'_, ReaderOutput, EngineError> {
        Box::pin(self.read_next(limit))
    }

    fn start_after(&mut self, after: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        let (shared, lookup) = (Arc::clone(&self.reader.shared), Arc::clone(&self.lookup));
        let (topic, assigned) = (shared.topic, self.assigned.clone());
        Box::pin(async move {
            blocking(move || {
                let partitions: Vec<u32> = after.iter().map(|place| place.partition).collect();
                for (position, extent) in after.iter().zip(lookup.extents(topic, &partitions)?) {
                    check_end(topic, *position, &extent)?;
                }
                shared.start_partitions(&after, &assigned)
            })
            .await?;
            self.assigned.clear();
            Ok(())
        })
    }

    fn release_revoked(&mut self) -> SeamFuture<'_, (), EngineError> {
        self.reader.shared.consumer.context().release();
        Box::pin(std::future::ready(Ok(())))
    }

    /// Commits in the background, because no start position depends on the committed offsets.
    fn ack(&mut self, through: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        let acked = self.reader.shared.ack(&through, CommitMode::Async);
        Box::pin(std::future::ready(acked))
    }
}
