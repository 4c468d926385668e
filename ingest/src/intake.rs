//! Owns the last step before a 200: an admitted notice becomes a record in the `intake` topic,
//! keyed by its order. `append_notice` queues the record. `await_durable` returns once the log
//! reports it durable.

use std::sync::Arc;
use std::time::Duration;

use payfold_engines::clock::Clock;
use payfold_engines::health::StorageHealth;
use payfold_engines::log::{EventLog, Message, Topic};
use payfold_engines::{EngineError, SeamFuture};
use payfold_partners::sealing::BodyKey;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{OrderKey, RequestId};
use payfold_schemas::notice_source::{NoticeSource, RecordedRequest};
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, encode_fact, encode_fact_sealed};
use payfold_schemas::sealed::{Delivery, in_the_clear};
use payfold_schemas::time::Time;

use crate::admit::AdmittedNotice;
use crate::refusal::{Refusal, RefusalCode};

/// The longest wait for an append. After it the sender gets 503: healthy storage needs far less.
const APPEND_TIMEOUT: Duration = Duration::from_secs(5);

/// `Retry-After` of a 503 for failed storage, in seconds.
const RETRY_AFTER_S: u64 = 5;

/// When a request arrived, and its id.
#[derive(Clone, Copy, Debug)]
pub struct Receipt {
    /// The id in log lines, records and problem documents.
    pub request_id: RequestId,
    /// By this host's clock.
    pub received_at: Time,
}

/// A request's body, and the key it is sealed with in the log.
#[derive(Clone, Copy, Debug)]
pub struct NoticeBody<'a> {
    /// The bytes as received.
    pub raw: &'a [u8],
    /// The body key of the account and month; `None` stores the body in the clear.
    pub key: Option<&'a BodyKey>,
}

/// The outcome of a message that was handed to the log; `Intake::await_durable` waits for it. The
/// message itself is not in it: thousands of these wait at once and must be small.
pub struct PendingAppend {
    topic: Topic,
    outcome: SeamFuture<'static, Position, EngineError>,
}

/// Appends the records of the ingest role to the log.
pub struct Intake {
    log: Arc<dyn EventLog>,
    clock: Arc<dyn Clock>,
    health: Arc<StorageHealth>,
}

impl Intake {
    /// Reports the success and failure of appends to `health`.
    pub fn new(log: Arc<dyn EventLog>, clock: Arc<dyn Clock>, health: Arc<StorageHealth>) -> Self {
        Self { log, clock, health }
    }

    /// Hands an admitted notice with its body to the log.
    pub fn append_notice(
        &self,
        receipt: Receipt,
        admitted: AdmittedNotice,
        source: NoticeSource,
        body: NoticeBody<'_>,
    ) -> PendingAppend {
        self.append_message(Topic::Intake, encode_message(receipt, admitted, source, body))
    }

    /// Hands a message to the log. Does not wait for durability.
    pub(crate) fn append_message(&self, topic: Topic, message: Message) -> PendingAppend {
        PendingAppend { topic, outcome: self.log.append(topic, message) }
    }

    /// Waits until a message is durable, at most `APPEND_TIMEOUT`. Errors: `storage_unavailable`.
    /// The engine's reason is logged when failures begin, not for each failure. After a timeout the
    /// message may still become durable.
    pub(crate) async fn await_durable(&self, append: PendingAppend) -> Result<(), Refusal> {
        match tokio::time::timeout(APPEND_TIMEOUT, append.outcome).await {
            Ok(Ok(_)) => {
                self.record_success();
                Ok(())
            }
            Ok(Err(error)) => Err(self.record_failure(append.topic, error)),
            Err(_) => {
                let reason =
                    format!("no answer from the log within {} s", APPEND_TIMEOUT.as_secs());
                Err(self.record_failure(append.topic, EngineError::Unavailable(reason)))
            }
        }
    }

    /// Whether the append that finished last became durable.
    pub(crate) fn takes_appends(&self) -> bool {
        self.health.takes_appends()
    }

    /// Checks that the log's files are where a restart finds them, so that a replay may be answered
    /// from memory. Errors: `storage_unavailable`.
    pub(crate) async fn check_storage(&self) -> Result<(), Refusal> {
        self.log.check_storage().await.map_err(|error| self.record_failure(Topic::Intake, error))
    }

    fn record_success(&self) {
        if self.health.succeeded() {
            tracing::info!("the log takes appends again");
        }
    }

    fn record_failure(&self, topic: Topic, error: EngineError) -> Refusal {
        let (EngineError::Unavailable(reason)
        | EngineError::Invalid(reason)
        | EngineError::Corrupt(reason)) = error;
        if self.health.failed(self.clock.now(), &reason) {
            tracing::error!(
                topic = topic.name(),
                reason,
                "the log takes no appends: notices are answered 503 until it does, and partners \
                 send them again; what was answered 200 is stored; check the log's disk or broker"
            );
        }
        Refusal::with_retry(RefusalCode::StorageUnavailable, RETRY_AFTER_S)
    }
}

/// Encodes the record of an admitted notice, keyed by its order.
fn encode_message(
    receipt: Receipt,
    admitted: AdmittedNotice,
    mut source: NoticeSource,
    body: NoticeBody<'_>,
) -> Message {
    let key = admitted.order.to_message_key();
    let seals = body.key.map(|key| (key, strip_to_clear(&mut source.request)));
    let record = FactRecord {
        order: admitted.order,
        fact: Fact::Ipn(admitted.ipn),
        request_id: receipt.request_id,
        received_at: receipt.received_at,
        source: Some(source),
    };
    let value = match &seals {
        None => encode_fact(&record, body.raw),
        Some((key, request)) => {
            let OrderKey { partner, merchant_code, .. } = &record.order;
            let request_id = receipt.request_id;
            let (partner, merchant_code) = (partner.as_str(), merchant_code.as_str());
            let delivery = Delivery { partner, merchant_code, request_id };
            encode_fact_sealed(&record, key.id(), |into| {
                key.seal(delivery, (request, body.raw), into);
            })
        }
    };
    Message { key, event: None, value, mac: None }
}

/// Reduces a request to the part that is stored in the clear. Returns the whole request, which is
/// to be sealed.
pub(crate) fn strip_to_clear(request: &mut RecordedRequest) -> RecordedRequest {
    let clear = in_the_clear(request);
    std::mem::replace(request, clear)
}
