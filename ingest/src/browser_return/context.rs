//! Owns the state and the metrics of the browser return.

use std::sync::Arc;

use arc_swap::ArcSwap;
use payfold_engines::clock::Clock;
use payfold_partners::directory::Directory;
use payfold_schemas::ids::OrderId;
use prometheus::{IntCounter, Registry, register_int_counter_vec_with_registry};

use super::target::ReturnTargets;

/// The state of the browser return. One value, shared by all workers.
pub struct BrowserReturn {
    /// Accounts and keys, to verify the signature of a return.
    pub directory: Arc<ArcSwap<Directory>>,
    /// Decides which keys are valid.
    pub clock: Arc<dyn Clock>,
    /// The addresses that payers are sent to.
    pub targets: ReturnTargets,
    /// Counters of received and refused returns.
    pub metrics: ReturnMetrics,
}

/// Counters of returns.
pub struct ReturnMetrics {
    verified: IntCounter,
    unverified: IntCounter,
}

impl ReturnMetrics {
    /// Creates and registers the counters. Errors: a name that is registered already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let returns = register_int_counter_vec_with_registry!(
            "payfold_ingest_returns_total",
            "Returned payers, by whether the return has a verified signature.",
            &["verified"],
            registry,
        )?;
        let [verified, unverified] =
            ["true", "false"].map(|label| returns.with_label_values(&[label]));
        Ok(Self { verified, unverified })
    }

    /// Counts a return; `order` is the order of a verified one.
    pub(super) fn count_return(&self, order: Option<&OrderId>) {
        order.map_or(&self.unverified, |_| &self.verified).inc();
    }
}
