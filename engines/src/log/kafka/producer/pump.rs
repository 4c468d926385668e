//! Owns the thread between appenders and the client: it hands over everything queued in one burst, collects
//! what the client tells, and wakes whoever waited for it in bulk.
//!
//! What a message costs is set by how many go in one request, and librdkafka sends one request per partition.
//! So bursts follow each other: the next one leaves when the last has landed, and what comes meanwhile travels
//! together (decision 0018).
//!
//! Invariants: a number is handed to one client once; while messages are in flight the thread looks by
//! itself, and nobody has to wake it; a client that can't go on takes what it had in flight with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode;

use super::Shared;
use super::client::{Client, Factory, Fate, Outgoing};
use super::failed;
use super::flight::{Entry, Flight, Owner, Settled};
use super::work::Work;
use crate::EngineError;
use crate::log::kafka::layout::Layout;
use crate::log::kafka::partitioner::PartitionCounts;
use crate::log::kafka::settings::KafkaSettings;
use crate::log::queue::{Job, Taken};
use crate::log::waiters::{HANDOVER_MAX, Outcome, Wakeups};
use crate::log::{Message, Topic};

/// How long the thread sleeps between two looks while messages are in flight, at least. It can't wait for the client:
/// `BaseProducer::poll` comes back only when its time is over, and spins for the last millisecond of it.
const BEAT: Duration = Duration::from_micros(500);

/// The beat where bursts take long to land: so many to a burst, and the slowest.
const BEATS: u32 = 8;
const SLOW_BEAT: Duration = Duration::from_millis(5);

/// How long a burst waits for the one before it to land: a partition whose broker is slow must not hold up the
/// others for longer.
const HOLD_MAX: Duration = Duration::from_millis(10);

/// How often the thread looks while nothing is in flight: the client's own log lies there until then.
const IDLE: Duration = Duration::from_secs(1);

/// How long after the client should have told a message's fate it is told without the client.
const GRACE: Duration = Duration::from_millis(500);

/// A client that lived so long died of something new: the next one is made at once.
const CLIENT_LIFE_MIN: Duration = Duration::from_secs(30);

/// The pause before the next client when they die young: from, and doubled up to.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The thread's own state.
pub(super) struct Pump {
    shared: Arc<Shared>,
    factory: Factory,
    layout: Layout,
    counts: PartitionCounts,
    /// What is written to, by topic.
    names: [String; Topic::ALL.len()],
    delivery_timeout: Duration,
    flight: Flight,
    /// When the last burst left.
    departed: Instant,
    /// Since the last look everything in flight has landed: who was woken is about to append again.
    landed: bool,
    /// How long bursts take to land, smoothed.
    landing: Duration,
    fates: Vec<(usize, Fate)>,
    settled: Settled,
    wakeups: Wakeups,
    client: Result<Client, Dead>,
    /// When the client was made.
    made: Instant,
    pause: Duration,
}

/// There is no client.
struct Dead {
    reason: String,
    /// When the next one is made.
    until: Instant,
}

impl Pump {
    pub(super) fn new(
        shared: Arc<Shared>,
        settings: &KafkaSettings,
        counts: PartitionCounts,
        factory: Factory,
        client: Client,
    ) -> Self {
        let (layout, now) = (settings.layout(), Instant::now());
        Self {
            shared,
            factory,
            names: Topic::ALL.map(|topic| layout.current(topic)),
            layout,
            counts,
            delivery_timeout: settings.delivery_timeout,
            flight: Flight::default(),
            departed: now,
            landed: false,
            landing: Duration::ZERO,
            fates: Vec::new(),
            settled: Settled::default(),
            wakeups: Wakeups::default(),
            client: Ok(client),
            made: now,
            pause: Duration::ZERO,
        }
    }

    /// Pumps until the queue is closed and empty and nothing is in flight.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let _ended = Ended(&shared);
        let mut group = Vec::new();
        loop {
            let taken = self.take(&mut group);
            self.revive();
            self.hand_over(&mut group);
            self.collect();
            if taken == Taken::End && self.flight.is_empty() {
                break;
            }
        }
    }

    /// Waits for what is to be done next, and takes what is to be handed over.
    fn take(&mut self, group: &mut Vec<Job<Work>>) -> Taken {
        let handing_over = self.wakeups.sweep();
        if self.flight.is_empty() && !self.landed {
            let patience = match &self.client {
                _ if handing_over => HANDOVER_MAX,
                Ok(_) => IDLE,
                Err(dead) => dead.until.saturating_duration_since(Instant::now()).min(IDLE),
            };
            return self.shared.queue.take(group, Some(patience));
        }
        self.landed = false;
        let landing = self.landing.max(self.departed.elapsed());
        std::thread::sleep((landing / BEATS).clamp(BEAT, SLOW_BEAT));
        if self.flight.is_empty() || self.departed.elapsed() >= HOLD_MAX {
            return self.shared.queue.take(group, Some(Duration::ZERO));
        }
        Taken::Nothing
    }

    /// Hands everything taken to the client.
    fn hand_over(&mut self, group: &mut Vec<Job<Work>>) {
        if group.is_empty() {
            return;
        }
        let since = Instant::now();
        self.departed = since;
        for Job { work, promise } in group.drain(..) {
            match work {
                Work::One(topic, message) => match self.send(topic, &message) {
                    Ok(()) => self.flight.put(Entry { owner: Owner::One(promise), topic, since }),
                    Err(error) => {
                        self.settled.messages += 1;
                        self.settled.promises.push((promise, Err(error)));
                    }
                },
                Work::Many { topic, messages, positions } => {
                    let group = self.flight.open(promise, positions, messages.len());
                    for (at, message) in messages.iter().enumerate() {
                        if let Err(error) = self.send(topic, message) {
                            // What comes after one that was not taken would overtake it.
                            self.settled.messages += messages.len() - at;
                            self.flight.fail_group(group, error, &mut self.settled);
                            break;
                        }
                        let owner = Owner::Part { group, at };
                        self.flight.put(Entry { owner, topic, since });
                    }
                }
            }
        }
    }

    fn send(&self, topic: Topic, message: &Message) -> Result<(), EngineError> {
        let name = &self.names[index(topic)];
        let partition = self.counts.partition_of_key(topic, &message.key);
        match &self.client {
            Ok(client) => client
                .send(Outgoing::message((name, partition), message), self.flight.next_number())
                .map_err(|code| failed::error(name, code, client.last_word().as_deref())),
            Err(dead) => Err(EngineError::Unavailable(format!(
                "the Kafka client could not go on, and the next one is not made yet: {}",
                dead.reason
            ))),
        }
    }

    /// Collects what the client tells, and tells the appenders.
    fn collect(&mut self) {
        let now = Instant::now();
        let flew = !self.flight.is_empty();
        let mut fatal = None;
        if let Ok(client) = &self.client {
            client.collect(&mut self.fates);
            fatal = client.fatal_error();
        }
        let (acked, oldest) = self.settle(now);
        if let Some(reason) = fatal {
            self.bury(reason);
        }
        self.expire(now);
        if flew && self.flight.is_empty() {
            self.landed = true;
            self.landing = (self.landing * 7 + now.duration_since(self.departed)) / 8;
        }
        self.tell();
        if acked > 0
            && let Some(observer) = &self.shared.commits
        {
            observer(acked, now.duration_since(oldest));
        }
    }

    /// Takes what was told out of flight. Returns how many are durable, and since when the oldest waited.
    fn settle(&mut self, now: Instant) -> (usize, Instant) {
        let (mut acked, mut oldest) = (0, now);
        let mut fates = std::mem::take(&mut self.fates);
        for (number, fate) in fates.drain(..) {
            let Some((topic, since)) = self.flight.get(number) else { continue };
            let outcome = self.outcome(topic, fate);
            if outcome.is_ok() {
                acked += 1;
                oldest = oldest.min(since);
            }
            self.flight.settle(number, outcome, &mut self.settled);
        }
        self.fates = fates;
        (acked, oldest)
    }

    fn outcome(&self, topic: Topic, fate: Fate) -> Outcome {
        let name = &self.names[index(topic)];
        match fate {
            Ok((partition, offset)) if offset >= 0 => {
                let epoch = *self.layout.epochs(topic).end();
                Ok(self.layout.position(epoch, partition, offset))
            }
            // A repeat the broker knows as one, too old for it to know where the first stands.
            Ok(_) => Err(EngineError::Unavailable(format!(
                "{name}: stored, but the broker could not say where any more"
            ))),
            Err(code) => {
                let last_word = self.client.as_ref().ok().and_then(Client::last_word);
                Err(failed::error(name, code, last_word.as_deref()))
            }
        }
    }

    /// Fails what should have been told of by now.
    fn expire(&mut self, now: Instant) {
        let Some(until) = now.checked_sub(self.delivery_timeout + GRACE) else { return };
        let late = |topic: Topic| {
            let last_word = self.client.as_ref().ok().and_then(Client::last_word);
            let code = RDKafkaErrorCode::MessageTimedOut;
            failed::error(&self.names[index(topic)], code, last_word.as_deref())
        };
        self.flight.expire(until, late, &mut self.settled);
    }

    /// Tells what came out of flight.
    fn tell(&mut self) {
        if self.settled.messages > 0 {
            self.shared.queue.release(std::mem::take(&mut self.settled.messages));
        }
        for (promise, outcome) in self.settled.promises.drain(..) {
            self.wakeups.complete(promise, outcome);
        }
        self.wakeups.flush();
    }

    /// Gives up a client that can't go on, and what it had in flight.
    fn bury(&mut self, reason: String) {
        let lived = self.made.elapsed();
        self.pause = match lived >= CLIENT_LIFE_MIN {
            true => Duration::ZERO,
            false => (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX),
        };
        tracing::error!(reason, pause = ?self.pause, "the Kafka client can't go on; a new one is made");
        let error = EngineError::Unavailable(format!("the Kafka client can't go on: {reason}"));
        self.flight.fail_all(&error, &mut self.settled);
        let until = Instant::now() + self.pause;
        let client = std::mem::replace(&mut self.client, Err(Dead { reason, until }));
        // Its end takes as long as its connections'.
        let burial = std::thread::Builder::new().name("payfold-log-end".to_owned());
        if let Err(error) = burial.spawn(move || drop(client)) {
            tracing::warn!(%error, "there was no thread to end the Kafka client on");
        }
    }

    /// Makes the next client when its time has come.
    fn revive(&mut self) {
        let now = Instant::now();
        let Err(dead) = &mut self.client else { return };
        if now < dead.until {
            return;
        }
        match self.factory.make() {
            Ok(client) => {
                (self.client, self.made) = (Ok(client), now);
                tracing::info!("a new Kafka client is made");
            }
            Err(error) => {
                self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
                tracing::error!(%error, pause = ?self.pause, "no new Kafka client could be made");
                *dead = Dead { reason: error.to_string(), until: now + self.pause };
            }
        }
    }
}

/// The topic's place among all.
fn index(topic: Topic) -> usize {
    match topic {
        Topic::Intake => 0,
        Topic::Orders => 1,
        Topic::Findings => 2,
        Topic::Quarantine => 3,
    }
}

/// Leaves nobody waiting, however the pump ends.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.queue.close();
        let mut left = Vec::new();
        self.0.queue.take(&mut left, None);
        drop(left);
        self.0.ended.send_replace(true);
    }
}
