//! Owns a share: the partitions that fall to one reader of a group that keeps its place elsewhere.
//! Invariant: of a partition that was taken or lost nothing is delivered any more, not even what had been read.

use std::collections::VecDeque;
use std::sync::Arc;

use payfold_schemas::record::Position;
use rdkafka::consumer::{CommitMode, Consumer};

use super::group::News;
use super::lookup::Lookup;
use super::reader::Reader;
use crate::blocking::blocking;
use crate::log::epoch::partition_of;
use crate::log::{Delivered, Extent, Share, Topic, Turn};
use crate::{EngineError, SeamFuture};

/// The share of one reader.
pub(super) struct KafkaShare {
    pub(super) reader: Reader,
    pub(super) lookup: Arc<Lookup>,
    /// Read and not asked for yet.
    pub(super) left: VecDeque<Delivered>,
    /// The round they came in.
    pub(super) round: u64,
    /// Kafka's partitions that the reader was told it has, and has not begun.
    pub(super) given: Vec<i32>,
}

impl KafkaShare {
    async fn turn(&mut self, limit: usize) -> Result<Turn, EngineError> {
        if limit == 0 {
            return Err(EngineError::Invalid("a batch needs a limit of at least 1".to_owned()));
        }
        while self.left.is_empty() {
            match self.reader.next().await? {
                News::Messages(round, messages) => {
                    self.round = round;
                    self.left.extend(messages);
                }
                News::Given(partitions) => {
                    self.given.extend(&partitions);
                    return Ok(Turn::Given(self.ours(&partitions)));
                }
                News::Taken(partitions) => {
                    self.given.retain(|one| !partitions.contains(one));
                    return Ok(Turn::Taken(self.ours(&partitions)));
                }
                News::Lost(partitions) => {
                    self.given.retain(|one| !partitions.contains(one));
                    return Ok(Turn::Lost(self.ours(&partitions)));
                }
                News::Failed(error) => return Err(error),
            }
        }
        let count = limit.min(self.left.len());
        let mut messages: Vec<_> = self.left.drain(..count).collect();
        self.reader.shared.keep_held(self.round, &mut messages);
        if messages.is_empty() {
            // All of it went meanwhile: the news of that is next.
            return Box::pin(self.turn(limit)).await;
        }
        Ok(Turn::Messages(messages))
    }

    fn ours(&self, partitions: &[i32]) -> Vec<u32> {
        partitions.iter().map(|one| partition_of(self.reader.shared.epoch, *one)).collect()
    }
}

/// Whether a reader can stand after this position.
pub(super) fn check_end(
    topic: Topic,
    position: Position,
    extent: &Extent,
) -> Result<(), EngineError> {
    if position.offset <= extent.last {
        return Ok(());
    }
    let (name, end) = (topic.name(), extent.end());
    Err(EngineError::Invalid(format!("reading after {position}, but topic {name} ends at {end}")))
}

impl Share for KafkaShare {
    fn next(&mut self, limit: usize) -> SeamFuture<'_, Turn, EngineError> {
        Box::pin(self.turn(limit))
    }

    fn begin(&mut self, after: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        let (shared, lookup) = (Arc::clone(&self.reader.shared), Arc::clone(&self.lookup));
        let (topic, given) = (shared.topic, self.given.clone());
        Box::pin(async move {
            blocking(move || {
                let partitions: Vec<u32> = after.iter().map(|place| place.partition).collect();
                for (position, extent) in after.iter().zip(lookup.extents(topic, &partitions)?) {
                    check_end(topic, *position, &extent)?;
                }
                shared.begin(&after, &given)
            })
            .await?;
            self.given.clear();
            Ok(())
        })
    }

    fn release(&mut self) -> SeamFuture<'_, (), EngineError> {
        self.reader.shared.consumer.context().release();
        Box::pin(std::future::ready(Ok(())))
    }

    /// Told in the background: nobody's start depends on it.
    fn ack(&mut self, through: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        let acked = self.reader.shared.ack(&through, CommitMode::Async);
        Box::pin(std::future::ready(acked))
    }
}
