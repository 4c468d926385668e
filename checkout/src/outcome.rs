//! Owns what this process knows of an attempt, on its way into the log: it is tried while the process lives, and its
//! key is held as in flight until then. What can never be kept is told of, for nobody else knows it.

use std::sync::Arc;
use std::time::Duration;

use payfold_schemas::fact::{CreateFailed, Fact};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::record::{FactRecord, Record};
use tokio::task::JoinHandle;

use crate::calls::KeyInFlight;
use crate::checkout::{Checkout, OpenWork, Receipt};
use crate::problem::kinds;

/// How long a shop waits for an outcome to become durable; it is kept trying after that.
const OUTCOME_PATIENCE: Duration = Duration::from_secs(5);

/// A key that is worked on, and work a drain waits for; both end when the outcome is durable.
pub(crate) type Begun = (KeyInFlight, OpenWork);

/// An outcome on its way into the log.
pub(crate) struct Kept<'a> {
    pub(crate) checkout: &'a Arc<Checkout>,
    pub(crate) key: &'a OrderKey,
    pub(crate) receipt: Receipt,
    pub(crate) begun: Begun,
}

impl Kept<'_> {
    /// Makes it durable; false if that takes longer than a shop waits. Then it is tried on while the process lives.
    pub(crate) async fn keep(self, fact: Fact) -> bool {
        let fact = self.encoded(&fact);
        let keeping = self.keep_all(vec![fact]);
        matches!(tokio::time::timeout(OUTCOME_PATIENCE, keeping).await, Ok(Ok(true)))
    }

    /// Of a claim whose C was not durable in time: keeps that, and after it that nothing was sent. With too many of
    /// those already it is left alone, as if the process had died: a retry keeps the C, and the deadline ends it.
    pub(crate) fn not_called(self, create: Vec<u8>) {
        let Some(place) = self.checkout.calls.uncalled() else { return };
        let failed = Fact::CreateFailed(CreateFailed { code: kinds::NOT_CALLED.code.to_owned() });
        let failed = self.encoded(&failed);
        let runtime = self.checkout.runtime.clone();
        let keeping = self.keep_all(vec![("C", create), failed]);
        runtime.spawn(async move {
            let _place = place;
            keeping.await
        });
    }

    /// A fact with its letter.
    fn encoded(&self, fact: &Fact) -> (&'static str, Vec<u8>) {
        let record = FactRecord {
            order: self.key.clone(),
            fact: fact.clone(),
            request_id: self.receipt.request_id,
            received_at: self.checkout.now(),
            source: None,
        };
        (fact.letter(), Record::of_fact(record, Vec::new()).encode())
    }

    /// Keeps facts one after the other; false if one of them can't be.
    fn keep_all(self, facts: Vec<(&'static str, Vec<u8>)>) -> JoinHandle<bool> {
        let (checkout, key, begun) = (Arc::clone(self.checkout), self.key.clone(), self.begun);
        self.checkout.runtime.spawn(async move {
            let _begun = begun;
            for (fact, record) in facts {
                if let Err(error) = checkout.facts.keep(&key, record).await {
                    let (order_id, partner) = (&key.order_id, &key.partner);
                    tracing::error!(
                        order.id = %order_id, partner = %partner, fact, %error,
                        "the outcome of a create call is lost"
                    );
                    return false;
                }
            }
            true
        })
    }
}
