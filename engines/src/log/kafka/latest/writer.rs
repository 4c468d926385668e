//! Owns the writing of one partition of the twin: transactions that hold what is written together with the place in
//! `orders` it was read up to.
//! Invariants: who has opened a partition last is the only one who can write to it, whatever others still have in hand,
//! and is told the place after that; a client that failed once is used no more, so that nothing it sent can end up in a
//! later transaction. A transaction is done whole or not at all.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::producer::Producer as _;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::oneshot;

use crate::EngineError;
use crate::log::kafka::group::Quiet;
use crate::log::kafka::layout::kafka_offset;
use crate::log::kafka::producer::client::{Client, Factory, Outgoing, stored_event};
use crate::log::kafka::settings::KafkaSettings;
use crate::log::{Delivered, Topic};

/// How long one request may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long the giving up of a transaction may take: readers wait for its end.
const ABORT_MAX: Duration = Duration::from_secs(2);
/// How long the brokers keep a transaction open for somebody they hear nothing of.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Where a partition stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The offset in `orders` that comes next.
    pub(super) next: u64,
    /// What was noted with it.
    pub(super) note: String,
}

/// What goes together.
pub(super) struct Batch {
    /// What is written.
    pub(super) messages: Vec<Delivered>,
    /// Up to where that was read.
    pub(super) place: Place,
}

/// The group whose place is kept, for all partitions.
pub(super) struct Group {
    consumer: BaseConsumer<Quiet>,
    settings: KafkaSettings,
}

impl Group {
    /// Errors: `Invalid`, the client refuses its settings.
    pub(super) fn new(settings: &KafkaSettings, name: &str) -> Result<Self, EngineError> {
        // Also of places only those that are settled are told.
        let mut config = settings.consumer(name);
        config.set("isolation.level", "read_committed");
        let consumer = config.create_with_context(Quiet::default());
        let consumer = consumer.map_err(|error: KafkaError| {
            EngineError::Invalid(format!("the Kafka client can't be made: {error}"))
        })?;
        Ok(Self { consumer, settings: settings.clone() })
    }

    /// Where a partition stands; none where nothing was written, also by a twin that was made anew. Blocks.
    fn place(&self, partition: i32) -> Result<Option<Place>, EngineError> {
        let unavailable = |error: KafkaError| self.consumer.context().unavailable(&error);
        let layout = self.settings.layout();
        let mut list = TopicPartitionList::new();
        list.add_partition(&layout.current(Topic::Orders), partition);
        let answer = self.consumer.committed_offsets(list, ANSWER_MAX).map_err(unavailable)?;
        let [element] = &answer.elements()[..] else {
            return Err(self.consumer.context().late("a place"));
        };
        element.error().map_err(unavailable)?;
        let Offset::Offset(next) = element.offset() else { return Ok(None) };
        let (_, end) = self
            .consumer
            .fetch_watermarks(&layout.latest(), partition, ANSWER_MAX)
            .map_err(unavailable)?;
        let next = u64::try_from(next).unwrap_or(0);
        let note = element.metadata().to_owned();
        Ok((end > 0).then_some(Place { next, note }))
    }
}

/// What the thread is asked.
struct Job {
    batch: Batch,
    done: oneshot::Sender<Result<(), EngineError>>,
}

/// The writer of one partition: a client, and a thread for what blocks. Dropping it lets go without waiting.
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// Shuts out whoever wrote this partition before, then tells where it stands. Errors: `Unavailable`, `Invalid`.
    pub(super) async fn open(
        group: &Arc<Group>,
        partition: i32,
    ) -> Result<(Self, Option<Place>), EngineError> {
        let (jobs, asked) = mpsc::channel::<Job>();
        let (opened, told) = oneshot::channel();
        let group = Arc::clone(group);
        let work = move || match Desk::open(group, partition) {
            Err(error) => drop(opened.send(Err(error))),
            Ok((desk, place)) => {
                // Who asked may be gone; then the channel is too.
                let _ = opened.send(Ok(place));
                desk.serve(&asked);
            }
        };
        std::thread::Builder::new().name("payfold-latest".to_owned()).spawn(work).map_err(
            |error| EngineError::Unavailable(format!("can't start a writer's thread: {error}")),
        )?;
        let place = told.await.map_err(|_| gone())??;
        Ok((Self { jobs }, place))
    }

    /// Writes what goes together. Errors: whether it was written is unknown then, and this writer is of no use any more.
    pub(super) async fn put(&self, batch: Batch) -> Result<(), EngineError> {
        let (done, told) = oneshot::channel();
        self.jobs.send(Job { batch, done }).map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }
}

fn gone() -> EngineError {
    EngineError::Unavailable("the writer's thread has ended".to_owned())
}

/// What the thread has.
struct Desk {
    group: Arc<Group>,
    client: Client,
    partition: i32,
}

impl Desk {
    fn open(group: Arc<Group>, partition: i32) -> Result<(Self, Option<Place>), EngineError> {
        let settings = &group.settings;
        let name = format!("{}.latest.{partition}", settings.prefix);
        let silence = SILENCE_MAX.max(settings.delivery_timeout + Duration::from_secs(1));
        let client = Factory::in_transactions(settings, (&name, silence)).make()?;
        let desk = Self { group, client, partition };
        let begun = desk.client.transactions().init_transactions(ANSWER_MAX);
        begun.map_err(|error| desk.failed("open", &error))?;
        let place = desk.group.place(partition)?;
        Ok((desk, place))
    }

    /// Writes until nobody asks any more, or until it failed.
    fn serve(self, asked: &mpsc::Receiver<Job>) {
        while let Ok(Job { batch, done }) = asked.recv() {
            let written = self.write(&batch);
            let failed = written.is_err();
            // Who asked may have given up on it.
            let _ = done.send(written);
            if failed {
                return;
            }
        }
    }

    fn write(&self, batch: &Batch) -> Result<(), EngineError> {
        let transactions = self.client.transactions();
        let written = self.write_all(batch);
        // What the client told of each message: a transaction with one that failed is not committed.
        self.client.collect(&mut Vec::new());
        written.map_err(|error| {
            let error = self.failed("write", &error);
            if self.client.fatal_error().is_none() {
                // What is not given up now ends with the brokers' patience, or with who opens the partition next.
                let _ = transactions.abort_transaction(ABORT_MAX);
            }
            error
        })
    }

    fn write_all(&self, Batch { messages, place }: &Batch) -> Result<(), KafkaError> {
        let layout = self.group.settings.layout();
        let (name, transactions) = (layout.latest(), self.client.transactions());
        transactions.begin_transaction()?;
        for (number, message) in messages.iter().enumerate() {
            let outgoing = Outgoing {
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
        let member = self.group.consumer.group_metadata().ok_or(KafkaError::Canceled)?;
        transactions.send_offsets_to_transaction(&list, &member, ANSWER_MAX)?;
        transactions.commit_transaction(ANSWER_MAX)
    }

    fn failed(&self, what: &str, error: &KafkaError) -> EngineError {
        self.client.collect(&mut Vec::new());
        let (error, word) = (error.to_string(), self.client.last_word());
        let reason = word.filter(|word| !error.contains(word.as_str()));
        let reason = reason.map(|word| format!(" ({word})")).unwrap_or_default();
        let partition = self.partition;
        EngineError::Unavailable(format!(
            "Kafka: can't {what} partition {partition}: {error}{reason}"
        ))
    }
}
