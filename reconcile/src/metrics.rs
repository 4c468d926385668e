//! Owns the metrics of reconciliation. The reconciler role exports them with its own.

use std::collections::BTreeMap;
use std::time::Duration;

use payfold_schemas::ids::PartnerCode;
use payfold_schemas::time::Time;
use prometheus::{
    GaugeVec, IntGauge, IntGaugeVec, Registry, register_gauge_vec_with_registry,
    register_int_gauge_vec_with_registry, register_int_gauge_with_registry,
};

/// The gauges of open findings, open flags, money at risk and complete runs.
pub struct ReconcileMetrics {
    findings_open: IntGaugeVec,
    flags_open: IntGaugeVec,
    decisions_waiting: IntGauge,
    money_at_risk_minor: IntGaugeVec,
    last_complete_run: GaugeVec,
}

impl ReconcileMetrics {
    /// Registers the metrics. Errors: a name is registered already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            findings_open: register_int_gauge_vec_with_registry!(
                "payfold_reconciler_findings_open",
                "undecided differences from partners' records",
                &["code", "severity"],
                registry
            )?,
            flags_open: register_int_gauge_vec_with_registry!(
                "payfold_reconciler_flags_open",
                "undecided flags of orders of compared days",
                &["flag", "severity"],
                registry
            )?,
            decisions_waiting: register_int_gauge_with_registry!(
                "payfold_reconciler_decisions_waiting",
                "first decisions on findings that wait for a second person",
                registry
            )?,
            money_at_risk_minor: register_int_gauge_vec_with_registry!(
                "payfold_reconciler_money_at_risk_minor",
                "minor units that open findings put at risk",
                &["currency"],
                registry
            )?,
            last_complete_run: register_gauge_vec_with_registry!(
                "payfold_reconciler_last_complete_run_timestamp_seconds",
                "when the partner's records were last compared whole, unix time",
                &["partner"],
                registry
            )?,
        })
    }

    /// Sets open findings by code and severity, and money at risk by currency in minor units.
    /// Labels that are not given lose their series.
    pub(crate) fn set_open_findings(
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

    /// Sets open findings of flags, by flag and severity. Labels that are not given lose their
    /// series.
    pub(crate) fn set_open_flags(&self, open: &BTreeMap<(&'static str, &'static str), i64>) {
        self.flags_open.reset();
        for ((flag, severity), count) in open {
            self.flags_open.with_label_values(&[*flag, *severity]).set(*count);
        }
    }

    /// Sets the number of first decisions that wait for a second person.
    pub(crate) fn set_waiting_decisions(&self, count: i64) {
        self.decisions_waiting.set(count);
    }

    /// Sets the start of a partner's last complete run.
    pub(crate) fn set_last_complete_run(&self, partner: &PartnerCode, at: Time) {
        let seconds = Duration::from_millis(u64::try_from(at.unix_ms()).unwrap_or(0)).as_secs_f64();
        self.last_complete_run.with_label_values(&[partner.as_str()]).set(seconds);
    }
}
