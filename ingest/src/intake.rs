//! Owns the last step before a 200: an admitted notice becomes a record in `intake`, keyed by its order.
//! Nothing here returns before the log says the record is durable.

use std::sync::Arc;
use std::time::Duration;

use payfold_engines::EngineError;
use payfold_engines::clock::Clock;
use payfold_engines::log::{EventLog, Message, Topic};
use payfold_partners::sealing::BodyKey;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{OrderKey, RequestId};
use payfold_schemas::ipn::Ipn;
use payfold_schemas::record::{
    FactRecord, NoticeRequest, NoticeSource, encode_fact, encode_fact_sealed,
};
use payfold_schemas::sealed::{Delivery, in_the_clear};
use payfold_schemas::time::Time;

use crate::health::StorageHealth;
use crate::refusal::{Code, Refusal};

/// Over this the sender is told to come again; storage that needs longer is in trouble.
const APPEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Seconds a refused sender should wait.
const RETRY_AFTER_S: u64 = 5;

/// When a request came and how it is named.
#[derive(Clone, Copy, Debug)]
pub struct Receipt {
    /// Its name in logs, records and refusals.
    pub request_id: RequestId,
    /// By our clock.
    pub received_at: Time,
}

/// An admitted notice: the order it names, the notice, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The order.
    pub order: OrderKey,
    /// The notice, normalised.
    pub ipn: Ipn,
    /// Profile, key and request.
    pub source: NoticeSource,
}

/// A body as it came, and what it is sealed with in the log, if it is.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// Its bytes.
    pub raw: &'a [u8],
    /// The key of its account and month.
    pub key: Option<&'a BodyKey>,
}

/// The door to the log.
pub struct Intake {
    log: Arc<dyn EventLog>,
    clock: Arc<dyn Clock>,
    health: Arc<StorageHealth>,
}

impl Intake {
    /// A door that tells `health` how appends fare.
    pub fn new(log: Arc<dyn EventLog>, clock: Arc<dyn Clock>, health: Arc<StorageHealth>) -> Self {
        Self { log, clock, health }
    }

    /// Appends the notice with its body; returns when it is durable. Errors: `storage_unavailable`.
    pub async fn append(
        &self,
        receipt: Receipt,
        admitted: Admitted,
        body: Body<'_>,
    ) -> Result<(), Refusal> {
        let key = admitted.order.to_message_key();
        let mut source = admitted.source;
        let seals = body.key.map(|key| (key, conceal(&mut source.request)));
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
        self.durable(Topic::Intake, Message { key, event: None, value }).await
    }

    /// Appends a message and waits until it is durable, but never for ever. Errors: `storage_unavailable`;
    /// the engine's reason is logged when failures begin, not for each.
    pub async fn durable(&self, topic: Topic, message: Message) -> Result<(), Refusal> {
        let reason =
            match tokio::time::timeout(APPEND_TIMEOUT, self.log.append(topic, message)).await {
                Ok(Ok(_)) => {
                    if self.health.succeeded() {
                        tracing::info!("the log takes appends again");
                    }
                    return Ok(());
                }
                Ok(Err(
                    EngineError::Unavailable(reason)
                    | EngineError::Invalid(reason)
                    | EngineError::Corrupt(reason),
                )) => reason,
                Err(_) => format!("no answer from the log within {} s", APPEND_TIMEOUT.as_secs()),
            };
        if self.health.failed(self.clock.now()) {
            tracing::error!(
                topic = topic.name(),
                reason,
                "the log takes no appends: notices are answered 503 until it does; look at its disk or broker"
            );
        }
        Err(Refusal::retry(Code::StorageUnavailable, RETRY_AFTER_S))
    }
}

/// Leaves of a request what may stand in the clear; returns all of it, to be sealed.
pub(crate) fn conceal(request: &mut NoticeRequest) -> NoticeRequest {
    let clear = in_the_clear(request);
    std::mem::replace(request, clear)
}
