//! Owns one client of librdkafka: how it is made, what it is handed, and what it tells back.
//! Invariant: what is handed over with a number is told back with that number, once, by the client that took it.

use std::sync::Mutex;
use std::time::Duration;

use payfold_schemas::event::SOURCE;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::statistics::Statistics;

use crate::log::kafka::context::{Context, StatisticsObserver};
use crate::log::kafka::settings::KafkaSettings;
use crate::log::{DeliveredEvent, Message};
use crate::{EngineError, lock};

/// How often the client tells its statistics if somebody listens, ms.
const STATISTICS_MS: &str = "10000";

/// The pause before a message that failed for now is sent again: from, and doubled up to. By default it grows to
/// a second, a quarter of the time a message has.
const RETRY_MS: &str = "50";
const RETRY_MAX_MS: &str = "250";

/// What became of a message: Kafka's partition and offset.
pub(in crate::log::kafka) type Fate = Result<(i32, i64), RDKafkaErrorCode>;

/// What the client told since it was asked last.
#[derive(Debug, Default)]
struct Told {
    fates: Vec<(usize, Fate)>,
    /// Counts everything it told, so that one can see whether a poll found anything.
    events: u64,
    /// What it complained about since a message was last durable.
    last_word: Option<String>,
}

/// Collects what the client tells. It is called on the pump's thread only, from within `poll`.
pub(in crate::log::kafka) struct Ear {
    context: Context,
    told: Mutex<Told>,
}

impl Ear {
    fn heard(&self) {
        lock(&self.told).events += 1;
    }
}

impl ClientContext for Ear {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.heard();
        self.context.log(level, facility, message);
    }

    fn stats(&self, statistics: Statistics) {
        self.heard();
        self.context.stats(statistics);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.heard();
        lock(&self.told).last_word = Some(reason.to_owned());
        self.context.error(error, reason);
    }
}

impl ProducerContext for Ear {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let fate = match result {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((error, _)) => Err(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)),
        };
        let mut told = lock(&self.told);
        told.events += 1;
        if fate.is_ok() && told.last_word.is_some() {
            told.last_word = None;
        }
        told.fates.push((number, fate));
    }
}

/// Makes clients, all alike.
pub(in crate::log::kafka) struct Factory {
    config: ClientConfig,
    observer: Option<StatisticsObserver>,
}

impl Factory {
    pub(in crate::log::kafka) fn new(
        settings: &KafkaSettings,
        observer: Option<StatisticsObserver>,
    ) -> Self {
        let mut config = settings.producer();
        let mut unless_set = |name: &str, value: &str| {
            if config.get(name).is_none() {
                config.set(name, value);
            }
        };
        if observer.is_some() {
            unless_set("statistics.interval.ms", STATISTICS_MS);
        }
        unless_set("retry.backoff.ms", RETRY_MS);
        unless_set("retry.backoff.max.ms", RETRY_MAX_MS);
        Self { config, observer }
    }

    /// Of clients that write in transactions under this name: who has begun last under it shuts the others out.
    pub(in crate::log::kafka) fn in_transactions(
        settings: &KafkaSettings,
        (name, timeout): (&str, Duration),
    ) -> Self {
        let mut factory = Self::new(settings, None);
        factory
            .config
            .set("transactional.id", name)
            .set("transaction.timeout.ms", timeout.as_millis().to_string());
        factory
    }

    /// Makes a client. Errors: `Invalid` for settings it refuses.
    pub(in crate::log::kafka) fn make(&self) -> Result<Client, EngineError> {
        let context = Context::new(self.observer.clone());
        let ear = Ear { context, told: Mutex::default() };
        let producer = BaseProducer::from_config_and_context(&self.config, ear)
            .map_err(|error| EngineError::Invalid(format!("the Kafka client: {error}")))?;
        Ok(Client { producer })
    }
}

/// What is handed over.
pub(in crate::log::kafka) struct Outgoing<'a> {
    pub(in crate::log::kafka) topic: &'a str,
    /// Kafka's number of the partition. The client's own partitioner goes by the broker's count, which may grow.
    pub(in crate::log::kafka) partition: i32,
    pub(in crate::log::kafka) key: Option<&'a str>,
    pub(in crate::log::kafka) headers: Option<OwnedHeaders>,
    pub(in crate::log::kafka) value: &'a [u8],
}

impl<'a> Outgoing<'a> {
    /// A message of ours, for a partition of a topic.
    pub(in crate::log::kafka) fn message(
        (topic, partition): (&'a str, i32),
        message: &'a Message,
    ) -> Self {
        let headers = message
            .event
            .as_ref()
            .map(|event| cloud_event(&event.id, event.kind, Some(&event.time.to_rfc3339())));
        let (key, value) = (Some(message.key.as_str()), message.value.as_slice());
        Self { topic, partition, key, headers, value }
    }
}

/// A client.
pub(in crate::log::kafka) struct Client {
    producer: BaseProducer<Ear>,
}

impl Client {
    /// Hands a message over. Errors: the client does not take it.
    pub(in crate::log::kafka) fn send(
        &self,
        outgoing: Outgoing<'_>,
        number: usize,
    ) -> Result<(), RDKafkaErrorCode> {
        let Outgoing { topic, partition, key, headers, value } = outgoing;
        let mut record = BaseRecord::with_opaque_to(topic, number).payload(value);
        record.key = key.map(str::as_bytes);
        record.partition = Some(partition);
        record.headers = headers;
        self.producer
            .send(record)
            .map_err(|(error, _)| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail))
    }

    /// Takes what was told since the last call into `fates`.
    pub(in crate::log::kafka) fn collect(&self, fates: &mut Vec<(usize, Fate)>) {
        let told = &self.producer.client().context().told;
        let mut events = lock(told).events;
        loop {
            // One poll of no time is one event, if there is one.
            self.producer.poll(Duration::ZERO);
            let mut told = lock(told);
            if told.events == events {
                fates.append(&mut told.fates);
                return;
            }
            events = told.events;
        }
    }

    /// What its transactions are asked of.
    pub(in crate::log::kafka) fn transactions(&self) -> &BaseProducer<Ear> {
        &self.producer
    }

    /// Why this client is of no use any more.
    pub(in crate::log::kafka) fn fatal_error(&self) -> Option<String> {
        self.producer.client().fatal_error().map(|(code, reason)| format!("{code}: {reason}"))
    }

    /// What the client complained about since a message was last durable.
    pub(in crate::log::kafka) fn last_word(&self) -> Option<String> {
        lock(&self.producer.client().context().told).last_word.clone()
    }
}

/// The headers of an event that was read back.
pub(in crate::log::kafka) fn stored_event(event: &DeliveredEvent) -> OwnedHeaders {
    cloud_event(&event.id, &event.kind, Some(&event.time))
}

/// The headers of a CloudEvent with JSON data, in binary mode.
pub(in crate::log::kafka) fn cloud_event(id: &str, kind: &str, time: Option<&str>) -> OwnedHeaders {
    let pairs = [
        ("ce_specversion", Some("1.0")),
        ("ce_id", Some(id)),
        ("ce_source", Some(SOURCE)),
        ("ce_type", Some(kind)),
        ("ce_time", time),
        ("content-type", Some("application/json")),
    ];
    let mut headers = OwnedHeaders::new_with_capacity(pairs.len());
    for (key, value) in pairs {
        if value.is_some() {
            headers = headers.insert(Header { key, value });
        }
    }
    headers
}
