//! Owns one producer client of librdkafka: how it is made, what it sends, and what it reports.
//! Invariant: the client reports the outcome of every message it accepted once, under the number
//! that the message was sent with.

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

/// The header with a message's MAC (`RecordMac`), binary.
pub(in crate::log::kafka) const MAC_HEADER: &str = "payfold-mac";

/// How often the client reports its statistics if there is an observer, ms.
const STATISTICS_MS: &str = "10000";

/// The first and the longest pause before a message is sent again, ms; the pause doubles with each
/// retry. librdkafka's default maximum of one second would be a quarter of the default delivery
/// timeout.
const RETRY_MS: &str = "50";
const RETRY_MAX_MS: &str = "250";

/// The outcome of a message: Kafka's partition and offset, or the error code.
pub(in crate::log::kafka) type DeliveryOutcome = Result<(i32, i64), RDKafkaErrorCode>;

/// What the client reported since the last `collect`.
#[derive(Debug, Default)]
struct ClientReports {
    outcomes: Vec<(usize, DeliveryOutcome)>,
    /// Counts every report, so that `collect` knows whether a poll served an event.
    events: u64,
    /// The last error since a message was last durable.
    last_error: Option<String>,
}

/// Collects the client's reports. librdkafka calls it on the pump's thread only, from within
/// `poll`.
pub(in crate::log::kafka) struct ClientListener {
    context: Context,
    reports: Mutex<ClientReports>,
}

impl ClientListener {
    fn count_event(&self) {
        lock(&self.reports).events += 1;
    }
}

impl ClientContext for ClientListener {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.count_event();
        self.context.log(level, facility, message);
    }

    fn stats(&self, statistics: Statistics) {
        self.count_event();
        self.context.stats(statistics);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.count_event();
        lock(&self.reports).last_error = Some(reason.to_owned());
        self.context.error(error, reason);
    }
}

impl ProducerContext for ClientListener {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let outcome = match result {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((error, _)) => Err(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)),
        };
        let mut reports = lock(&self.reports);
        reports.events += 1;
        if outcome.is_ok() && reports.last_error.is_some() {
            reports.last_error = None;
        }
        reports.outcomes.push((number, outcome));
    }
}

/// Makes producer clients with the same settings.
pub(in crate::log::kafka) struct ClientFactory {
    config: ClientConfig,
    observer: Option<StatisticsObserver>,
}

impl ClientFactory {
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

    /// Makes a factory of transactional clients with this `transactional.id`: the client that was
    /// initialized last fences the earlier ones.
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

    /// Makes a client. Errors: `Invalid` for settings that librdkafka refuses.
    pub(in crate::log::kafka) fn make_client(&self) -> Result<ProducerClient, EngineError> {
        let context = Context::new(self.observer.clone());
        let listener = ClientListener { context, reports: Mutex::default() };
        let producer = BaseProducer::from_config_and_context(&self.config, listener)
            .map_err(|error| EngineError::Invalid(format!("the Kafka client: {error}")))?;
        Ok(ProducerClient { producer })
    }
}

/// A message to send.
pub(in crate::log::kafka) struct OutgoingMessage<'a> {
    pub(in crate::log::kafka) topic: &'a str,
    /// Kafka's number of the partition. librdkafka's own partitioner is not used, because it counts
    /// the broker's partitions, and that number may grow.
    pub(in crate::log::kafka) partition: i32,
    pub(in crate::log::kafka) key: Option<&'a str>,
    pub(in crate::log::kafka) headers: Option<OwnedHeaders>,
    pub(in crate::log::kafka) value: &'a [u8],
}

impl<'a> OutgoingMessage<'a> {
    /// Makes the outgoing message of a log message, for a partition of a topic.
    pub(in crate::log::kafka) fn message(
        (topic, partition): (&'a str, i32),
        message: &'a Message,
    ) -> Self {
        let mut headers = message
            .event
            .as_ref()
            .map(|event| cloud_event(&event.id, event.kind, Some(&event.time.to_rfc3339())));
        if let Some(mac) = message.mac {
            let (all, value) = (headers.unwrap_or_default(), mac.to_bytes());
            headers = Some(all.insert(Header { key: MAC_HEADER, value: Some(&value) }));
        }
        let (key, value) = (Some(message.key.as_str()), message.value.as_slice());
        Self { topic, partition, key, headers, value }
    }
}

/// A producer client of librdkafka.
pub(in crate::log::kafka) struct ProducerClient {
    producer: BaseProducer<ClientListener>,
}

impl ProducerClient {
    /// Sends a message. Errors: librdkafka's code, if the client does not accept the message.
    pub(in crate::log::kafka) fn send(
        &self,
        outgoing: OutgoingMessage<'_>,
        number: usize,
    ) -> Result<(), RDKafkaErrorCode> {
        let OutgoingMessage { topic, partition, key, headers, value } = outgoing;
        let mut record = BaseRecord::with_opaque_to(topic, number).payload(value);
        record.key = key.map(str::as_bytes);
        record.partition = Some(partition);
        record.headers = headers;
        self.producer
            .send(record)
            .map_err(|(error, _)| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail))
    }

    /// Moves the outcomes reported since the last call into `outcomes`.
    pub(in crate::log::kafka) fn collect_outcomes(
        &self,
        outcomes: &mut Vec<(usize, DeliveryOutcome)>,
    ) {
        let reports = &self.producer.client().context().reports;
        let mut events = lock(reports).events;
        loop {
            // A poll without a timeout serves at most one event.
            self.producer.poll(Duration::ZERO);
            let mut reports = lock(reports);
            if reports.events == events {
                outcomes.append(&mut reports.outcomes);
                return;
            }
            events = reports.events;
        }
    }

    /// The client as librdkafka's transactional producer.
    pub(in crate::log::kafka) fn transactions(&self) -> &BaseProducer<ClientListener> {
        &self.producer
    }

    /// The fatal error after which this client can't be used any more.
    pub(in crate::log::kafka) fn fatal_error(&self) -> Option<String> {
        self.producer.client().fatal_error().map(|(code, reason)| format!("{code}: {reason}"))
    }

    /// The client's last error since a message was last durable.
    pub(in crate::log::kafka) fn last_error(&self) -> Option<String> {
        lock(&self.producer.client().context().reports).last_error.clone()
    }
}

/// The headers of an event that was read from the log.
pub(in crate::log::kafka) fn stored_event(event: &DeliveredEvent) -> OwnedHeaders {
    cloud_event(&event.id, &event.kind, Some(&event.time))
}

/// The headers of a CloudEvent with JSON data, in the Kafka binding's binary mode.
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
