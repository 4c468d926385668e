//! Owns the thread between appenders and librdkafka: it sends everything queued in one burst,
//! collects the outcomes, and wakes the waiters in bulk.
//!
//! The cost of a message depends on how many messages share a produce request, and librdkafka sends
//! one request per partition. So the pump sends in bursts: the next burst leaves when the last one
//! is acknowledged, and the messages that are appended meanwhile go together (decision 0018).
//!
//! Invariants: each number is sent to one client, once; while messages are in flight the thread
//! polls by itself and needs no wake-up; the messages in flight of a client that fails fatally fail
//! with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode;

use super::client::{ClientFactory, DeliveryOutcome, OutgoingMessage, ProducerClient};
use super::delivery_error::delivery_error;
use super::in_flight::{InFlight, InFlightMessage, MessageOwner, SettledAppends};
use super::shared::ProducerShared;
use super::work::ProducerWork;
use crate::EngineError;
use crate::log::kafka::layout::Layout;
use crate::log::kafka::partitioner::PartitionCounts;
use crate::log::kafka::settings::KafkaSettings;
use crate::log::queue::{AppendJob, TakenJobs};
use crate::log::waiters::{AppendOutcome, HANDOVER_MAX, Wakeups};
use crate::log::{Message, Topic};

/// The shortest sleep between two polls while messages are in flight. The thread can't block in the
/// client instead: `BaseProducer::poll` returns only after its whole timeout, and spins during the
/// timeout's last millisecond.
const TICK: Duration = Duration::from_micros(500);

/// Where bursts take longer, the sleep is this fraction of a burst's duration, up to `TICK_MAX`.
const TICKS_PER_BURST: u32 = 8;
const TICK_MAX: Duration = Duration::from_millis(5);

/// The longest time a burst waits until the last one is acknowledged, so that a slow broker delays
/// the partitions of other brokers no longer than that.
const BURST_WAIT_MAX: Duration = Duration::from_millis(10);

/// How often the thread polls while nothing is in flight. librdkafka's log lines and errors wait
/// for a poll.
const IDLE: Duration = Duration::from_secs(1);

/// How long after the delivery timeout a message without an outcome fails without the client.
const GRACE: Duration = Duration::from_millis(500);

/// After a client that worked for this long, the next one is made at once: its failure is a new
/// one.
const CLIENT_LIFE_MIN: Duration = Duration::from_secs(30);

/// The first and the longest pause before the next client after one that worked for less; the pause
/// doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The thread's own state.
pub(super) struct Pump {
    shared: Arc<ProducerShared>,
    factory: ClientFactory,
    layout: Layout,
    counts: PartitionCounts,
    /// Kafka's topic for each topic of the log, in the order of `Topic::ALL`.
    names: [String; Topic::ALL.len()],
    delivery_timeout: Duration,
    flight: InFlight,
    /// When the last burst was sent.
    burst_sent: Instant,
    /// Whether the last poll brought the last outcomes in flight. The woken appenders are about to
    /// append again, so the next burst waits a tick for them.
    burst_done: bool,
    /// How long a burst takes until it is acknowledged, smoothed.
    burst_duration: Duration,
    outcomes: Vec<(usize, DeliveryOutcome)>,
    settled: SettledAppends,
    wakeups: Wakeups,
    client: Result<ProducerClient, MissingClient>,
    /// When the client was made.
    made: Instant,
    pause: Duration,
}

/// Why there is no client, and when the next one is made.
struct MissingClient {
    reason: String,
    retry_at: Instant,
}

impl Pump {
    pub(super) fn new(
        shared: Arc<ProducerShared>,
        settings: &KafkaSettings,
        counts: PartitionCounts,
        factory: ClientFactory,
        client: ProducerClient,
    ) -> Self {
        let (layout, now) = (settings.layout(), Instant::now());
        Self {
            shared,
            factory,
            names: Topic::ALL.map(|topic| layout.current(topic)),
            layout,
            counts,
            delivery_timeout: settings.delivery_timeout,
            flight: InFlight::default(),
            burst_sent: now,
            burst_done: false,
            burst_duration: Duration::ZERO,
            outcomes: Vec::new(),
            settled: SettledAppends::default(),
            wakeups: Wakeups::default(),
            client: Ok(client),
            made: now,
            pause: Duration::ZERO,
        }
    }

    /// Runs until the queue is closed and empty and nothing is in flight.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let _ended = PumpEndGuard(&shared);
        let mut group = Vec::new();
        loop {
            let taken = self.take_jobs(&mut group);
            self.recreate_client();
            self.send_burst(&mut group);
            self.collect();
            if taken == TakenJobs::Closed && self.flight.is_empty() {
                break;
            }
        }
    }

    /// Waits for the next job or tick, and takes the jobs of the next burst.
    fn take_jobs(&mut self, group: &mut Vec<AppendJob<ProducerWork>>) -> TakenJobs {
        let handing_over = self.wakeups.sweep();
        if self.flight.is_empty() && !self.burst_done {
            let timeout = match &self.client {
                _ if handing_over => HANDOVER_MAX,
                Ok(_) => IDLE,
                Err(missing) => {
                    missing.retry_at.saturating_duration_since(Instant::now()).min(IDLE)
                }
            };
            return self.shared.queue.take(group, Some(timeout));
        }
        self.burst_done = false;
        let duration = self.burst_duration.max(self.burst_sent.elapsed());
        std::thread::sleep((duration / TICKS_PER_BURST).clamp(TICK, TICK_MAX));
        if self.flight.is_empty() || self.burst_sent.elapsed() >= BURST_WAIT_MAX {
            return self.shared.queue.take(group, Some(Duration::ZERO));
        }
        TakenJobs::TimedOut
    }

    /// Sends the jobs to the client.
    fn send_burst(&mut self, group: &mut Vec<AppendJob<ProducerWork>>) {
        if group.is_empty() {
            return;
        }
        let since = Instant::now();
        self.burst_sent = since;
        for AppendJob { work, promise } in group.drain(..) {
            match work {
                ProducerWork::One(topic, message) => match self.send(topic, &message) {
                    Ok(()) => self.flight.put(InFlightMessage {
                        owner: MessageOwner::One(promise),
                        topic,
                        since,
                    }),
                    Err(error) => {
                        self.settled.messages += 1;
                        self.settled.promises.push((promise, Err(error)));
                    }
                },
                ProducerWork::Many { topic, messages, positions } => {
                    let group = self.flight.open_group(promise, positions, messages.len());
                    for (at, message) in messages.iter().enumerate() {
                        if let Err(error) = self.send(topic, message) {
                            // A later message of the group would overtake the refused one.
                            self.settled.messages += messages.len() - at;
                            self.flight.fail_group(group, error, &mut self.settled);
                            break;
                        }
                        let owner = MessageOwner::Part { group, at };
                        self.flight.put(InFlightMessage { owner, topic, since });
                    }
                }
            }
        }
    }

    fn send(&self, topic: Topic, message: &Message) -> Result<(), EngineError> {
        let name = &self.names[topic.index()];
        let partition = self.counts.partition_of_key(topic, &message.key);
        match &self.client {
            Ok(client) => client
                .send(
                    OutgoingMessage::message((name, partition), message),
                    self.flight.next_number(),
                )
                .map_err(|code| delivery_error(name, code, client.last_error().as_deref())),
            Err(missing) => Err(EngineError::Unavailable(format!(
                "the Kafka client failed, and the next one is not made yet; retry later: {}",
                missing.reason
            ))),
        }
    }

    /// Collects outcomes from the client, and answers the appenders.
    fn collect(&mut self) {
        let now = Instant::now();
        let had_messages = !self.flight.is_empty();
        let mut fatal = None;
        if let Ok(client) = &self.client {
            client.collect_outcomes(&mut self.outcomes);
            fatal = client.fatal_error();
        }
        let (acked, oldest) = self.settle(now);
        if let Some(reason) = fatal {
            self.drop_client(reason);
        }
        self.expire(now);
        if had_messages && self.flight.is_empty() {
            self.burst_done = true;
            self.burst_duration =
                (self.burst_duration * 7 + now.duration_since(self.burst_sent)) / 8;
        }
        self.answer_appenders();
        if acked > 0
            && let Some(observer) = &self.shared.commits
        {
            observer(acked, now.duration_since(oldest));
        }
    }

    /// Settles the collected outcomes. Returns how many messages became durable, and when the
    /// oldest of them was sent.
    fn settle(&mut self, now: Instant) -> (usize, Instant) {
        let (mut acked, mut oldest) = (0, now);
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for (number, outcome) in outcomes.drain(..) {
            let Some((topic, since)) = self.flight.get(number) else { continue };
            let outcome = self.outcome(topic, outcome);
            if outcome.is_ok() {
                acked += 1;
                oldest = oldest.min(since);
            }
            self.flight.settle(number, outcome, &mut self.settled);
        }
        self.outcomes = outcomes;
        (acked, oldest)
    }

    fn outcome(&self, topic: Topic, outcome: DeliveryOutcome) -> AppendOutcome {
        let name = &self.names[topic.index()];
        match outcome {
            Ok((partition, offset)) if offset >= 0 => {
                let epoch = *self.layout.epochs(topic).end();
                Ok(self.layout.position(epoch, partition, offset))
            }
            // The broker recognized a retry as a duplicate, and no longer knows the first one's
            // offset.
            Ok(_) => Err(EngineError::Unavailable(format!(
                "{name}: the message is stored, but the broker no longer knows its offset"
            ))),
            Err(code) => {
                let last_error = self.client.as_ref().ok().and_then(ProducerClient::last_error);
                Err(delivery_error(name, code, last_error.as_deref()))
            }
        }
    }

    /// Fails the messages that should have an outcome by now.
    fn expire(&mut self, now: Instant) {
        let Some(until) = now.checked_sub(self.delivery_timeout + GRACE) else { return };
        let late = |topic: Topic| {
            let last_error = self.client.as_ref().ok().and_then(ProducerClient::last_error);
            let code = RDKafkaErrorCode::MessageTimedOut;
            delivery_error(&self.names[topic.index()], code, last_error.as_deref())
        };
        self.flight.expire(until, late, &mut self.settled);
    }

    /// Wakes the appenders of settled messages.
    fn answer_appenders(&mut self) {
        // The room is freed first, so that a woken appender finds it.
        if self.settled.messages > 0 {
            self.shared.queue.release(std::mem::take(&mut self.settled.messages));
        }
        for (promise, outcome) in self.settled.promises.drain(..) {
            self.wakeups.complete(promise, outcome);
        }
        self.wakeups.flush();
    }

    /// Drops a client that failed fatally, and fails its messages in flight.
    fn drop_client(&mut self, reason: String) {
        let lived = self.made.elapsed();
        self.pause = match lived >= CLIENT_LIFE_MIN {
            true => Duration::ZERO,
            false => (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX),
        };
        tracing::error!(reason, pause = ?self.pause, "the Kafka client failed; a new one is made \
            after the pause");
        let error = EngineError::Unavailable(format!("the Kafka client failed: {reason}"));
        self.flight.fail_all(&error, &mut self.settled);
        let retry_at = Instant::now() + self.pause;
        let client = std::mem::replace(&mut self.client, Err(MissingClient { reason, retry_at }));
        // Dropping a client blocks until its connections are closed.
        let thread = std::thread::Builder::new().name("payfold-log-end".to_owned());
        if let Err(error) = thread.spawn(move || drop(client)) {
            tracing::warn!(%error, "no thread could be started to close the Kafka client");
        }
    }

    /// Makes the next client once the pause is over.
    fn recreate_client(&mut self) {
        let now = Instant::now();
        let Err(missing) = &mut self.client else { return };
        if now < missing.retry_at {
            return;
        }
        match self.factory.make_client() {
            Ok(client) => {
                (self.client, self.made) = (Ok(client), now);
                tracing::info!("a new Kafka client is made");
            }
            Err(error) => {
                self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
                tracing::error!(%error, pause = ?self.pause, "no new Kafka client could be made");
                *missing = MissingClient { reason: error.to_string(), retry_at: now + self.pause };
            }
        }
    }
}

/// Closes the queue and fails the jobs left in it, however the pump's thread ends (also by a
/// panic).
struct PumpEndGuard<'a>(&'a ProducerShared);

impl Drop for PumpEndGuard<'_> {
    fn drop(&mut self) {
        self.0.queue.close();
        let mut left = Vec::new();
        self.0.queue.take(&mut left, None);
        drop(left);
        self.0.ended.send_replace(true);
    }
}
