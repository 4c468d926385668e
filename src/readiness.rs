//! Owns readiness: for each role of this process that is served over HTTP, whether it can store what it is sent.
//! Lost files count at once, failed appends and claims after 10 s (`payfold_engines::health`), a wrong clock of this host
//! as long as partners' notices show it (`payfold_ingest::health`).

use std::sync::Arc;

use actix_web::web::Data;
use payfold_checkout::Checkout;
use payfold_engines::EngineError;
use payfold_engines::clock::Clock;
use payfold_engines::health::StorageHealth;
use payfold_engines::log::EventLog;
use payfold_engines::orders::OrderStore;
use payfold_ingest::health::ClockHealth;
use payfold_ingest::http::Ingest;

use crate::server::Server;

/// The roles that can be asked about, by the names of `--roles`.
pub const ROLES: [&str; 2] = ["ingest", "checkout"];

/// What readiness is read from.
pub struct Readiness {
    clock: Arc<dyn Clock>,
    ingest: Option<IngestStorage>,
    checkout: Option<CheckoutStorage>,
}

/// What ingest stores notices with.
struct IngestStorage {
    log: Arc<dyn EventLog>,
    health: Arc<StorageHealth>,
    clock_health: Arc<ClockHealth>,
}

/// What checkout stores payments with.
struct CheckoutStorage {
    log: Arc<dyn EventLog>,
    store: Arc<dyn OrderStore>,
    checkout: Data<Checkout>,
}

impl Server {
    /// Readiness of the roles that are here: `storage` is how ingest's appends fare.
    pub(crate) fn readiness(
        &self,
        storage: Arc<StorageHealth>,
        ingest: Option<&Ingest>,
        checkout: Option<Data<Checkout>>,
    ) -> anyhow::Result<Readiness> {
        let log = || self.engines().map(|engines| Arc::clone(&engines.log));
        let ingest = match ingest {
            Some(ingest) => {
                let clock_health = Arc::clone(&ingest.clock_health);
                Some(IngestStorage { log: log()?, health: storage, clock_health })
            }
            None => None,
        };
        let checkout = match checkout {
            Some(checkout) => {
                let store = Arc::clone(self.engines()?.store()?);
                Some(CheckoutStorage { log: log()?, store, checkout })
            }
            None => None,
        };
        Ok(Readiness { clock: Arc::clone(&self.clock), ingest, checkout })
    }
}

impl Readiness {
    /// Whether this process has a role that can be asked about by this name.
    pub fn has(&self, role: &str) -> bool {
        match role {
            "ingest" => self.ingest.is_some(),
            "checkout" => self.checkout.is_some(),
            _ => false,
        }
    }

    /// What keeps a role from storing; none if nothing does, or the role is not here.
    pub async fn trouble(&self, role: &str) -> Option<String> {
        let now = self.clock.now();
        match role {
            "ingest" => {
                let IngestStorage { log, health, clock_health } = self.ingest.as_ref()?;
                match cause(log.check_storage().await).or_else(|| health.trouble(now)) {
                    Some(cause) => Some(format!("ingest can't store notices: {cause}")),
                    None => clock_health.trouble(now),
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
