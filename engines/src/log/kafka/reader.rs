//! Owns a consumer and the thread that polls it, for a subscription or an assigned reader.
//!
//! Invariants: the consumer is polled at least every `POLL`, whatever its reader does, so that the
//! group doesn't expel a slow reader (`max.poll.interval.ms`); at most about `AHEAD_BYTES` of
//! messages wait for the reader, then fetching is paused; the messages of each partition have no
//! gap. Dropping a reader leaves the group at once.

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

use super::group::{ConsumerEvent, GroupContext, GroupRole, must_restart};
use super::layout::Layout;
use super::message_decoder::decode_message;
use crate::EngineError;
use crate::log::epoch::{broker_number, partition_of};
use crate::log::{Delivered, Topic};

/// The longest one poll waits before the thread checks its other tasks.
pub(super) const POLL: Duration = Duration::from_millis(100);
/// The most messages in one `ConsumerEvent::Messages`.
const BATCH_MAX: usize = 1_024;
/// How many bytes of keys and values may wait for the reader before fetching is paused.
const AHEAD_BYTES: usize = 8 << 20;
/// How long more than `AHEAD_BYTES` wait before fetching is paused. Pausing discards messages that
/// librdkafka has fetched, so short peaks must not pause.
const PAUSE_AFTER: Duration = Duration::from_millis(500);

/// State shared by the polling thread and its reader.
pub(super) struct ConsumerShared {
    pub(super) consumer: BaseConsumer<GroupContext>,
    pub(super) layout: Layout,
    pub(super) topic: Topic,
    /// The log epoch of the topic that a group reads. A standalone reader reads all log epochs.
    pub(super) epoch: u32,
    pub(super) role: GroupRole,
    /// Bytes of keys and values that were sent to the reader and not received yet.
    ahead: AtomicUsize,
    /// Whether an `Unavailable` was sent to the reader and not received yet. A second one adds
    /// nothing, and a reader that was busy meanwhile would back off once for each.
    failing: AtomicBool,
    /// Whether partitions were started since the thread last checked. Starting resumes them, so the
    /// thread must pause them again if fetching is paused.
    pub(super) started: AtomicBool,
    stop: AtomicBool,
}

/// The receiving side of a consumer and its polling thread.
pub(super) struct ConsumerReader {
    pub(super) shared: Arc<ConsumerShared>,
    events: mpsc::UnboundedReceiver<ConsumerEvent>,
    thread: Option<JoinHandle<()>>,
}

impl ConsumerReader {
    /// Makes the consumer and starts its thread. `partitions` is how many partitions of the topic
    /// belong to the log. Errors: `Invalid` if librdkafka refuses its settings.
    pub(super) fn start(
        config: &ClientConfig,
        layout: &Layout,
        topic: Topic,
        role: GroupRole,
        partitions: u32,
    ) -> Result<Self, EngineError> {
        let (sender, events) = mpsc::unbounded_channel();
        let refused =
            |error: KafkaError| EngineError::Invalid(format!("the Kafka client: {error}"));
        let group =
            GroupContext::new(role, (role != GroupRole::Standalone).then_some(partitions), sender);
        let consumer: BaseConsumer<GroupContext> =
            config.create_with_context(group).map_err(refused)?;
        let epoch = *layout.epochs(topic).end();
        let (ahead, failing, started, stop) = Default::default();
        let layout = layout.clone();
        let shared =
            ConsumerShared { consumer, layout, topic, epoch, role, ahead, failing, started, stop };
        let shared = Arc::new(shared);
        if role != GroupRole::Standalone {
            let name = shared.layout.current(topic);
            shared.consumer.subscribe(&[&name]).map_err(refused)?;
        }
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("payfold-reader".to_owned())
            .spawn(move || of_thread.run_and_report_panic())
            .map_err(|error| EngineError::Unavailable(format!("can't start a reader: {error}")))?;
        Ok(Self { shared, events, thread: Some(thread) })
    }

    /// Waits for the next event. Cancel-safe. Messages of partitions that are not held any more are
    /// left out. Errors: what the thread reported.
    pub(super) async fn next(&mut self) -> Result<ConsumerEvent, EngineError> {
        loop {
            let Some(event) = self.events.recv().await else {
                return Err(EngineError::Unavailable("the reader's thread has ended".to_owned()));
            };
            match event {
                ConsumerEvent::Messages(round, mut messages) => {
                    self.shared.ahead.fetch_sub(bytes(&messages), Ordering::AcqRel);
                    self.shared.retain_held(round, &mut messages);
                    if !messages.is_empty() {
                        return Ok(ConsumerEvent::Messages(round, messages));
                    }
                }
                ConsumerEvent::Failed(error) => {
                    self.shared.failing.store(false, Ordering::Release);
                    return Err(error);
                }
                rebalance => return Ok(rebalance),
            }
        }
    }
}

impl Drop for ConsumerReader {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.consumer.context().close();
        let Some(thread) = self.thread.take() else { return };
        // Dropping the consumer closes it, which takes a round trip to the group's coordinator.
        let shared = Arc::clone(&self.shared);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || end(thread, shared))),
            Err(_) => end(thread, shared),
        }
    }
}

/// Waits for the thread's end, then drops the consumer.
fn end(thread: JoinHandle<()>, shared: Arc<ConsumerShared>) {
    // A thread that panicked has reported it already.
    let _ = thread.join();
    drop(shared);
}

fn bytes(messages: &[Delivered]) -> usize {
    messages.iter().map(|one| one.value.len() + one.key.len()).sum()
}

impl ConsumerShared {
    /// Runs the thread and sends a panic to the reader as an error. Without this the reader would
    /// wait for ever, because the channel's sender is in the consumer that the reader itself
    /// shares.
    fn run_and_report_panic(&self) {
        if catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            let text = "a Kafka reader's thread panicked; the process's log shows where";
            let failed = ConsumerEvent::Failed(EngineError::Corrupt(text.to_owned()));
            self.consumer.context().send_event(failed);
        }
    }

    /// Sends an error to the reader; a transient one only if the reader has received the last one.
    pub(super) fn fail(&self, error: EngineError) {
        let transient = matches!(error, EngineError::Unavailable(_));
        if !transient || !self.failing.swap(true, Ordering::AcqRel) {
            self.consumer.context().send_event(ConsumerEvent::Failed(error));
        }
    }

    fn run(&self) {
        let mut full_since = None;
        let mut paused = false;
        while !self.stop.load(Ordering::Acquire) {
            if self.consumer.context().take_rejoin() {
                self.rejoin_group();
            }
            self.start_subscriber();
            if self.ahead.load(Ordering::Acquire) < AHEAD_BYTES {
                full_since = None;
                if std::mem::take(&mut paused) {
                    self.pause_or_resume(Flow::Resume);
                }
                self.poll(POLL);
                continue;
            }
            let since = *full_since.get_or_insert_with(Instant::now);
            let resumed = paused && self.started.swap(false, Ordering::AcqRel);
            if resumed || (!paused && since.elapsed() >= PAUSE_AFTER) {
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

    /// Leaves the group and joins it again, which revokes and assigns its partitions as any
    /// rebalance does.
    fn rejoin_group(&self) {
        let topic = self.layout.current(self.topic);
        tracing::warn!(
            topic,
            "Kafka's group coordinator answered too late: this reader leaves the group and joins \
             it again, because it may have missed its assignment"
        );
        self.consumer.unsubscribe();
        if let Err(error) = self.consumer.subscribe(&[&topic]) {
            self.fail(must_restart("join its group again", &error));
        }
    }

    /// Waits for a first message or error, polls what else is ready, and sends it to the reader.
    fn poll(&self, wait: Duration) {
        let mut messages = Vec::new();
        let mut wait = wait;
        let mut failed = None;
        let current_round = || self.consumer.context().with_held(|held| held.round);
        let mut round = current_round();
        while messages.len() < BATCH_MAX
            && let Some(polled) = self.consumer.poll(wait)
        {
            wait = Duration::ZERO;
            // A rebalance runs inside `poll`: the messages polled before it are of the last round.
            let before = std::mem::replace(&mut round, current_round());
            if before != round {
                self.send_messages(before, std::mem::take(&mut messages));
            }
            let accepted = match polled {
                Ok(message) => self.accept(&message),
                Err(error) => self.reader_error(&error).map_or(Ok(None), Err),
            };
            match accepted {
                Ok(message) => messages.extend(message),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        self.send_messages(round, messages);
        if let Some(error) = failed {
            self.fail(error);
        }
    }

    fn send_messages(&self, round: u64, messages: Vec<Delivered>) {
        if !messages.is_empty() {
            self.ahead.fetch_add(bytes(&messages), Ordering::AcqRel);
            self.consumer.context().send_event(ConsumerEvent::Messages(round, messages));
        }
    }

    /// Decodes a message if it is the next one of a held partition; `None` for any other, and for
    /// a marker. Errors: `Corrupt` at a gap.
    fn accept(&self, message: &BorrowedMessage<'_>) -> Result<Option<Delivered>, EngineError> {
        let (partition, offset) = (message.partition(), message.offset());
        let epoch = match self.role {
            GroupRole::Standalone => self.epoch_of(message.topic()),
            GroupRole::Subscriber | GroupRole::AssignedReader => self.epoch,
        };
        let key = self.held_key(epoch, partition);
        let expected = self.consumer.context().with_held(|held| {
            if held.not_started.contains(&key) {
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
                self.seek_forward(message.topic(), partition, next);
                Ok(None)
            }
            Some(Some(next)) if next != offset => Err(EngineError::Corrupt(format!(
                "messages are missing in {} between offset {} and {position}: restore the topic \
                 from a mirror or backup",
                message.topic(),
                next - 1
            ))),
            Some(_) => Ok(decode_message(&self.layout, epoch, message)),
        }
    }

    /// Seeks to the next offset again, after the client went back by itself. When the answer to a
    /// request for the first offset comes after a seek, librdkafka 2.12 drops the answer, asks
    /// again, and goes where the second answer points.
    fn seek_forward(&self, topic: &str, partition: i32, next: i64) {
        if let Err(error) =
            self.consumer.seek(topic, partition, Offset::Offset(next), Duration::ZERO)
        {
            // The next message that is too old leads here again.
            tracing::debug!(%error, partition, next, "a reader could not seek to its next offset");
        }
    }

    /// The error that a consumer error means to the reader; `None` for errors that librdkafka
    /// recovers from by itself.
    fn reader_error(&self, error: &KafkaError) -> Option<EngineError> {
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
                    "topic {topic} does not hold this reader's next offset any more ({code}): \
                     messages were removed before they were read"
                )))
            }
            // librdkafka reports this once and never recovers: it does not join its group again.
            RDKafkaErrorCode::Fatal => Some(EngineError::Invalid(format!(
                "the Kafka client has failed and can't recover{}; restart the process",
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
            // One of several connections broke, or a leader moved: librdkafka retries by itself.
            _ => None,
        }
    }

    /// Drops messages, polled in this round, of partitions that were revoked since. A partition
    /// that was assigned again delivers them once more, after the group's committed offset.
    pub(super) fn retain_held(&self, round: u64, messages: &mut Vec<Delivered>) {
        if self.role == GroupRole::Standalone {
            return;
        }
        self.consumer.context().with_held(|held| {
            messages.retain(|one| {
                let number = broker_number(one.position.partition);
                held.since.get(&number).is_some_and(|since| *since <= round)
                    && !held.not_started.contains(&number)
            });
        });
    }

    fn pause_or_resume(&self, flow: Flow) {
        let done = self.consumer.assignment().and_then(|mut list| {
            if flow == Flow::Resume {
                let not_started =
                    self.consumer.context().with_held(|held| held.not_started.clone());
                let mut resumed = TopicPartitionList::new();
                for element in list.elements() {
                    let is_of_log = self.consumer.context().is_of_log(element.partition());
                    if is_of_log && !not_started.contains(&element.partition()) {
                        resumed.add_partition(element.topic(), element.partition());
                    }
                }
                list = resumed;
                return self.consumer.resume(&list);
            }
            self.consumer.pause(&list)
        });
        if let Err(error) = done {
            tracing::debug!(%error, "a reader's fetching could not be paused or resumed");
        }
    }

    /// The key of a partition in `HeldPartitions`: Kafka's number, or the log's number for a
    /// standalone reader, which reads several log epochs.
    pub(super) fn held_key(&self, epoch: u32, partition: i32) -> i32 {
        match self.role {
            GroupRole::Standalone => {
                i32::try_from(partition_of(epoch, partition)).unwrap_or(i32::MAX)
            }
            GroupRole::Subscriber | GroupRole::AssignedReader => partition,
        }
    }

    /// The log epoch of one of Kafka's topics.
    fn epoch_of(&self, name: &str) -> u32 {
        let mut epochs = self.layout.epochs(self.topic);
        epochs.find(|epoch| self.layout.name(self.topic, *epoch) == name).unwrap_or(0)
    }
}

/// Whether to fetch messages.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Pause,
    Resume,
}
