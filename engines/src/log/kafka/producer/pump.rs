//! Owns the thread between appenders and the client: it hands over everything queued in one burst, collects
//! what the client tells, and wakes whoever waited for it in bulk.
//! Invariants: a number is handed to one client once; while messages are in flight the thread looks every
//! `BEAT`, and nobody has to wake it; a client that is of no use any more takes what it had in flight with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::error::RDKafkaErrorCode;

use super::Shared;
use super::client::{Client, Factory, Fate, Outgoing};
use super::flight::{Entry, Flight, Owner, Settled};
use super::work::Work;
use crate::EngineError;
use crate::log::kafka::layout::Layout;
use crate::log::kafka::settings::KafkaSettings;
use crate::log::queue::{Job, Taken};
use crate::log::waiters::{HANDOVER_MAX, Outcome, Wakeups};
use crate::log::{Message, Topic};

/// How long the thread sleeps between two looks while messages are in flight.
const BEAT: Duration = Duration::from_micros(250);

/// How often it looks while none are: the client's log is kept for it until then.
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
    /// What is written to, by topic.
    names: [String; Topic::ALL.len()],
    delivery_timeout: Duration,
    flight: Flight,
    fates: Vec<(usize, Fate)>,
    settled: Settled,
    wakeups: Wakeups,
    client: Option<Client>,
    /// When the client was made, or is to be.
    made: Instant,
    pause: Duration,
}

impl Pump {
    pub(super) fn new(shared: Arc<Shared>, settings: &KafkaSettings, factory: Factory) -> Self {
        let layout = settings.layout();
        Self {
            shared,
            factory,
            names: Topic::ALL.map(|topic| layout.current(topic)),
            layout,
            delivery_timeout: settings.delivery_timeout,
            flight: Flight::default(),
            fates: Vec::new(),
            settled: Settled::default(),
            wakeups: Wakeups::default(),
            client: None,
            made: Instant::now(),
            pause: Duration::ZERO,
        }
    }

    /// Pumps until the queue is closed and empty and nothing is in flight.
    pub(super) fn run(mut self, client: Client) {
        let shared = Arc::clone(&self.shared);
        let _ended = Ended(&shared);
        self.client = Some(client);
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

    fn take(&mut self, group: &mut Vec<Job<Work>>) -> Taken {
        let handing_over = self.wakeups.sweep();
        if self.flight.is_empty() {
            let patience = if handing_over { HANDOVER_MAX } else { IDLE };
            return self.shared.queue.take(group, Some(patience));
        }
        std::thread::sleep(BEAT);
        self.shared.queue.take(group, Some(Duration::ZERO))
    }

    /// Hands everything taken to the client.
    fn hand_over(&mut self, group: &mut Vec<Job<Work>>) {
        let since = Instant::now();
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
        let Some(client) = &self.client else {
            return Err(EngineError::Unavailable(
                "the Kafka client failed and the next one is not up yet".to_owned(),
            ));
        };
        client
            .send(Outgoing::message(&self.names[index(topic)], message), self.flight.next_number())
            .map_err(|code| self.failed(topic, code))
    }

    /// Collects what the client tells, and tells the appenders.
    fn collect(&mut self) {
        let now = Instant::now();
        let mut fatal = None;
        if let Some(client) = &self.client {
            client.collect(&mut self.fates);
            fatal = client.fatal_error();
        }
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
        if let Some(reason) = fatal {
            self.bury(&reason);
        }
        self.expire(now);
        self.tell();
        if acked > 0
            && let Some(observer) = &self.shared.commits
        {
            observer(acked, now.duration_since(oldest));
        }
    }

    fn expire(&mut self, now: Instant) {
        let Some(until) = now.checked_sub(self.delivery_timeout + GRACE) else { return };
        let late = EngineError::Unavailable(format!(
            "the brokers did not acknowledge within {:?}{}",
            self.delivery_timeout,
            self.last_word()
        ));
        self.flight.expire(until, &late, &mut self.settled);
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

    fn outcome(&self, topic: Topic, fate: Fate) -> Outcome {
        match fate {
            Ok((partition, offset)) if offset >= 0 => {
                let epoch = *self.layout.epochs(topic).end();
                Ok(self.layout.position(epoch, partition, offset))
            }
            Ok(_) => Err(EngineError::Unavailable(
                "stored, but the brokers could not say where: they took it for a repeat".to_owned(),
            )),
            Err(code) => Err(self.failed(topic, code)),
        }
    }

    /// What a message's failure means at the seam.
    fn failed(&self, topic: Topic, code: RDKafkaErrorCode) -> EngineError {
        let name = &self.names[index(topic)];
        let text = format!("{name}: {code}{}", self.last_word());
        match code {
            RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidRecord => {
                EngineError::Invalid(text)
            }
            _ => EngineError::Unavailable(text),
        }
    }

    fn last_word(&self) -> String {
        match self.client.as_ref().and_then(Client::last_error) {
            Some(reason) => format!("; last the client said: {reason}"),
            None => String::new(),
        }
    }

    /// Gives up a client that can't go on, and what it had in flight.
    fn bury(&mut self, reason: &str) {
        let lived = self.made.elapsed();
        self.pause = match lived >= CLIENT_LIFE_MIN {
            true => Duration::ZERO,
            false => (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX),
        };
        self.made = Instant::now() + self.pause;
        tracing::error!(reason, pause = ?self.pause, "the Kafka client can't go on; a new one is made");
        let error = EngineError::Unavailable(format!("the Kafka client can't go on: {reason}"));
        self.flight.fail_all(&error, &mut self.settled);
        let client = self.client.take();
        // Its end may take as long as its connections do.
        let burial = std::thread::Builder::new().name("payfold-log-end".to_owned());
        if let Err(error) = burial.spawn(move || drop(client)) {
            tracing::warn!(%error, "no thread for the end of a Kafka client");
        }
    }

    /// Makes the next client when its time has come.
    fn revive(&mut self) {
        if self.client.is_some() || Instant::now() < self.made {
            return;
        }
        self.made = Instant::now();
        match self.factory.make() {
            Ok(client) => self.client = Some(client),
            Err(error) => {
                self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
                self.made += self.pause;
                tracing::error!(%error, pause = ?self.pause, "no new Kafka client could be made");
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
