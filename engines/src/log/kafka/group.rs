//! Owns what consumers are told by librdkafka: errors, and which partitions come and go.
//!
//! A partition that is given stands still (paused) until somebody says where it begins; one that is taken is not
//! delivered any more from that moment, and is let go when its reader has finished, or after `RELEASE_MAX`.
//! Invariant: `Held` has exactly the partitions this consumer may deliver, each with the offset that comes next, so
//! that a gap is seen and nothing is delivered twice or out of order between two changes of hands.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, Statistics, TopicPartitionList};
use tokio::sync::mpsc;

use super::context::Context;
use super::missed::{Counted, Missed};
use crate::log::{Delivered, RELEASE_MAX};
use crate::{EngineError, lock};

/// What the reader thread tells.
#[derive(Debug)]
pub(super) enum News {
    /// With the round (`Held::round`) they came in.
    Messages(u64, Vec<Delivered>),
    /// Kafka's partitions.
    Given(Vec<i32>),
    Taken(Vec<i32>),
    Lost(Vec<i32>),
    Failed(EngineError),
}

/// Hears what a client says, and says it on.
#[derive(Debug, Default)]
pub(super) struct Quiet(Context);

impl Quiet {
    /// A request that failed.
    pub(super) fn unavailable(&self, error: &KafkaError) -> EngineError {
        EngineError::Unavailable(format!("Kafka: {error}{}", self.reason()))
    }

    /// An answer that did not come in time.
    pub(super) fn late(&self, what: &str) -> EngineError {
        EngineError::Unavailable(format!("Kafka did not send {what} in time{}", self.reason()))
    }

    pub(super) fn reason(&self) -> String {
        self.0.last_error().map(|reason| format!(" ({reason})")).unwrap_or_default()
    }
}

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ConsumerContext for Quiet {}

/// The partitions a consumer may deliver.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Those given, each with the offset its next message has; none until it begins, or while it begins at
    /// its first message whatever that is.
    pub(super) partitions: BTreeMap<i32, Option<i64>>,
    /// Handed to the reader and not begun.
    pub(super) standing: Vec<i32>,
    /// The offset after the last one the group was told is done; it never goes back.
    pub(super) acked: BTreeMap<i32, i64>,
    /// How often partitions went so far.
    pub(super) round: u64,
    /// The round in which each of `partitions` came.
    pub(super) since: BTreeMap<i32, u64>,
    /// Of partitions that went, the offset after the last one that was delivered.
    pub(super) before: BTreeMap<i32, i64>,
    /// Taken, and not let go by the reader yet.
    taken: bool,
    /// The reader is gone: nobody finishes anything.
    closing: bool,
}

/// How a reader's consumer takes part in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Not at all.
    Alone,
    /// Goes on after what the group acknowledged.
    Member,
    /// Its reader says where each partition begins, and finishes what is taken.
    Keeper,
}

/// What a reader's consumer is told.
pub(super) struct Group {
    quiet: Quiet,
    part: Part,
    /// How many partitions the log has in the topic a group shares out; none for who reads alone.
    partitions: Option<u32>,
    held: Mutex<Held>,
    released: Condvar,
    missed: Mutex<Missed>,
    /// Its partitions may not be all that are its own: it has to join anew.
    join_anew: AtomicBool,
    news: mpsc::UnboundedSender<News>,
}

impl Group {
    pub(super) fn new(
        part: Part,
        partitions: Option<u32>,
        news: mpsc::UnboundedSender<News>,
    ) -> Self {
        Self {
            quiet: Quiet::default(),
            part,
            partitions,
            held: Mutex::default(),
            released: Condvar::new(),
            missed: Mutex::default(),
            join_anew: AtomicBool::new(false),
            news,
        }
    }

    pub(super) fn quiet(&self) -> &Quiet {
        &self.quiet
    }

    /// Looks at what is held, or changes it.
    pub(super) fn held<T>(&self, look: impl FnOnce(&mut Held) -> T) -> T {
        look(&mut lock(&self.held))
    }

    /// The reader has finished what was taken.
    pub(super) fn release(&self) {
        self.held(|held| held.taken = false);
        self.released.notify_all();
    }

    /// The reader is gone.
    pub(super) fn close(&self) {
        self.held(|held| held.closing = true);
        self.released.notify_all();
    }

    /// Whether it has to leave its group and join it anew; it is said once.
    pub(super) fn has_to_join_anew(&self) -> bool {
        self.join_anew.swap(false, Ordering::AcqRel)
    }

    pub(super) fn tell(&self, news: News) {
        // Nobody listens any more while a reader is dropped.
        let _ = self.news.send(news);
    }

    /// Whether a partition of Kafka is one of the log. Those that somebody added to the topic are shared out among the
    /// members, too: they stay assigned and paused, and are told to nobody.
    pub(super) fn is_of_log(&self, partition: i32) -> bool {
        let number = u32::try_from(partition).unwrap_or(u32::MAX);
        self.partitions.is_none_or(|partitions| number < partitions)
    }

    /// The partitions of the log among these, by Kafka's numbers.
    fn of_log(&self, list: &TopicPartitionList) -> Vec<i32> {
        let numbers = list.elements().into_iter().map(|element| element.partition());
        numbers.filter(|partition| self.is_of_log(*partition)).collect()
    }

    /// Partitions came. They stand until they begin.
    fn given(&self, consumer: &BaseConsumer<Self>, list: &mut TopicPartitionList) {
        let partitions = self.of_log(list);
        if partitions.len() < list.count() {
            let (added, topic) = (list.count() - partitions.len(), list.elements());
            let topic = topic.first().map(|element| element.topic().to_owned());
            tracing::warn!(
                topic,
                added,
                "partitions were added to a topic of the log: no key belongs there, and nothing reads them; \
                 `payfold check --connect` says what they hold"
            );
        }
        // An offset that is known, not "the beginning": the client would ask for that again after it was sought away.
        let assigned = list
            .set_all_offsets(Offset::Offset(0))
            .and_then(|()| match consumer.rebalance_protocol() {
                RebalanceProtocol::Cooperative => consumer.incremental_assign(list),
                RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.assign(list),
            })
            .and_then(|()| consumer.pause(list));
        if let Err(error) = assigned {
            self.tell(News::Failed(broken("take over partitions", &error)));
            return;
        }
        self.held(|held| {
            held.partitions.extend(partitions.iter().map(|partition| (*partition, None)));
            let round = held.round;
            held.since.extend(partitions.iter().map(|partition| (*partition, round)));
            held.standing.extend(&partitions);
        });
        if self.part == Part::Keeper && !partitions.is_empty() {
            self.tell(News::Given(partitions));
        }
    }

    /// Partitions go. Their reader may finish what it has of them, unless they are another's already.
    fn taken(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        let partitions = self.of_log(list);
        let lost = consumer.assignment_lost();
        let begun = self.held(|held| {
            partitions.iter().for_each(|partition| {
                if let Some(Some(next)) = held.partitions.remove(partition) {
                    held.before.insert(*partition, next);
                }
                held.acked.remove(partition);
                held.since.remove(partition);
            });
            held.round += 1;
            held.standing.retain(|one| !partitions.contains(one));
            held.taken = self.part == Part::Keeper && !lost && !partitions.is_empty();
            held.taken
        });
        if lost && self.part == Part::Keeper && !partitions.is_empty() {
            self.tell(News::Lost(partitions.clone()));
        }
        if begun {
            self.tell(News::Taken(partitions.clone()));
            if !self.await_release() {
                self.tell(News::Lost(partitions));
            }
        }
        let unassigned = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(list),
            RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.unassign(),
        };
        if let Err(error) = unassigned {
            self.tell(News::Failed(broken("let partitions go", &error)));
        }
    }

    /// Waits until the reader has let go; false when it took too long.
    fn await_release(&self) -> bool {
        let until = Instant::now() + RELEASE_MAX;
        let mut held = lock(&self.held);
        while held.taken && !held.closing {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                held.taken = false;
                return false;
            }
            let waited = self.released.wait_timeout(held, left);
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// The group goes on to count on this consumer, which does not go on: only leaving helps.
pub(super) fn broken(what: &str, error: &KafkaError) -> EngineError {
    EngineError::Invalid(format!("this reader could not {what}: {error}; start the process again"))
}

impl ClientContext for Group {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.quiet.log(level, facility, message);
    }

    fn stats(&self, statistics: Statistics) {
        if lock(&self.missed).looked(Counted::of(&statistics), Instant::now()) {
            self.join_anew.store(true, Ordering::Release);
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.quiet.error(error, reason);
    }
}

impl ConsumerContext for Group {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        what: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        match what {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => self.given(consumer, list),
            _ => self.taken(consumer, list),
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        if let Err(error) = result {
            tracing::debug!(%error, "a group's place was not remembered");
        }
    }
}
