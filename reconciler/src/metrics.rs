//! Owns the reconciler's metrics.

use std::sync::Arc;
use std::time::Duration;

use payfold_schemas::ids::PartnerCode;
use prometheus::{
    Gauge, IntCounter, IntCounterVec, IntGauge, Registry, register_gauge_with_registry,
    register_int_counter_vec_with_registry, register_int_counter_with_registry,
    register_int_gauge_with_registry,
};

/// The reconciler's metrics.
pub struct Metrics {
    pending_past_deadline: IntGauge,
    deadlines_appended: IntCounter,
    refs_shared: IntCounter,
    lag_records: IntGauge,
    halted: IntGauge,
    queries: IntCounterVec,
    queries_waiting: IntGauge,
    query_oldest_seconds: Gauge,
    unconfirmed_waiting: IntGauge,
    /// The metrics of reconciliation with partners' records.
    pub(crate) findings: Arc<payfold_reconcile::ReconcileMetrics>,
}

impl Metrics {
    /// Registers the metrics. Errors: a name is registered already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            pending_past_deadline: register_int_gauge_with_registry!(
                "payfold_reconciler_pending_past_deadline",
                "orders past their deadline with an expiry that is appended and not folded yet",
                registry
            )?,
            deadlines_appended: register_int_counter_with_registry!(
                "payfold_reconciler_deadlines_appended_total",
                "deadline facts appended",
                registry
            )?,
            refs_shared: register_int_counter_with_registry!(
                "payfold_reconciler_refs_shared_total",
                "facts appended that say an order shares a ref with another one",
                registry
            )?,
            lag_records: register_int_gauge_with_registry!(
                "payfold_reconciler_lag_records",
                "records of intake that are not checked for shared refs yet",
                registry
            )?,
            halted: register_int_gauge_with_registry!(
                "payfold_reconciler_halted",
                "1 if the reconciler has ended with an error",
                registry
            )?,
            queries: register_int_counter_vec_with_registry!(
                "payfold_reconciler_queries_total",
                "queries to partners about a payment, by outcome",
                &["partner", "outcome"],
                registry
            )?,
            queries_waiting: register_int_gauge_with_registry!(
                "payfold_reconciler_queries_waiting",
                "queries that are due and not answered yet",
                registry
            )?,
            query_oldest_seconds: register_gauge_with_registry!(
                "payfold_reconciler_query_oldest_seconds",
                "how long the oldest queued query has been due",
                registry
            )?,
            unconfirmed_waiting: register_int_gauge_with_registry!(
                "payfold_reconciler_unconfirmed_waiting",
                "notices that count only once a query confirms them and are not confirmed yet",
                registry
            )?,
            findings: Arc::new(payfold_reconcile::ReconcileMetrics::new(registry)?),
        })
    }

    /// Sets the metric that the reconciler has ended with an error or a panic: orders no longer
    /// expire.
    pub fn set_halted(&self) {
        self.halted.set(1);
    }

    pub(crate) fn set_pending_past_deadline(&self, orders: usize) {
        self.pending_past_deadline.set(i64::try_from(orders).unwrap_or(i64::MAX));
    }

    pub(crate) fn count_deadlines_appended(&self, facts: usize) {
        self.deadlines_appended.inc_by(u64::try_from(facts).unwrap_or(u64::MAX));
    }

    pub(crate) fn count_refs_shared(&self, facts: usize) {
        self.refs_shared.inc_by(u64::try_from(facts).unwrap_or(u64::MAX));
    }

    pub(crate) fn set_lag(&self, records: u64) {
        self.lag_records.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    pub(crate) fn count_query(&self, partner: &PartnerCode, outcome: &'static str) {
        self.queries.with_label_values(&[partner.as_str(), outcome]).inc();
    }

    pub(crate) fn set_queries_waiting(&self, waiting: usize) {
        self.queries_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    pub(crate) fn set_unconfirmed_waiting(&self, notices: usize) {
        self.unconfirmed_waiting.set(i64::try_from(notices).unwrap_or(i64::MAX));
    }

    pub(crate) fn set_oldest_query_age(&self, waited: Duration) {
        self.query_oldest_seconds.set(waited.as_secs_f64());
    }
}
