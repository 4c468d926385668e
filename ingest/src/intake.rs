//! Owns the last step before a 200: an admitted notice becomes a record in `intake`, keyed by its order.
//! Nothing here returns before the log says the record is durable.

use std::sync::Arc;
use std::time::Duration;

use payfold_engines::clock::Clock;
use payfold_engines::health::StorageHealth;
use payfold_engines::log::{EventLog, Message, Topic};
use payfold_engines::{EngineError, SeamFuture};
use payfold_partners::sealing::BodyKey;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{OrderKey, RequestId};
use payfold_schemas::ipn::Ipn;
use payfold_schemas::record::{
    FactRecord, NoticeRequest, NoticeSource, Position, encode_fact, encode_fact_sealed,
};
use payfold_schemas::sealed::{Delivery, in_the_clear};
use payfold_schemas::time::Time;

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

/// A message the log has, and its outcome, which `Intake::durable` waits for. It is apart from making the message, so that
/// what waits is small: thousands wait at once.
pub struct Appending {
    topic: Topic,
    outcome: SeamFuture<'static, Position, EngineError>,
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

    /// Hands the notice with its body to the log.
    pub fn append(&self, receipt: Receipt, admitted: Admitted, body: Body<'_>) -> Appending {
        self.hand_over(Topic::Intake, message(receipt, admitted, body))
    }

    /// Hands a message to the log.
    pub fn hand_over(&self, topic: Topic, message: Message) -> Appending {
        Appending { topic, outcome: self.log.append(topic, message) }
    }

    /// Waits until what was handed over is durable, but never for ever. Errors: `storage_unavailable`;
    /// the engine's reason is logged when failures begin, not for each.
    pub async fn durable(&self, appending: Appending) -> Result<(), Refusal> {
        match tokio::time::timeout(APPEND_TIMEOUT, appending.outcome).await {
            Ok(Ok(_)) => {
                self.succeeded();
                Ok(())
            }
            Ok(Err(error)) => Err(self.failed(appending.topic, error)),
            Err(_) => {
                let reason =
                    format!("no answer from the log within {} s", APPEND_TIMEOUT.as_secs());
                Err(self.failed(appending.topic, EngineError::Unavailable(reason)))
            }
        }
    }

    /// Whether the last append that ended became durable.
    pub(crate) fn takes_appends(&self) -> bool {
        self.health.takes_appends()
    }

    /// Checks that what was stored before is where a restart finds it, so that a replay may be answered from memory.
    /// Errors: `storage_unavailable`.
    pub(crate) async fn still_durable(&self) -> Result<(), Refusal> {
        self.log.check_storage().await.map_err(|error| self.failed(Topic::Intake, error))
    }

    fn succeeded(&self) {
        if self.health.succeeded() {
            tracing::info!("the log takes appends again");
        }
    }

    fn failed(&self, topic: Topic, error: EngineError) -> Refusal {
        let (EngineError::Unavailable(reason)
        | EngineError::Invalid(reason)
        | EngineError::Corrupt(reason)) = error;
        if self.health.failed(self.clock.now(), &reason) {
            tracing::error!(
                topic = topic.name(),
                reason,
                "the log takes no appends: notices are answered 503 until it does; look at its disk or broker"
            );
        }
        Refusal::retry(Code::StorageUnavailable, RETRY_AFTER_S)
    }
}

/// The message of an admitted notice, keyed by its order.
fn message(receipt: Receipt, admitted: Admitted, body: Body<'_>) -> Message {
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
    Message { key, event: None, value }
}

/// Leaves of a request what may stand in the clear; returns all of it, to be sealed.
pub(crate) fn conceal(request: &mut NoticeRequest) -> NoticeRequest {
    let clear = in_the_clear(request);
    std::mem::replace(request, clear)
}
