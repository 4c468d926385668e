//! Owns what the reconciler counts, as verbs.

use std::time::Duration;

use payfold_schemas::ids::PartnerCode;
use prometheus::{Gauge, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

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
}

impl Metrics {
    /// Registers the metrics. Errors: a name is registered already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            pending_past_deadline: IntGauge::new(
                "payfold_reconciler_pending_past_deadline",
                "orders found past their deadline whose expiry is not folded yet",
            )?,
            deadlines_appended: IntCounter::new(
                "payfold_reconciler_deadlines_appended_total",
                "deadline facts appended",
            )?,
            refs_shared: IntCounter::new(
                "payfold_reconciler_refs_shared_total",
                "facts appended that say an order shares a ref with another one",
            )?,
            lag_records: IntGauge::new(
                "payfold_reconciler_lag_records",
                "records of intake whose refs are not checked yet",
            )?,
            halted: IntGauge::new(
                "payfold_reconciler_halted",
                "1 if the reconciler has ended with an error",
            )?,
            queries: IntCounterVec::new(
                Opts::new(
                    "payfold_reconciler_queries_total",
                    "questions to partners what a payment came to, by what came of them",
                ),
                &["partner", "outcome"],
            )?,
            queries_waiting: IntGauge::new(
                "payfold_reconciler_queries_waiting",
                "questions that are due and not answered yet",
            )?,
            query_oldest_seconds: Gauge::new(
                "payfold_reconciler_query_oldest_seconds",
                "how long the oldest question that waits has been due",
            )?,
            unconfirmed_waiting: IntGauge::new(
                "payfold_reconciler_unconfirmed_waiting",
                "notices that count only once a query confirms them, and wait for it",
            )?,
        };
        registry.register(Box::new(metrics.pending_past_deadline.clone()))?;
        registry.register(Box::new(metrics.deadlines_appended.clone()))?;
        registry.register(Box::new(metrics.refs_shared.clone()))?;
        registry.register(Box::new(metrics.lag_records.clone()))?;
        registry.register(Box::new(metrics.halted.clone()))?;
        registry.register(Box::new(metrics.queries.clone()))?;
        registry.register(Box::new(metrics.queries_waiting.clone()))?;
        registry.register(Box::new(metrics.query_oldest_seconds.clone()))?;
        registry.register(Box::new(metrics.unconfirmed_waiting.clone()))?;
        Ok(metrics)
    }

    /// The reconciler has ended with an error (or panicked): nothing expires any more.
    pub fn halted(&self) {
        self.halted.set(1);
    }

    pub(crate) fn pending_are(&self, orders: usize) {
        self.pending_past_deadline.set(i64::try_from(orders).unwrap_or(i64::MAX));
    }

    pub(crate) fn deadlines_appended(&self, facts: usize) {
        self.deadlines_appended.inc_by(u64::try_from(facts).unwrap_or(u64::MAX));
    }

    pub(crate) fn refs_shared(&self, facts: usize) {
        self.refs_shared.inc_by(u64::try_from(facts).unwrap_or(u64::MAX));
    }

    pub(crate) fn lag_is(&self, records: u64) {
        self.lag_records.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    pub(crate) fn query_ended(&self, partner: &PartnerCode, outcome: &'static str) {
        self.queries.with_label_values(&[partner.as_str(), outcome]).inc();
    }

    pub(crate) fn queries_wait(&self, waiting: usize) {
        self.queries_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    pub(crate) fn unconfirmed_wait(&self, notices: usize) {
        self.unconfirmed_waiting.set(i64::try_from(notices).unwrap_or(i64::MAX));
    }

    pub(crate) fn oldest_query_waits(&self, waited: Duration) {
        self.query_oldest_seconds.set(waited.as_secs_f64());
    }
}
