//! Owns the last step before a 200: an admitted notice becomes a record in `intake`, keyed by its order.
//! Nothing here returns before the log says the record is durable.

use std::sync::Arc;
use std::time::Duration;

use payfold_engines::EngineError;
use payfold_engines::clock::Clock;
use payfold_engines::log::{EventLog, Message, Topic};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{OrderKey, RequestId};
use payfold_schemas::ipn::Ipn;
use payfold_schemas::record::{FactRecord, NoticeSource, encode_fact};
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

    /// Appends the notice with its raw bytes; returns when it is durable. Errors: `storage_unavailable`.
    pub async fn append(
        &self,
        receipt: Receipt,
        admitted: Admitted,
        raw: &[u8],
    ) -> Result<(), Refusal> {
        let key = admitted.order.to_message_key();
        let record = FactRecord {
            order: admitted.order,
            fact: Fact::Ipn(admitted.ipn),
            request_id: receipt.request_id,
            received_at: receipt.received_at,
            source: Some(admitted.source),
        };
        let message = Message { key, event: None, value: encode_fact(&record, raw) };
        self.durable(Topic::Intake, message).await
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
