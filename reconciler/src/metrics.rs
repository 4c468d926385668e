//! Owns what the reconciler counts, as verbs.

use std::collections::BTreeMap;
use std::time::Duration;

use payfold_schemas::ids::PartnerCode;
use payfold_schemas::time::Time;
use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
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
    findings_open: IntGaugeVec,
    flags_open: IntGaugeVec,
    money_at_risk_minor: IntGaugeVec,
    last_complete_run: GaugeVec,
}

/// A gauge for each value of the labels.
fn int_gauges(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
    IntGaugeVec::new(Opts::new(name, help), labels)
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
            findings_open: int_gauges(
                "payfold_reconciler_findings_open",
                "differences to partners' records that nobody has decided",
                &["code", "severity"],
            )?,
            flags_open: int_gauges(
                "payfold_reconciler_flags_open",
                "flags of orders of compared days that nobody has decided",
                &["flag", "severity"],
            )?,
            money_at_risk_minor: int_gauges(
                "payfold_reconciler_money_at_risk_minor",
                "minor units that open findings put at risk",
                &["currency"],
            )?,
            last_complete_run: GaugeVec::new(
                Opts::new(
                    "payfold_reconciler_last_complete_run_timestamp_seconds",
                    "when the partner's records were last compared whole, unix time",
                ),
                &["partner"],
            )?,
        };
        metrics.all().into_iter().try_for_each(|metric| registry.register(metric))?;
        Ok(metrics)
    }

    fn all(&self) -> Vec<Box<dyn Collector>> {
        vec![
            Box::new(self.pending_past_deadline.clone()),
            Box::new(self.deadlines_appended.clone()),
            Box::new(self.refs_shared.clone()),
            Box::new(self.lag_records.clone()),
            Box::new(self.halted.clone()),
            Box::new(self.queries.clone()),
            Box::new(self.queries_waiting.clone()),
            Box::new(self.query_oldest_seconds.clone()),
            Box::new(self.unconfirmed_waiting.clone()),
            Box::new(self.findings_open.clone()),
            Box::new(self.flags_open.clone()),
            Box::new(self.money_at_risk_minor.clone()),
            Box::new(self.last_complete_run.clone()),
        ]
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

    /// Findings by code and severity, and money by currency; what is not named is none.
    pub(crate) fn findings_are(
        &self,
        open: &BTreeMap<(&'static str, &'static str), i64>,
        at_risk: &BTreeMap<&'static str, i64>,
    ) {
        self.findings_open.reset();
        for ((code, severity), count) in open {
            self.findings_open.with_label_values(&[*code, *severity]).set(*count);
        }
        self.money_at_risk_minor.reset();
        for (currency, minor) in at_risk {
            self.money_at_risk_minor.with_label_values(&[*currency]).set(*minor);
        }
    }

    /// Open findings of flags, by flag and severity; what is not named is none.
    pub(crate) fn flags_are(&self, open: &BTreeMap<(&'static str, &'static str), i64>) {
        self.flags_open.reset();
        for ((flag, severity), count) in open {
            self.flags_open.with_label_values(&[*flag, *severity]).set(*count);
        }
    }

    pub(crate) fn compared(&self, partner: &PartnerCode, at: Time) {
        let seconds = Duration::from_millis(u64::try_from(at.unix_ms()).unwrap_or(0)).as_secs_f64();
        self.last_complete_run.with_label_values(&[partner.as_str()]).set(seconds);
    }
}
