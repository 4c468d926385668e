//! Owns a subscription: messages in batches of at most what is asked for.

use std::collections::VecDeque;
use std::sync::Arc;

use payfold_schemas::record::Position;
use rdkafka::consumer::CommitMode;

use super::group::{News, Part};
use super::reader::Reader;
use crate::blocking::blocking;
use crate::log::{Delivered, Subscription};
use crate::{EngineError, SeamFuture};

/// A reader of a topic, alone or as a member of its group.
pub(super) struct KafkaSubscription {
    pub(super) reader: Reader,
    /// Read and not asked for yet.
    pub(super) left: VecDeque<Delivered>,
}

impl KafkaSubscription {
    async fn batch(&mut self, limit: usize) -> Result<Vec<Delivered>, EngineError> {
        if limit == 0 {
            return Err(EngineError::Invalid("a batch needs a limit of at least 1".to_owned()));
        }
        while self.left.is_empty() {
            match self.reader.next().await? {
                News::Messages(_, messages) => self.left.extend(messages),
                // Of what goes, what is left is delivered once more to whoever has it next.
                News::Given(_) | News::Taken(_) | News::Lost(_) | News::Failed(_) => {}
            }
        }
        let count = limit.min(self.left.len());
        Ok(self.left.drain(..count).collect())
    }
}

impl Subscription for KafkaSubscription {
    fn next_batch(&mut self, limit: usize) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        Box::pin(self.batch(limit))
    }

    fn ack(&mut self, through: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async move {
            if self.reader.shared.part == Part::Alone {
                return Err(EngineError::Invalid(
                    "who reads alone acknowledges nothing".to_owned(),
                ));
            }
            let shared = Arc::clone(&self.reader.shared);
            blocking(move || shared.ack(&through, CommitMode::Sync)).await
        })
    }
}
