//! Owns a consumer and the thread that polls it, for a subscription or a share.
//!
//! Invariants: the consumer is polled at least every `POLL`, whatever its reader does, so that its group never takes
//! a slow reader for a dead one; at most `AHEAD_BYTES` of messages wait for the reader, then fetching is paused;
//! of each partition messages come without a gap. Dropping a reader leaves the group at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::sync::mpsc;

use super::delivered::delivered;
use super::group::{Group, News, Part, broken};
use super::layout::Layout;
use crate::EngineError;
use crate::log::epoch::{broker_number, partition_of};
use crate::log::{Delivered, Topic};

/// How long the consumer is waited on before its thread looks around.
pub(super) const POLL: Duration = Duration::from_millis(100);
/// Messages told at once.
const BATCH_MAX: usize = 1_024;
/// What may wait for the reader, bytes of values.
const AHEAD_BYTES: usize = 8 << 20;
/// How long too much waits before fetching is paused: pausing throws away what was fetched.
const PAUSE_AFTER: Duration = Duration::from_millis(500);

/// What the thread and its reader share.
pub(super) struct Shared {
    pub(super) consumer: BaseConsumer<Group>,
    pub(super) layout: Layout,
    pub(super) topic: Topic,
    /// The epoch of the topic a group reads; who reads alone reads all of them.
    pub(super) epoch: u32,
    pub(super) part: Part,
    /// Bytes of values told and not taken by the reader yet.
    ahead: AtomicUsize,
    /// An `Unavailable` was told and not taken by the reader yet: a second one would tell nothing new, and a reader
    /// that was busy meanwhile would wait once for each.
    failing: AtomicBool,
    /// Something began since the thread looked last: it is fetched also while the rest is paused.
    pub(super) begun: AtomicBool,
    stop: AtomicBool,
}

/// A consumer's reader.
pub(super) struct Reader {
    pub(super) shared: Arc<Shared>,
    news: mpsc::UnboundedReceiver<News>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Makes the consumer and starts its thread; `partitions` are those of the log in the topic a group shares out.
    /// Errors: `Invalid`, the client refuses its settings.
    pub(super) fn start(
        config: &ClientConfig,
        layout: &Layout,
        topic: Topic,
        part: Part,
        partitions: u32,
    ) -> Result<Self, EngineError> {
        let (told, news) = mpsc::unbounded_channel();
        let refused =
            |error: KafkaError| EngineError::Invalid(format!("the Kafka client: {error}"));
        let group = Group::new(part, (part != Part::Alone).then_some(partitions), told);
        let consumer: BaseConsumer<Group> = config.create_with_context(group).map_err(refused)?;
        let epoch = *layout.epochs(topic).end();
        let (ahead, failing, begun, stop) = Default::default();
        let layout = layout.clone();
        let shared = Shared { consumer, layout, topic, epoch, part, ahead, failing, begun, stop };
        let shared = Arc::new(shared);
        if part != Part::Alone {
            let name = shared.layout.current(topic);
            shared.consumer.subscribe(&[&name]).map_err(refused)?;
        }
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("payfold-reader".to_owned())
            .spawn(move || of_thread.run_loudly())
            .map_err(|error| EngineError::Unavailable(format!("can't start a reader: {error}")))?;
        Ok(Self { shared, news, thread: Some(thread) })
    }

    /// Waits for what comes next. Cancel-safe. Of messages only those are left that may still be delivered.
    pub(super) async fn next(&mut self) -> Result<News, EngineError> {
        loop {
            let Some(news) = self.news.recv().await else {
                return Err(EngineError::Unavailable("the reader's thread has ended".to_owned()));
            };
            match news {
                News::Messages(round, mut messages) => {
                    self.shared.ahead.fetch_sub(bytes(&messages), Ordering::AcqRel);
                    self.shared.keep_held(round, &mut messages);
                    if !messages.is_empty() {
                        return Ok(News::Messages(round, messages));
                    }
                }
                News::Failed(error) => {
                    self.shared.failing.store(false, Ordering::Release);
                    return Err(error);
                }
                moved => return Ok(moved),
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.consumer.context().close();
        let Some(thread) = self.thread.take() else { return };
        // The last to let go of the consumer closes it, which takes a round trip to the group.
        let shared = Arc::clone(&self.shared);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || end(thread, shared))),
            Err(_) => end(thread, shared),
        }
    }
}

/// Ends the thread, then the consumer.
fn end(thread: JoinHandle<()>, shared: Arc<Shared>) {
    // A thread that panicked has nothing left to do either.
    let _ = thread.join();
    drop(shared);
}

fn bytes(messages: &[Delivered]) -> usize {
    messages.iter().map(|one| one.value.len() + one.key.len()).sum()
}

impl Shared {
    /// A panic here would leave the reader waiting for ever: the channel's sender lives in the consumer it shares.
    fn run_loudly(&self) {
        if catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            let text = "a reader's thread panicked; the log has the place";
            self.consumer.context().tell(News::Failed(EngineError::Corrupt(text.to_owned())));
        }
    }

    /// Tells of a failure; of one that may pass only while none waits to be taken.
    pub(super) fn fail(&self, error: EngineError) {
        let passing = matches!(error, EngineError::Unavailable(_));
        if !passing || !self.failing.swap(true, Ordering::AcqRel) {
            self.consumer.context().tell(News::Failed(error));
        }
    }

    fn run(&self) {
        let mut full_since = None;
        let mut paused = false;
        while !self.stop.load(Ordering::Acquire) {
            if self.consumer.context().has_to_join_anew() {
                self.join_anew();
            }
            self.begin_members();
            if self.ahead.load(Ordering::Acquire) < AHEAD_BYTES {
                full_since = None;
                if std::mem::take(&mut paused) {
                    self.pause_or_resume(Flow::Resume);
                }
                self.poll(POLL);
                continue;
            }
            let since = *full_since.get_or_insert_with(Instant::now);
            let begun = paused && self.begun.swap(false, Ordering::AcqRel);
            if begun || (!paused && since.elapsed() >= PAUSE_AFTER) {
                paused = true;
                self.pause_or_resume(Flow::Pause);
            }
            if paused {
                self.poll(POLL);
            } else {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Leaves the group and joins it again; what it holds goes and comes as in any change of hands.
    fn join_anew(&self) {
        let topic = self.layout.current(self.topic);
        tracing::warn!(
            topic,
            "Kafka answered this member of a group too late: it leaves the group and joins it again, because which \
             partitions are its own may have been in the answer"
        );
        self.consumer.unsubscribe();
        if let Err(error) = self.consumer.subscribe(&[&topic]) {
            self.fail(broken("join its group again", &error));
        }
    }

    /// Waits for something, then takes what else is there, and tells it.
    fn poll(&self, wait: Duration) {
        let mut messages = Vec::new();
        let mut wait = wait;
        let mut failed = None;
        let round = || self.consumer.context().held(|held| held.round);
        let mut of = round();
        while messages.len() < BATCH_MAX
            && let Some(polled) = self.consumer.poll(wait)
        {
            wait = Duration::ZERO;
            // Partitions went while it was waited: what came before is of another round.
            let before = std::mem::replace(&mut of, round());
            if before != of {
                self.tell(before, std::mem::take(&mut messages));
            }
            let taken = match polled {
                Ok(message) => self.take(&message),
                Err(error) => self.failure(&error).map_or(Ok(None), Err),
            };
            match taken {
                Ok(message) => messages.extend(message),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        self.tell(of, messages);
        if let Some(error) = failed {
            self.fail(error);
        }
    }

    fn tell(&self, round: u64, messages: Vec<Delivered>) {
        if !messages.is_empty() {
            self.ahead.fetch_add(bytes(&messages), Ordering::AcqRel);
            self.consumer.context().tell(News::Messages(round, messages));
        }
    }

    /// A message that comes next of a partition that is held.
    fn take(&self, message: &BorrowedMessage<'_>) -> Result<Option<Delivered>, EngineError> {
        let (partition, offset) = (message.partition(), message.offset());
        let epoch = match self.part {
            Part::Alone => self.epoch_of(message.topic()),
            Part::Member | Part::Keeper => self.epoch,
        };
        let key = self.held_key(epoch, partition);
        let expected = self.consumer.context().held(|held| {
            if held.standing.contains(&key) {
                return None;
            }
            let next = held.partitions.get_mut(&key)?;
            let expected = *next;
            *next = expected.max(Some(offset + 1));
            Some(expected)
        });
        let position = self.layout.position(epoch, partition, offset);
        match expected {
            None => Ok(None),
            Some(Some(next)) if offset < next => {
                self.send_forward(message.topic(), partition, next);
                Ok(None)
            }
            Some(Some(next)) if next != offset => Err(EngineError::Corrupt(format!(
                "{} goes on at {position} after offset {}: messages are missing",
                message.topic(),
                next - 1
            ))),
            Some(_) => delivered(&self.layout, epoch, message),
        }
    }

    /// Lets the client go on at what comes next, after it went back by itself: when the answer to a question for
    /// the first offset comes after a seek, librdkafka 2.12 drops it, asks once more and goes where that says.
    fn send_forward(&self, topic: &str, partition: i32, next: i64) {
        if let Err(error) =
            self.consumer.seek(topic, partition, Offset::Offset(next), Duration::ZERO)
        {
            // It is told of the next message, and tries again.
            tracing::debug!(%error, partition, next, "a reader could not be sent forward");
        }
    }

    /// What an error of the consumer means to the reader; none for what mends itself.
    fn failure(&self, error: &KafkaError) -> Option<EngineError> {
        let code = match error {
            KafkaError::MessageConsumption(code) => *code,
            KafkaError::MessageConsumptionFatal(code) => {
                return Some(EngineError::Corrupt(format!("the Kafka client has failed: {code}")));
            }
            _ => return Some(self.consumer.context().quiet().unavailable(error)),
        };
        match code {
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => {
                let topic = self.topic.name();
                Some(EngineError::Invalid(format!(
                    "topic {topic} does not hold the place this reader stands at any more ({code})"
                )))
            }
            // Told once, and never gone: the client does not join its group again.
            RDKafkaErrorCode::Fatal => Some(EngineError::Invalid(format!(
                "the Kafka client has failed for good{}",
                self.consumer.context().quiet().reason()
            ))),
            RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::BadMessage
            | RDKafkaErrorCode::BadCompression
            | RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::GroupAuthorizationFailed
            | RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::UnsupportedFeature
            | RDKafkaErrorCode::UnknownTopicOrPartition => {
                Some(self.consumer.context().quiet().unavailable(error))
            }
            // One connection of many, a leader that moves: the client goes on by itself.
            _ => None,
        }
    }

    /// Drops messages of partitions that went since they were told in this round, also where they came back: then they
    /// are delivered once more, from where the group stands.
    pub(super) fn keep_held(&self, round: u64, messages: &mut Vec<Delivered>) {
        if self.part == Part::Alone {
            return;
        }
        self.consumer.context().held(|held| {
            messages.retain(|one| {
                let number = broker_number(one.position.partition);
                held.since.get(&number).is_some_and(|since| *since <= round)
                    && !held.standing.contains(&number)
            });
        });
    }

    fn pause_or_resume(&self, flow: Flow) {
        let done = self.consumer.assignment().and_then(|mut list| {
            if flow == Flow::Resume {
                let standing = self.consumer.context().held(|held| held.standing.clone());
                let mut resumed = TopicPartitionList::new();
                for element in list.elements() {
                    let is_of_log = self.consumer.context().is_of_log(element.partition());
                    if is_of_log && !standing.contains(&element.partition()) {
                        resumed.add_partition(element.topic(), element.partition());
                    }
                }
                list = resumed;
                return self.consumer.resume(&list);
            }
            self.consumer.pause(&list)
        });
        if let Err(error) = done {
            tracing::debug!(%error, "a reader could not be slowed down");
        }
    }

    /// What a partition is held under: who reads alone may read several epochs.
    pub(super) fn held_key(&self, epoch: u32, partition: i32) -> i32 {
        match self.part {
            Part::Alone => i32::try_from(partition_of(epoch, partition)).unwrap_or(i32::MAX),
            Part::Member | Part::Keeper => partition,
        }
    }

    /// The epoch a topic of this log is of.
    fn epoch_of(&self, name: &str) -> u32 {
        let mut epochs = self.layout.epochs(self.topic);
        epochs.find(|epoch| self.layout.name(self.topic, *epoch) == name).unwrap_or(0)
    }
}

/// Whether messages are fetched.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Pause,
    Resume,
}
