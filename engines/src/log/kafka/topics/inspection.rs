//! Owns reading the state of the log's topics from a cluster: which exist, their settings, and the
//! first message of each partition. It judges nothing. Invariants: each request covers all
//! partitions, however many there are; reading never makes a topic.

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
use super::cluster_state::{ClusterState, FirstMessage, TopicState};
use crate::EngineError;
use crate::blocking::blocking;
use crate::log::Topic;
use crate::log::epoch::EPOCHS;

/// How long a cluster may take to answer one request.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// After a first message that can't be decompressed, how long to wait for those of other topics.
const OTHERS_MAX: Duration = Duration::from_secs(1);

/// How many characters of a foreign key a message to a person shows.
const KEY_CHARS_MAX: usize = 64;

/// How long a partition may have no leader: it is just made, or its broker died.
const LEADER_MAX: Duration = Duration::from_secs(15);

/// The pause before asking again for something that takes a moment.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How long to wait for librdkafka's reason after a failure.
const REASON_MAX: Duration = Duration::from_millis(200);

/// How much of the topics to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InspectionDepth {
    /// Topics, partitions and markers.
    Markers,
    /// Also the topics' settings.
    Settings,
}

impl ClusterState {
    /// Reads the state of the log's topics. Errors: `Unavailable`, `Invalid` for settings that
    /// librdkafka refuses.
    pub(super) async fn read(
        settings: &KafkaSettings,
        depth: InspectionDepth,
    ) -> Result<Self, EngineError> {
        let (layout, config) = (settings.layout(), consumer(settings));
        let brokers = settings.brokers.join(",");
        let state = blocking(move || read_state(&config, &layout)).await?;
        let mut seen = ClusterState { brokers, ..state };
        if depth == InspectionDepth::Settings && !seen.topics.is_empty() {
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
                EngineError::Unavailable(format!("can't read a topic's settings: {code}"))
            })?;
            let OwnedResourceSpecifier::Topic(name) = &answer.specifier else { continue };
            let values = answer.entries.iter();
            let values = values
                .filter_map(|entry| Some((entry.name.clone(), entry.value.clone()?)))
                .collect();
            let of_log = self.topics.iter_mut();
            let named = of_log.map(|((topic, epoch), seen)| (layout.name(*topic, *epoch), seen));
            let latest = self.latest.as_mut().map(|seen| (layout.latest(), seen));
            if let Some((_, seen)) = named.chain(latest).find(|(of, _)| of == name) {
                seen.settings = Some(values);
            }
        }
        Ok(())
    }
}

/// Makes an admin client.
pub(in crate::log::kafka) fn admin(
    settings: &KafkaSettings,
) -> Result<AdminClient<Context>, EngineError> {
    AdminClient::from_config_and_context(&settings.base(), Context::default()).map_err(refused)
}

fn refused(error: KafkaError) -> EngineError {
    EngineError::Invalid(format!("the Kafka client: {error}"))
}

/// The error of a request that got no answer.
pub(super) fn unreachable(error: &KafkaError, context: &Context) -> EngineError {
    let reason = context.last_error().map(|reason| format!(" ({reason})")).unwrap_or_default();
    EngineError::Unavailable(format!("Kafka did not answer: {error}{reason}"))
}

/// The settings of a consumer that fetches little, because it reads first messages only.
fn consumer(settings: &KafkaSettings) -> ClientConfig {
    let mut config = settings.consumer(&format!("{}.topics", settings.prefix));
    config
        .set("fetch.message.max.bytes", "4096")
        .set("queued.min.messages", "1")
        .set("fetch.wait.max.ms", "10");
    config
}

/// The consumer's context, which keeps the last error.
struct InspectionContext(Context);

impl ClientContext for InspectionContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ConsumerContext for InspectionContext {}

fn read_state(config: &ClientConfig, layout: &Layout) -> Result<ClusterState, EngineError> {
    let consumer =
        BaseConsumer::from_config_and_context(config, InspectionContext(Context::default()));
    let consumer: BaseConsumer<InspectionContext> = consumer.map_err(refused)?;
    let mut seen = read_topics(&consumer, layout)?;
    if !seen.topics.is_empty() {
        read_first_messages(&consumer, layout, &mut seen)?;
    }
    Ok(seen)
}

fn failed(consumer: &BaseConsumer<InspectionContext>, error: &KafkaError) -> EngineError {
    // librdkafka reports the reason by a callback, which runs in `poll`.
    let deadline = Instant::now() + REASON_MAX;
    while consumer.context().0.last_error().is_none() && Instant::now() < deadline {
        let _ = consumer.poll(Duration::from_millis(10));
    }
    unreachable(error, &consumer.context().0)
}

/// Reads which topics exist, and their partitions.
fn read_topics(
    consumer: &BaseConsumer<InspectionContext>,
    layout: &Layout,
) -> Result<ClusterState, EngineError> {
    // Metadata of all topics, because a request for a missing topic may make it.
    let metadata =
        consumer.fetch_metadata(None, ANSWER_MAX).map_err(|error| failed(consumer, &error))?;
    let mut seen = ClusterState::default();
    for found in metadata.topics() {
        let known = Topic::ALL.into_iter().find_map(|topic| {
            layout
                .epochs(topic)
                .find(|epoch| layout.name(topic, *epoch) == found.name())
                .map(|epoch| (topic, epoch))
        });
        let as_it_is = || {
            let copies = found.partitions().iter().map(|one| one.replicas().len()).min();
            let partitions = found.partitions().iter().map(|one| (one.id(), FirstMessage::Nothing));
            TopicState {
                partitions: partitions.collect(),
                replication: copies.unwrap_or(0),
                ..TopicState::default()
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

/// Reads the first message of each partition.
fn read_first_messages(
    consumer: &BaseConsumer<InspectionContext>,
    layout: &Layout,
    seen: &mut ClusterState,
) -> Result<(), EngineError> {
    let mut places = HashMap::new();
    for ((topic, epoch), one) in &seen.topics {
        for partition in one.partitions.keys() {
            places.insert((layout.name(*topic, *epoch), *partition), (*topic, *epoch));
        }
    }
    let all: Vec<_> = places.keys().cloned().collect();
    let earliest = read_offsets(consumer, &all, Offset::Beginning)?;
    let latest = read_offsets(consumer, &all, Offset::End)?;
    let mut filled = TopicPartitionList::new();
    for (place, (topic, epoch)) in &places {
        let (first, end) = (earliest[place], latest[place]);
        let found =
            if first > 0 { FirstMessage::Removed { until: first } } else { FirstMessage::Nothing };
        if first == 0 && end > 0 {
            filled
                .add_partition_offset(&place.0, place.1, Offset::Offset(0))
                .map_err(|error| failed(consumer, &error))?;
        }
        let one = seen.topics.get_mut(&(*topic, *epoch)).expect("places come from topics");
        one.partitions.insert(place.1, found);
        one.ends.insert(place.1, end);
    }
    for (place, first) in consume_first_messages(consumer, &filled)? {
        let (topic, epoch) = places[&place];
        let one = seen.topics.get_mut(&(topic, epoch)).expect("places come from topics");
        one.partitions.insert(place.1, first);
    }
    Ok(())
}

/// Reads the first or the last offset of each of these partitions. Waits up to `LEADER_MAX` for a
/// partition that has no leader, as in a topic that is just made. Errors: `Unavailable`.
fn read_offsets(
    consumer: &BaseConsumer<InspectionContext>,
    places: &[(String, i32)],
    at: Offset,
) -> Result<HashMap<(String, i32), i64>, EngineError> {
    let deadline = Instant::now() + LEADER_MAX;
    loop {
        let mut list = TopicPartitionList::new();
        for (name, partition) in places {
            // ListOffsets takes "beginning" and "end" as special timestamps.
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
                            format!("partition {partition} of {name} has no leader; retry later");
                        return Err(EngineError::Unavailable(text));
                    }
                    Some(_) => {}
                }
            }
            Err(error) if is_leaderless(&error) && !late => {}
            Err(error) => return Err(failed(consumer, &error)),
        }
        std::thread::sleep(RETRY_PAUSE);
    }
}

/// Consumes the first message of each of these partitions, which are not empty.
fn consume_first_messages(
    consumer: &BaseConsumer<InspectionContext>,
    filled: &TopicPartitionList,
) -> Result<HashMap<(String, i32), FirstMessage>, EngineError> {
    let left = filled.count();
    consumer.assign(filled).map_err(|error| failed(consumer, &error))?;
    let mut deadline = Instant::now() + ANSWER_MAX;
    let mut read = HashMap::new();
    let mut codec_error = None;
    while read.len() < left {
        let wait = deadline.saturating_duration_since(Instant::now());
        match consumer.poll(wait.min(Duration::from_millis(100))) {
            Some(Ok(message)) => {
                let place = (message.topic().to_owned(), message.partition());
                let first = match message.offset() {
                    0 => first_of(&message),
                    until => FirstMessage::Removed { until },
                };
                read.entry(place).or_insert(first);
            }
            // librdkafka reconnects by itself; an error that lasts comes again until the deadline.
            Some(Err(error)) if is_transient(&error) && !wait.is_zero() => {}
            Some(Err(error)) if error.rdkafka_error_code() == Some(Code::NotImplemented) => {
                // The error doesn't name the topic. The readable topics' messages come meanwhile,
                // and the topic without one is named.
                codec_error.get_or_insert(error);
                deadline = deadline.min(Instant::now() + OTHERS_MAX);
            }
            Some(Err(error)) => return Err(failed(consumer, &error)),
            None if wait.is_zero() => {
                let late = KafkaError::MessageConsumption(Code::OperationTimedOut);
                return Err(match codec_error {
                    Some(error) => unreadable_codec(filled, &read, &error),
                    None => failed(consumer, &late),
                });
            }
            None => {}
        }
    }
    Ok(read)
}

/// The error for topics with messages that can't be decompressed: those without a message read.
fn unreadable_codec(
    filled: &TopicPartitionList,
    read: &HashMap<(String, i32), FirstMessage>,
    error: &KafkaError,
) -> EngineError {
    let unread = filled.to_topic_map().into_keys().filter(|place| !read.contains_key(place));
    let names: BTreeSet<String> = unread.map(|(name, _)| name).collect();
    EngineError::Invalid(format!(
        "{}: its messages are compressed with a codec this program can't read: {error}; mend: set \
         compression.type=producer on it, then delete it and make it again",
        names.into_iter().collect::<Vec<_>>().join(", ")
    ))
}

fn first_of(message: &BorrowedMessage<'_>) -> FirstMessage {
    let is_marker = message.headers().is_some_and(|headers| {
        (0..headers.count()).any(|at| {
            let header = headers.get(at);
            header.key == TYPE_HEADER && header.value == Some(MARKER_TYPE.as_bytes())
        })
    });
    let marker = message.payload().filter(|_| is_marker).and_then(Marker::decode);
    marker.map_or_else(
        || FirstMessage::Other { key: shortened_key(message.key()) },
        FirstMessage::Marker,
    )
}

/// The part of a key that a message to a person shows.
fn shortened_key(key: Option<&[u8]>) -> String {
    String::from_utf8_lossy(key.unwrap_or_default()).chars().take(KEY_CHARS_MAX).collect()
}

/// Whether librdkafka may recover from an error by itself.
fn is_transient(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    is_leaderless(error)
        || matches!(
            code,
            Some(Code::BrokerTransportFailure | Code::AllBrokersDown | Code::OperationTimedOut)
        )
}

/// Whether a partition has no leader now, or the broker that was asked is not its leader.
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
