//! Owns writing the compacted copy of `orders`, the topic `orders.latest`. Each transaction writes
//! messages together with the position in `orders` up to which they were read. The caller decides
//! which messages to copy. Invariants: only the writer that opened a partition last can write to it
//! (fencing by `transactional.id`), and it starts after everything that earlier writers committed;
//! a client is not used again after a failure, so none of its messages can get into a later
//! transaction; a transaction is stored completely or not at all.

#[cfg(test)]
mod tests;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::producer::Producer as _;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::oneshot;

use super::group::QuietContext;
use super::layout::kafka_offset;
use super::producer::client::{ClientFactory, OutgoingMessage, ProducerClient, stored_event};
use super::settings::KafkaSettings;
use super::topics;
use crate::EngineError;
use crate::log::epoch::broker_number;
use crate::log::{Delivered, Topic};

/// How long one request may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long aborting a transaction may take. It is short, because readers of committed messages
/// wait for the transaction's end.
const ABORT_MAX: Duration = Duration::from_secs(2);
/// How long the brokers keep the transaction of a silent writer open.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// How far a partition of `orders` is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPlace {
    /// The offset in `orders` that is copied next.
    pub next: u64,
    /// The caller's text, stored with the offset.
    pub note: String,
}

/// What one transaction writes.
pub struct CopyBatch {
    /// The messages.
    pub messages: Vec<Delivered>,
    /// The position in `orders` after these messages.
    pub place: CopyPlace,
}

/// The compacted copy of one log's `orders`. A consumer group stores the position of each
/// partition.
pub struct CompactedCopy {
    consumer: BaseConsumer<QuietContext>,
    settings: KafkaSettings,
}

impl CompactedCopy {
    /// The group that assigns the partitions of `orders` to the writers of the copy.
    pub const GROUP: &str = "latest";

    /// Opens the copy. Errors: `Invalid` if the topic is missing or has wrong settings, or if
    /// librdkafka refuses its settings; `Unavailable`.
    pub async fn open(settings: &KafkaSettings) -> Result<Self, EngineError> {
        topics::check_compacted_topic(settings).await?;
        let mut config = settings.consumer(&format!("{}.{}", settings.prefix, Self::GROUP));
        // Positions of open transactions must not be read.
        config.set("isolation.level", "read_committed");
        let consumer = config.create_with_context(QuietContext::default());
        let consumer = consumer.map_err(|error: KafkaError| {
            EngineError::Invalid(format!("can't make the Kafka client: {error}"))
        })?;
        Ok(Self { consumer, settings: settings.clone() })
    }

    /// Reads how far a partition is copied; `None` if the topic's partition holds nothing, also
    /// after the topic was deleted and made again. Blocks.
    fn read_place(&self, partition: i32) -> Result<Option<CopyPlace>, EngineError> {
        let unavailable = |error: KafkaError| self.consumer.context().unavailable(&error);
        let layout = self.settings.layout();
        let mut list = TopicPartitionList::new();
        list.add_partition(&layout.current(Topic::Orders), partition);
        let answer = self.consumer.committed_offsets(list, ANSWER_MAX).map_err(unavailable)?;
        let [element] = &answer.elements()[..] else {
            return Err(self.consumer.context().timed_out("a place"));
        };
        element.error().map_err(unavailable)?;
        let Offset::Offset(next) = element.offset() else { return Ok(None) };
        let (_, end) = self
            .consumer
            .fetch_watermarks(&layout.latest(), partition, ANSWER_MAX)
            .map_err(unavailable)?;
        let next = u64::try_from(next).unwrap_or(0);
        let note = element.metadata().to_owned();
        Ok((end > 0).then_some(CopyPlace { next, note }))
    }
}

/// A batch for the writer's thread, and the channel for its answer.
struct CopyJob {
    batch: CopyBatch,
    done: oneshot::Sender<Result<(), EngineError>>,
}

/// The writer of one partition: a client, and a thread for its blocking calls. Dropping it does not
/// wait for the thread.
pub struct CopyWriter {
    jobs: mpsc::Sender<CopyJob>,
}

impl CopyWriter {
    /// Fences every earlier writer of this partition, then returns how far the partition is copied.
    /// Errors: `Unavailable`, `Invalid`.
    pub async fn open(
        copy: &Arc<CompactedCopy>,
        partition: u32,
    ) -> Result<(Self, Option<CopyPlace>), EngineError> {
        let (jobs, batches) = mpsc::channel::<CopyJob>();
        let (opened, answer) = oneshot::channel();
        let copy = Arc::clone(copy);
        let work = move || match TransactionalWriter::open(copy, broker_number(partition)) {
            Err(error) => drop(opened.send(Err(error))),
            Ok((transactions, place)) => {
                // If the caller is gone, its end of the job channel is, too, and `serve` returns.
                let _ = opened.send(Ok(place));
                transactions.serve(&batches);
            }
        };
        std::thread::Builder::new().name("payfold-latest".to_owned()).spawn(work).map_err(
            |error| EngineError::Unavailable(format!("can't start a writer's thread: {error}")),
        )?;
        let place = answer.await.map_err(|_| gone())??;
        Ok((Self { jobs }, place))
    }

    /// Writes a batch in one transaction. After an error the batch may be written or not, and this
    /// writer can't be used again.
    pub async fn put(&self, batch: CopyBatch) -> Result<(), EngineError> {
        let (done, answer) = oneshot::channel();
        self.jobs.send(CopyJob { batch, done }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn gone() -> EngineError {
    EngineError::Unavailable("the writer's thread has ended".to_owned())
}

/// The transactional client of one partition, used by one writer's thread.
struct TransactionalWriter {
    copy: Arc<CompactedCopy>,
    client: ProducerClient,
    partition: i32,
}

impl TransactionalWriter {
    fn open(
        copy: Arc<CompactedCopy>,
        partition: i32,
    ) -> Result<(Self, Option<CopyPlace>), EngineError> {
        let settings = &copy.settings;
        let name = format!("{}.latest.{partition}", settings.prefix);
        let silence = SILENCE_MAX.max(settings.delivery_timeout + Duration::from_secs(1));
        let client = ClientFactory::in_transactions(settings, (&name, silence)).make_client()?;
        let transactions = Self { copy, client, partition };
        let begun = transactions.client.transactions().init_transactions(ANSWER_MAX);
        begun.map_err(|error| transactions.unavailable("open", &error))?;
        let place = transactions.copy.read_place(partition)?;
        Ok((transactions, place))
    }

    /// Writes batches until the channel is closed, or until one fails.
    fn serve(self, batches: &mpsc::Receiver<CopyJob>) {
        while let Ok(CopyJob { batch, done }) = batches.recv() {
            let written = self.write(&batch);
            let failed = written.is_err();
            // The caller may have stopped waiting.
            let _ = done.send(written);
            if failed {
                return;
            }
        }
    }

    fn write(&self, batch: &CopyBatch) -> Result<(), EngineError> {
        let transactions = self.client.transactions();
        let written = self.write_all(batch);
        // The outcomes are ignored, because a transaction with a failed message is not committed.
        self.client.collect_outcomes(&mut Vec::new());
        written.map_err(|error| {
            let error = self.unavailable("write", &error);
            if self.client.fatal_error().is_none() {
                // A transaction that can't be aborted here ends by the brokers' timeout, or when
                // the partition is opened again.
                let _ = transactions.abort_transaction(ABORT_MAX);
            }
            error
        })
    }

    fn write_all(&self, CopyBatch { messages, place }: &CopyBatch) -> Result<(), KafkaError> {
        let layout = self.copy.settings.layout();
        let (name, transactions) = (layout.latest(), self.client.transactions());
        transactions.begin_transaction()?;
        for (number, message) in messages.iter().enumerate() {
            let outgoing = OutgoingMessage {
                topic: &name,
                partition: self.partition,
                key: Some(&message.key),
                headers: message.event.as_ref().map(stored_event),
                value: &message.value,
            };
            self.client.send(outgoing, number).map_err(KafkaError::MessageProduction)?;
        }
        let mut list = TopicPartitionList::new();
        let mut element = list.add_partition(&layout.current(Topic::Orders), self.partition);
        element.set_offset(Offset::Offset(kafka_offset(place.next)))?;
        element.set_metadata(&place.note);
        let member = self.copy.consumer.group_metadata().ok_or(KafkaError::Canceled)?;
        transactions.send_offsets_to_transaction(&list, &member, ANSWER_MAX)?;
        transactions.commit_transaction(ANSWER_MAX)
    }

    fn unavailable(&self, what: &str, error: &KafkaError) -> EngineError {
        self.client.collect_outcomes(&mut Vec::new());
        let (error, word) = (error.to_string(), self.client.last_error());
        let reason = word.filter(|word| !error.contains(word.as_str()));
        let reason = reason.map(|word| format!(" ({word})")).unwrap_or_default();
        let partition = self.partition;
        EngineError::Unavailable(format!(
            "Kafka: can't {what} partition {partition}: {error}{reason}"
        ))
    }
}
