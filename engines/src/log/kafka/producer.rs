//! Owns appending to Kafka: the handle that appenders use, in front of the one thread that talks to
//! librdkafka (`producer/pump.rs`). Invariants: an append is answered with a position only after
//! every in-sync replica has the message; messages with the same key go to librdkafka in the order
//! of the calls; every append is answered within `delivery_timeout` and half a second.

pub(super) mod client;
mod delivery_error;
mod in_flight;
mod pump;
mod shared;
#[cfg(test)]
mod tests;
mod work;

use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use payfold_schemas::position::Position;
use tokio::sync::watch;

use self::client::ClientFactory;
use self::pump::Pump;
use self::shared::ProducerShared;
use self::work::ProducerWork;
use super::context::StatisticsObserver;
use super::partitioner::PartitionCounts;
use super::settings::KafkaSettings;
use crate::log::queue::AppendQueue;
use crate::log::sqlite::CommitObserver;
use crate::log::{Message, Topic, check_size};
use crate::{EngineError, SeamFuture, failed, lock};

/// Callbacks of a producer.
#[derive(Clone, Default)]
pub struct Observers {
    /// Called with librdkafka's statistics.
    pub statistics: Option<StatisticsObserver>,
    /// Called after every round that made messages durable, with their number and the time that the
    /// oldest one took.
    pub commits: Option<CommitObserver>,
}

/// The one producer of a log.
pub(super) struct Producer {
    shared: Arc<ProducerShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("depth", &self.depth()).finish_non_exhaustive()
    }
}

impl Producer {
    /// Makes the client, which connects to the brokers in the background, and starts the pump.
    /// Errors: `Invalid` for settings that librdkafka refuses.
    pub(super) fn start(
        settings: &KafkaSettings,
        counts: PartitionCounts,
        observers: Observers,
    ) -> Result<Self, EngineError> {
        let factory = ClientFactory::new(settings, observers.statistics);
        let client = factory.make_client()?;
        let shared = Arc::new(ProducerShared {
            queue: AppendQueue::new(settings.queue_max),
            commits: observers.commits,
            ended: watch::Sender::new(false),
        });
        let pump = Pump::new(Arc::clone(&shared), settings, counts, factory, client);
        let thread = std::thread::Builder::new()
            .name("payfold-log".to_owned())
            .spawn(move || pump.run())
            .map_err(|error| {
                EngineError::Unavailable(format!("can't start the log's producer: {error}"))
            })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Appends one message; see `EventLog::append`.
    pub(super) fn append(
        &self,
        topic: Topic,
        message: Message,
    ) -> SeamFuture<'static, Position, EngineError> {
        let queued = check_size(std::slice::from_ref(&message))
            .and_then(|()| self.shared.queue.push_bounded(ProducerWork::One(topic, message)));
        match queued {
            Ok(waiter) => Box::pin(waiter),
            Err(error) => failed(error),
        }
    }

    /// Appends messages in order; see `EventLog::append_all`.
    pub(super) fn append_all(
        &self,
        topic: Topic,
        messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError> {
        if messages.is_empty() {
            return Box::pin(ready(Ok(Vec::new())));
        }
        let positions = Arc::new(Mutex::new(Vec::new()));
        let result = Arc::clone(&positions);
        let length = messages.len();
        let queued = check_size(&messages).and_then(|()| {
            self.shared.queue.push(ProducerWork::Many { topic, messages, positions }, length)
        });
        match queued {
            Ok(waiter) => Box::pin(async move {
                waiter.await?;
                Ok(std::mem::take(&mut *lock(&result)))
            }),
            Err(error) => failed(error),
        }
    }

    /// Messages queued or in flight.
    pub(super) fn depth(&self) -> usize {
        self.shared.queue.depth()
    }

    /// Refuses new appends; returns when every accepted append has its outcome, within the delivery
    /// timeout.
    pub(super) async fn close(&self) {
        self.shared.queue.close();
        let mut ended = self.shared.ended.subscribe();
        // The sender is in `shared`, so it exists as long as this producer.
        let _ = ended.wait_for(|ended| *ended).await;
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.queue.close();
        if let Some(thread) = lock(&self.thread).take() {
            // The end guard of a pump that panicked has failed its waiters already.
            let _ = thread.join();
        }
    }
}
