//! Owns the writing of an attempt's outcome to the log. Appending is repeated until it succeeds or
//! the log refuses it for good; so long the attempt's Idempotency-Key counts as in flight. That an
//! outcome is lost is logged, because no other process knows it; the log line does not contain it.

use std::sync::Arc;
use std::time::Duration;

use payfold_schemas::fact::{CreateFailed, Fact};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::record::{FactRecord, Record};
use tokio::task::JoinHandle;

use crate::checkout::{Checkout, OpenWork, Receipt};
use crate::in_flight::KeyInFlight;
use crate::problem::kinds;

/// How long a shop waits for an outcome to become durable. Appending goes on after that.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(5);

/// What is held until an attempt's outcome is durable: its key, so that no second request works on
/// it, and open work, which a drain waits for.
pub(crate) struct AttemptGuards {
    pub(crate) _key: KeyInFlight,
    pub(crate) _work: OpenWork,
}

/// Writes the outcome of one attempt.
pub(crate) struct OutcomeWriter<'a> {
    pub(crate) checkout: &'a Arc<Checkout>,
    pub(crate) key: &'a OrderKey,
    pub(crate) receipt: Receipt,
    pub(crate) guards: AttemptGuards,
}

/// A fact that waits to be appended.
struct EncodedFact {
    kind: &'static str,
    record: Vec<u8>,
}

impl OutcomeWriter<'_> {
    /// Makes a fact durable. False if the log refuses it for good, or if appending takes longer
    /// than a shop waits and goes on in the background.
    pub(crate) async fn append_outcome(self, fact: Fact) -> bool {
        let fact = self.encode(&fact);
        let appending = self.append_all(vec![fact]);
        matches!(tokio::time::timeout(OUTCOME_TIMEOUT, appending).await, Ok(Ok(true)))
    }

    /// For a claim without a call, because `create`, its encoded `CreateRequested`, was not durable
    /// in time or was refused. Appends it in the background, and then `CreateFailed` with
    /// `not_called`. It may be durable already: a fact that is stored twice counts once.
    ///
    /// If too many such claims wait already, this does nothing, as if the process had died: a retry
    /// of the shop (`replay`) appends `CreateRequested`, and the order ends at its deadline.
    pub(crate) fn append_not_called(self, create: Vec<u8>) {
        let Some(permit) = self.checkout.in_flight.acquire_uncalled() else { return };
        let failed = Fact::CreateFailed(CreateFailed { code: kinds::NOT_CALLED.code.to_owned() });
        let failed = self.encode(&failed);
        let create = EncodedFact { kind: "createRequested", record: create };
        let runtime = self.checkout.runtime.clone();
        let appending = self.append_all(vec![create, failed]);
        runtime.spawn(async move {
            let _permit = permit;
            appending.await
        });
    }

    fn encode(&self, fact: &Fact) -> EncodedFact {
        let record = FactRecord {
            order: self.key.clone(),
            fact: fact.clone(),
            request_id: self.receipt.request_id,
            // The outcome's own time, not the request's.
            received_at: self.checkout.now(),
            source: None,
        };
        EncodedFact { kind: fact.kind(), record: Record::of_fact(record, Vec::new()).encode() }
    }

    /// Appends facts one after the other in a task of its own, which goes on if the shop hangs up.
    /// False if the log refuses one of them for good.
    fn append_all(self, facts: Vec<EncodedFact>) -> JoinHandle<bool> {
        let (checkout, key, guards) = (Arc::clone(self.checkout), self.key.clone(), self.guards);
        self.checkout.runtime.spawn(async move {
            let _guards = guards;
            for EncodedFact { kind: fact, record } in facts {
                if let Err(error) = checkout.fact_log.append_until_durable(&key, record).await {
                    let (order_id, partner) = (&key.order_id, &key.partner);
                    tracing::error!(
                        order.id = %order_id, partner = %partner, fact, %error,
                        "a fact of a create attempt is lost: the log refused it for good"
                    );
                    return false;
                }
            }
            true
        })
    }
}
