//! Owns readiness: whether each role that is served over HTTP can store what it receives. A role
//! becomes unready at once when files are lost, after 10 s of failed appends or claims
//! (`payfold_engines::health`), and while partners' notices show that this host's clock is wrong
//! (`payfold_ingest::health`).

use std::sync::Arc;

use actix_web::web::Data;
use payfold_checkout::Checkout;
use payfold_engines::EngineError;
use payfold_engines::clock::Clock;
use payfold_engines::health::StorageHealth;
use payfold_engines::log::EventLog;
use payfold_engines::orders::OrderStore;
use payfold_ingest::health::ClockHealth;

/// The roles with a readiness of their own, by their names in `--roles`.
pub(crate) const ROLES: [&str; 2] = ["ingest", "checkout"];

/// Computes the readiness of the roles of this process.
pub(crate) struct Readiness {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ingest: Option<IngestStorage>,
    pub(crate) checkout: Option<CheckoutStorage>,
}

/// What ingest needs to store notices.
pub(crate) struct IngestStorage {
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) health: Arc<StorageHealth>,
    pub(crate) clock_health: Arc<ClockHealth>,
}

/// What checkout needs to store payments.
pub(crate) struct CheckoutStorage {
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) store: Arc<dyn OrderStore>,
    pub(crate) checkout: Data<Checkout>,
}

impl Readiness {
    /// Whether this process runs a role of this name that has a readiness.
    pub(crate) fn has(&self, role: &str) -> bool {
        match role {
            "ingest" => self.ingest.is_some(),
            "checkout" => self.checkout.is_some(),
            _ => false,
        }
    }

    /// Why a role can't store; `None` if it can, or if this process does not run it.
    pub(crate) async fn trouble(&self, role: &str) -> Option<String> {
        let now = self.clock.now();
        match role {
            "ingest" => {
                let IngestStorage { log, health, clock_health } = self.ingest.as_ref()?;
                match cause(log.check_storage().await).or_else(|| health.trouble(now)) {
                    Some(cause) => Some(format!("ingest can't store notices: {cause}")),
                    None => clock_health.unready_reason(now),
                }
            }
            "checkout" => {
                let CheckoutStorage { log, store, checkout } = self.checkout.as_ref()?;
                let lost = match cause(log.check_storage().await) {
                    None => cause(store.check_storage().await),
                    lost => lost,
                };
                let cause = lost.or_else(|| checkout.storage_trouble(now))?;
                Some(format!("checkout can't store payments: {cause}"))
            }
            _ => None,
        }
    }
}

fn cause(checked: Result<(), EngineError>) -> Option<String> {
    checked.err().map(|error| error.to_string())
}
