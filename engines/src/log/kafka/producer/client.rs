//! Owns one client of librdkafka: how it is made, what it is handed, and what it tells back.
//! Invariant: what is handed over with a number is told back with that number, once, by the client that took it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use payfold_schemas::event::{EventAttributes, SOURCE};
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::statistics::Statistics;

use crate::log::kafka::context::{Context, StatisticsObserver};
use crate::log::kafka::settings::KafkaSettings;
use crate::log::Message;
use crate::{EngineError, lock};

/// How often the client tells its statistics if somebody listens, ms.
const STATISTICS_MS: &str = "10000";

/// What became of a message: Kafka's partition and offset.
pub(super) type Fate = Result<(i32, i64), RDKafkaErrorCode>;

/// What the client told since it was asked last.
#[derive(Debug, Default)]
struct Told {
    fates: Vec<(usize, Fate)>,
    /// Counts everything it told, so that one can see whether a poll found anything.
    events: u64,
}

/// Collects what the client tells. It is called on the pump's thread only, from within `poll`.
struct Ear {
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
        told.fates.push((number, fate));
    }
}

/// Makes clients, all alike.
pub(super) struct Factory {
    config: ClientConfig,
    observer: Option<StatisticsObserver>,
}

impl Factory {
    pub(super) fn new(settings: &KafkaSettings, observer: Option<StatisticsObserver>) -> Self {
        let mut config = settings.producer();
        if observer.is_some() && config.get("statistics.interval.ms").is_none() {
            config.set("statistics.interval.ms", STATISTICS_MS);
        }
        Self { config, observer }
    }

    /// Makes a client. Errors: `Invalid` for settings it refuses.
    pub(super) fn make(&self) -> Result<Client, EngineError> {
        let context = Context::new(self.observer.clone());
        let ear = Ear { context, told: Mutex::default() };
        let producer = BaseProducer::from_config_and_context(&self.config, ear)
            .map_err(|error| EngineError::Invalid(format!("the Kafka client: {error}")))?;
        Ok(Client { producer })
    }
}

/// A client.
pub(super) struct Client {
    producer: BaseProducer<Ear>,
}

impl Client {
    /// Hands a message over. Errors: the client does not take it.
    pub(super) fn send(
        &self,
        topic: &str,
        message: &Message,
        number: usize,
    ) -> Result<(), RDKafkaErrorCode> {
        let mut record = BaseRecord::with_opaque_to(topic, number)
            .key(message.key.as_bytes())
            .payload(message.value.as_slice());
        if let Some(event) = &message.event {
            record = record.headers(headers(event));
        }
        self.producer
            .send(record)
            .map_err(|(error, _)| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail))
    }

    /// Takes what was told since the last call into `fates`.
    pub(super) fn collect(&self, fates: &mut Vec<(usize, Fate)>) {
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

    /// Why this client is of no use any more.
    pub(super) fn fatal_error(&self) -> Option<String> {
        self.producer.client().fatal_error().map(|(code, reason)| format!("{code}: {reason}"))
    }

    /// What the client complained about last.
    pub(super) fn last_error(&self) -> Option<String> {
        self.producer.client().context().context.last_error()
    }
}

/// CloudEvents in binary mode.
fn headers(event: &EventAttributes) -> OwnedHeaders {
    let time = event.time.to_rfc3339();
    let pairs = [
        ("ce_specversion", "1.0"),
        ("ce_id", &event.id),
        ("ce_source", SOURCE),
        ("ce_type", event.kind),
        ("ce_time", &time),
        ("content-type", "application/json"),
    ];
    let headers = OwnedHeaders::new_with_capacity(pairs.len());
    pairs
        .into_iter()
        .fold(headers, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }))
}
