//! Owns the subscription to a Kafka log.

use std::collections::VecDeque;
use std::sync::Arc;

use payfold_schemas::position::Position;
use rdkafka::consumer::CommitMode;

use super::group::{ConsumerEvent, GroupRole};
use super::reader::ConsumerReader;
use crate::blocking::blocking;
use crate::log::{Delivered, Subscription};
use crate::{EngineError, SeamFuture};

/// A reader of a topic, outside any group or as a subscriber of one.
pub(super) struct KafkaSubscription {
    pub(super) reader: ConsumerReader,
    /// Messages that were polled and not returned yet.
    pub(super) unread: VecDeque<Delivered>,
}

impl KafkaSubscription {
    async fn batch(&mut self, limit: usize) -> Result<Vec<Delivered>, EngineError> {
        if limit == 0 {
            return Err(EngineError::Invalid("a batch needs a limit of at least 1".to_owned()));
        }
        while self.unread.is_empty() {
            match self.reader.next().await? {
                ConsumerEvent::Messages(_, messages) => self.unread.extend(messages),
                // Unread messages of a revoked partition are delivered again by its next reader.
                ConsumerEvent::Assigned(_)
                | ConsumerEvent::Revoked(_)
                | ConsumerEvent::Lost(_)
                | ConsumerEvent::Failed(_) => {}
            }
        }
        let count = limit.min(self.unread.len());
        Ok(self.unread.drain(..count).collect())
    }
}

impl Subscription for KafkaSubscription {
    fn next_batch(&mut self, limit: usize) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        Box::pin(self.batch(limit))
    }

    fn ack(&mut self, through: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async move {
            if self.reader.shared.role == GroupRole::Standalone {
                return Err(EngineError::Invalid(
                    "a subscription outside a group can't ack".to_owned(),
                ));
            }
            let shared = Arc::clone(&self.reader.shared);
            blocking(move || shared.ack(&through, CommitMode::Sync)).await
        })
    }
}
