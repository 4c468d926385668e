//! Owns how messages get into Kafka: the handle appenders hold, in front of the one thread that talks to the
//! client (`producer/pump.rs`).
//! Invariants: a message is told durable only after every in-sync replica has it; messages of one key are
//! handed to the client in the order of the calls; nobody waits longer than `delivery_timeout` and a little.

pub(super) mod client;
mod failed;
mod flight;
mod pump;
#[cfg(test)]
mod tests;
mod work;

use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use payfold_schemas::record::Position;
use tokio::sync::watch;

use self::client::Factory;
use self::pump::Pump;
use self::work::Work;
use super::context::StatisticsObserver;
use super::partitioner::PartitionCounts;
use super::settings::KafkaSettings;
use crate::log::queue::Queue;
use crate::log::sqlite::CommitObserver;
use crate::log::{Message, Topic, check_size};
use crate::{EngineError, SeamFuture, lock};

/// Who is told what the producer does.
#[derive(Clone, Default)]
pub struct Observers {
    /// Of the client's own statistics.
    pub statistics: Option<StatisticsObserver>,
    /// Of every round that made messages durable: how many, and how long the oldest took.
    pub commits: Option<CommitObserver>,
}

/// What the pump and the handle share.
struct Shared {
    queue: Queue<Work>,
    commits: Option<CommitObserver>,
    /// True once the pump is gone and everything it took in is settled.
    ended: watch::Sender<bool>,
}

/// The one producer of a log.
pub(super) struct Producer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("depth", &self.depth()).finish_non_exhaustive()
    }
}

impl Producer {
    /// Makes the client, which reaches for the brokers by itself, and starts the pump.
    /// Errors: `Invalid` for settings the client refuses.
    pub(super) fn start(
        settings: &KafkaSettings,
        counts: PartitionCounts,
        observers: Observers,
    ) -> Result<Self, EngineError> {
        let factory = Factory::new(settings, observers.statistics);
        let client = factory.make()?;
        let shared = Arc::new(Shared {
            queue: Queue::new(settings.queue_max),
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
            .and_then(|()| self.shared.queue.push_bounded(Work::One(topic, message)));
        match queued {
            Ok(waiter) => Box::pin(waiter),
            Err(error) => Box::pin(ready(Err(error))),
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
        let told = Arc::clone(&positions);
        let length = messages.len();
        let queued = check_size(&messages).and_then(|()| {
            self.shared.queue.push(Work::Many { topic, messages, positions }, length)
        });
        match queued {
            Ok(waiter) => Box::pin(async move {
                waiter.await?;
                Ok(std::mem::take(&mut *lock(&told)))
            }),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    /// Messages queued or in flight.
    pub(super) fn depth(&self) -> usize {
        self.shared.queue.depth()
    }

    /// Refuses new appends; returns when all that were taken in are settled, within the time-out of delivery.
    pub(super) async fn close(&self) {
        self.shared.queue.close();
        let mut ended = self.shared.ended.subscribe();
        // The sender lives in `shared`, so it can't be gone; if it were, the pump would be too.
        let _ = ended.wait_for(|ended| *ended).await;
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.queue.close();
        if let Some(thread) = lock(&self.thread).take() {
            // A pump that panicked has failed its waiters already.
            let _ = thread.join();
        }
    }
}
