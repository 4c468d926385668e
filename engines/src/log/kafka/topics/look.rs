//! Owns the look at a cluster: which topics of ours it has, how they are set, and what each partition begins
//! with. Nothing here judges.
//! Invariant: one round of requests over all partitions, however many there are; nothing is made by looking.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, OwnedResourceSpecifier, ResourceSpecifier};
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::super::context::Context;
use super::super::layout::Layout;
use super::super::marker::{MARKER_TYPE, Marker, TYPE_HEADER};
use super::super::settings::KafkaSettings;
use super::seen::{First, Seen, SeenTopic};
use crate::EngineError;
use crate::blocking::blocking;
use crate::log::Topic;
use crate::log::epoch::EPOCHS;

/// How long a cluster may take to answer one request.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long the first messages of other topics are waited for once one could not be read.
const OTHERS_MAX: Duration = Duration::from_secs(1);

/// Characters of a key that is no order's, in messages.
const KEY_CHARS_MAX: usize = 64;

/// How long partitions may be without a leader: those of a topic that is just made, or of a broker that died.
const LEADER_MAX: Duration = Duration::from_secs(15);

/// Between two questions for what is there in a moment.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long the reason of a failure is looked for.
const REASON_MAX: Duration = Duration::from_millis(200);

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Topics, partitions and markers.
    Markers,
    /// The topics' settings too.
    Settings,
}

impl Seen {
    /// Looks. Errors: `Unavailable`, `Invalid` for settings the client refuses.
    pub(super) async fn look(settings: &KafkaSettings, depth: Depth) -> Result<Self, EngineError> {
        let (layout, config) = (settings.layout(), consumer(settings));
        let brokers = settings.brokers.join(",");
        let looked = blocking(move || look(&config, &layout)).await?;
        let mut seen = Seen { brokers, ..looked };
        if depth == Depth::Settings && !seen.topics.is_empty() {
            seen.read_settings(settings).await?;
        }
        Ok(seen)
    }

    async fn read_settings(&mut self, settings: &KafkaSettings) -> Result<(), EngineError> {
        let layout = settings.layout();
        let mut names: Vec<String> =
            self.topics.keys().map(|(topic, epoch)| layout.name(*topic, *epoch)).collect();
        names.extend(self.latest.is_some().then(|| layout.latest()));
        let wanted: Vec<_> = names.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
        let admin = admin(settings)?;
        let options = AdminOptions::new().request_timeout(Some(ANSWER_MAX));
        let answers = admin
            .describe_configs(&wanted, &options)
            .await
            .map_err(|error| unreachable(&error, admin.inner().context()))?;
        for answer in answers {
            let answer = answer.map_err(|code| {
                EngineError::Unavailable(format!("a topic's settings can't be read: {code}"))
            })?;
            let OwnedResourceSpecifier::Topic(name) = &answer.specifier else { continue };
            let values = answer.entries.iter();
            let values = values
                .filter_map(|entry| Some((entry.name.clone(), entry.value.clone()?)))
                .collect();
            let of_log = self.topics.iter_mut();
            let named = of_log.map(|((topic, epoch), seen)| (layout.name(*topic, *epoch), seen));
            let twin = self.latest.as_mut().map(|seen| (layout.latest(), seen));
            if let Some((_, seen)) = named.chain(twin).find(|(of, _)| of == name) {
                seen.settings = Some(values);
            }
        }
        Ok(())
    }
}

/// A client for what only administrators ask.
pub(in crate::log::kafka) fn admin(
    settings: &KafkaSettings,
) -> Result<AdminClient<Context>, EngineError> {
    AdminClient::from_config_and_context(&settings.base(), Context::default()).map_err(refused)
}

fn refused(error: KafkaError) -> EngineError {
    EngineError::Invalid(format!("the Kafka client: {error}"))
}

/// A request that got no answer.
pub(super) fn unreachable(error: &KafkaError, context: &Context) -> EngineError {
    let reason = context.last_error().map(|reason| format!(" ({reason})")).unwrap_or_default();
    EngineError::Unavailable(format!("Kafka did not answer: {error}{reason}"))
}

/// A consumer that fetches little: only first messages are read.
fn consumer(settings: &KafkaSettings) -> ClientConfig {
    let mut config = settings.consumer(&format!("{}.topics", settings.prefix));
    config
        .set("fetch.message.max.bytes", "4096")
        .set("queued.min.messages", "1")
        .set("fetch.wait.max.ms", "10");
    config
}

/// Hears what the consumer says besides messages.
struct Ear(Context);

impl ClientContext for Ear {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ConsumerContext for Ear {}

fn look(config: &ClientConfig, layout: &Layout) -> Result<Seen, EngineError> {
    let consumer = BaseConsumer::from_config_and_context(config, Ear(Context::default()));
    let consumer: BaseConsumer<Ear> = consumer.map_err(refused)?;
    let mut seen = topics(&consumer, layout)?;
    if !seen.topics.is_empty() {
        firsts(&consumer, layout, &mut seen)?;
    }
    Ok(seen)
}

fn failed(consumer: &BaseConsumer<Ear>, error: &KafkaError) -> EngineError {
    // The reason lies in the client's queue until somebody polls.
    let deadline = Instant::now() + REASON_MAX;
    while consumer.context().0.last_error().is_none() && Instant::now() < deadline {
        let _ = consumer.poll(Duration::from_millis(10));
    }
    unreachable(error, &consumer.context().0)
}

/// Which topics there are, with which partitions.
fn topics(consumer: &BaseConsumer<Ear>, layout: &Layout) -> Result<Seen, EngineError> {
    // All topics, because asking for one that is not there may make it.
    let metadata =
        consumer.fetch_metadata(None, ANSWER_MAX).map_err(|error| failed(consumer, &error))?;
    let mut seen = Seen::default();
    for found in metadata.topics() {
        let known = Topic::ALL.into_iter().find_map(|topic| {
            layout
                .epochs(topic)
                .find(|epoch| layout.name(topic, *epoch) == found.name())
                .map(|epoch| (topic, epoch))
        });
        let as_it_is = || {
            let copies = found.partitions().iter().map(|one| one.replicas().len()).min();
            let partitions = found.partitions().iter().map(|one| (one.id(), First::Nothing));
            SeenTopic {
                partitions: partitions.collect(),
                replication: copies.unwrap_or(0),
                ..SeenTopic::default()
            }
        };
        if let Some(known) = known {
            seen.topics.insert(known, as_it_is());
        }
        if found.name() == layout.latest() {
            seen.latest = Some(as_it_is());
        }
        let later = (layout.epoch() + 1..EPOCHS)
            .find(|epoch| layout.name(Topic::Intake, *epoch) == found.name());
        seen.later_epochs.extend(later);
    }
    seen.later_epochs.sort_unstable();
    Ok(seen)
}

/// What each partition begins with.
fn firsts(
    consumer: &BaseConsumer<Ear>,
    layout: &Layout,
    seen: &mut Seen,
) -> Result<(), EngineError> {
    let mut places = HashMap::new();
    for ((topic, epoch), one) in &seen.topics {
        for partition in one.partitions.keys() {
            places.insert((layout.name(*topic, *epoch), *partition), (*topic, *epoch));
        }
    }
    let all: Vec<_> = places.keys().cloned().collect();
    let earliest = ends(consumer, &all, Offset::Beginning)?;
    let latest = ends(consumer, &all, Offset::End)?;
    let mut filled = TopicPartitionList::new();
    for (place, (topic, epoch)) in &places {
        let (first, end) = (earliest[place], latest[place]);
        let found = if first > 0 { First::Removed { until: first } } else { First::Nothing };
        if first == 0 && end > 0 {
            filled
                .add_partition_offset(&place.0, place.1, Offset::Offset(0))
                .map_err(|error| failed(consumer, &error))?;
        }
        let one = seen.topics.get_mut(&(*topic, *epoch)).expect("places come from topics");
        one.partitions.insert(place.1, found);
        one.ends.insert(place.1, end);
    }
    for (place, first) in read(consumer, &filled)? {
        let (topic, epoch) = places[&place];
        let one = seen.topics.get_mut(&(topic, epoch)).expect("places come from topics");
        one.partitions.insert(place.1, first);
    }
    Ok(())
}

/// One end of each of these partitions. A partition that has no leader at the moment, as those of a topic that is just
/// made, is asked again for a while. Errors: `Unavailable`.
fn ends(
    consumer: &BaseConsumer<Ear>,
    places: &[(String, i32)],
    at: Offset,
) -> Result<HashMap<(String, i32), i64>, EngineError> {
    let deadline = Instant::now() + LEADER_MAX;
    loop {
        let mut list = TopicPartitionList::new();
        for (name, partition) in places {
            // Kafka takes the two ends for times.
            let added = list.add_partition_offset(name, *partition, at);
            added.map_err(|error| failed(consumer, &error))?;
        }
        let late = Instant::now() >= deadline;
        match consumer.offsets_for_times(list, ANSWER_MAX) {
            Ok(found) => {
                let offsets = found.to_topic_map().into_iter().filter_map(|(place, at)| match at {
                    Offset::Offset(at) => Some((place, at)),
                    _ => None,
                });
                let offsets: HashMap<_, _> = offsets.collect();
                match places.iter().find(|place| !offsets.contains_key(place)) {
                    None => return Ok(offsets),
                    Some((name, partition)) if late => {
                        let text =
                            format!("{name} [{partition}] has no leader that tells its ends");
                        return Err(EngineError::Unavailable(text));
                    }
                    Some(_) => {}
                }
            }
            Err(error) if is_leaderless(&error) && !late => {}
            Err(error) => return Err(failed(consumer, &error)),
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The first message of each of these partitions, which have some.
fn read(
    consumer: &BaseConsumer<Ear>,
    filled: &TopicPartitionList,
) -> Result<HashMap<(String, i32), First>, EngineError> {
    let left = filled.count();
    consumer.assign(filled).map_err(|error| failed(consumer, &error))?;
    let mut deadline = Instant::now() + ANSWER_MAX;
    let mut read = HashMap::new();
    let mut packed = None;
    while read.len() < left {
        let wait = deadline.saturating_duration_since(Instant::now());
        match consumer.poll(wait.min(Duration::from_millis(100))) {
            Some(Ok(message)) => {
                let place = (message.topic().to_owned(), message.partition());
                let first = match message.offset() {
                    0 => first_of(&message),
                    until => First::Removed { until },
                };
                read.entry(place).or_insert(first);
            }
            // A connection that broke is made again; what else goes wrong does so again.
            Some(Err(error)) if is_passing(&error) && !wait.is_zero() => {}
            Some(Err(error)) if error.rdkafka_error_code() == Some(Code::NotImplemented) => {
                // It does not say of which topic: those that can be read come meanwhile.
                packed.get_or_insert(error);
                deadline = deadline.min(Instant::now() + OTHERS_MAX);
            }
            Some(Err(error)) => return Err(failed(consumer, &error)),
            None if wait.is_zero() => {
                let late = KafkaError::MessageConsumption(Code::OperationTimedOut);
                return Err(match packed {
                    Some(error) => unpackable(filled, &read, &error),
                    None => failed(consumer, &late),
                });
            }
            None => {}
        }
    }
    Ok(read)
}

/// What is said of topics of which nothing can be unpacked: those that nothing was read of.
fn unpackable(
    filled: &TopicPartitionList,
    read: &HashMap<(String, i32), First>,
    error: &KafkaError,
) -> EngineError {
    let unread = filled.to_topic_map().into_keys().filter(|place| !read.contains_key(place));
    let names: BTreeSet<String> = unread.map(|(name, _)| name).collect();
    EngineError::Invalid(format!(
        "{}: its messages are packed with a codec this program can't read: {error}; mend: set \
         compression.type=producer on it and make it anew",
        names.into_iter().collect::<Vec<_>>().join(", ")
    ))
}

fn first_of(message: &BorrowedMessage<'_>) -> First {
    let is_marker = message.headers().is_some_and(|headers| {
        (0..headers.count()).any(|at| {
            let header = headers.get(at);
            header.key == TYPE_HEADER && header.value == Some(MARKER_TYPE.as_bytes())
        })
    });
    let marker = message.payload().filter(|_| is_marker).and_then(Marker::decode);
    marker.map_or_else(|| First::Other { key: beginning_of(message.key()) }, First::Marker)
}

/// A key as far as a message to a person shows it.
fn beginning_of(key: Option<&[u8]>) -> String {
    String::from_utf8_lossy(key.unwrap_or_default()).chars().take(KEY_CHARS_MAX).collect()
}

fn is_passing(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    is_leaderless(error)
        || matches!(
            code,
            Some(Code::BrokerTransportFailure | Code::AllBrokersDown | Code::OperationTimedOut)
        )
}

/// Whether a partition has no leader at the moment, or the one that was asked is it no more, or not yet.
fn is_leaderless(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    matches!(
        code,
        Some(
            Code::NotLeaderForPartition
                | Code::LeaderNotAvailable
                | Code::UnknownTopicOrPartition
                | Code::UnknownPartition
        )
    )
}
