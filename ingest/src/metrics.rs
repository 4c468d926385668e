//! Owns the counters and timers of ingest; each method records one event. The handles of a partner
//! are looked up once, so that counting a notice costs a few atomic additions. Labels are partners,
//! codes and key ids; never an order.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use payfold_schemas::ids::{KeyId, PartnerCode};
use payfold_schemas::time::Time;
use prometheus::{
    Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge, Registry,
    register_gauge_vec_with_registry, register_gauge_with_registry,
    register_histogram_with_registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry, register_int_gauge_with_registry,
};

use crate::clock_agreement::ClockVerdict;
use crate::refusal::RefusalCode;

/// The partner label of a request without a verified signature.
const NO_PARTNER: &str = "";
const ACCEPTED: &str = "accepted";
const DUPLICATE: &str = "duplicate";
const IGNORED: &str = "ignored";

/// The counters and timers of the ingest role.
pub struct IngestMetrics {
    requests: IntCounterVec,
    keys: KeyMetrics,
    skew: GaugeVec,
    last_accepted: GaugeVec,
    request_duration: Histogram,
    append_duration: Histogram,
    queue_depth: IntGauge,
    quarantined: CodeCounters,
    quarantine_over_budget: IntCounter,
    own_clock_skew: Gauge,
    unknown_fields: IntCounter,
    anonymous_refusals: CodeCounters,
    partners: RwLock<HashMap<PartnerCode, Arc<PartnerMetrics>>>,
}

/// Counters per key that verified a signature.
struct KeyMetrics {
    uses: IntCounterVec,
    old_uses: IntCounterVec,
}

impl KeyMetrics {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            uses: register_int_counter_vec_with_registry!(
                "payfold_ingest_key_uses_total",
                "Notices by the key their signature matched.",
                &["partner", "key_id"],
                registry
            )?,
            old_uses: register_int_counter_vec_with_registry!(
                "payfold_ingest_old_key_uses_total",
                "Notices signed with a replaced key during the overlap with its newer key.",
                &["partner", "key_id"],
                registry
            )?,
        })
    }
}

/// The counters and gauges of one partner.
pub(crate) struct PartnerMetrics {
    accepted: IntCounter,
    last_accepted: Gauge,
    skew: Gauge,
    key_uses: RwLock<HashMap<KeyId, IntCounter>>,
    refused: CodeCounters,
}

/// One counter per refusal code. Each is created at its first use, so that unused codes are not
/// exported.
struct CodeCounters {
    labels: Vec<String>,
    vec: IntCounterVec,
    counters_by_code: [OnceLock<IntCounter>; RefusalCode::ALL.len()],
}

impl CodeCounters {
    /// Counters of `vec`, which has the code as its last label; `labels` are the labels before it.
    fn new(vec: &IntCounterVec, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        Self {
            labels,
            vec: vec.clone(),
            counters_by_code: [const { OnceLock::new() }; RefusalCode::ALL.len()],
        }
    }

    fn count(&self, code: RefusalCode) {
        let make = || {
            let mut labels: Vec<_> = self.labels.iter().map(String::as_str).collect();
            labels.push(code.as_str());
            self.vec.with_label_values(&labels)
        };
        self.counters_by_code[code.index()].get_or_init(make).inc();
    }
}

impl IngestMetrics {
    /// Creates and registers all metrics. Errors: a name that is registered already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests = register_int_counter_vec_with_registry!(
            "payfold_ingest_requests_total",
            "Notices by partner and outcome (accepted, duplicate, ignored, or the refusal's code).",
            &["partner", "code"],
            registry
        )?;
        let quarantined = register_int_counter_vec_with_registry!(
            "payfold_quarantine_records_total",
            "Validly signed notices stored in quarantine, by refusal code.",
            &["code"],
            registry
        )?;
        let anonymous_refusals = CodeCounters::new(&requests, &[NO_PARTNER]);
        for code in RefusalCode::ALL {
            requests.with_label_values(&[NO_PARTNER, code.as_str()]);
        }
        Ok(Self {
            keys: KeyMetrics::new(registry)?,
            skew: register_gauge_vec_with_registry!(
                "payfold_ingest_clock_skew_seconds",
                "This host's clock minus the timestamp of the partner's last accepted notice.",
                &["partner"],
                registry
            )?,
            last_accepted: register_gauge_vec_with_registry!(
                "payfold_ingest_last_accepted_timestamp_seconds",
                "When the partner's last notice was accepted, unix seconds.",
                &["partner"],
                registry
            )?,
            request_duration: register_histogram_with_registry!(
                "payfold_ingest_request_duration_seconds",
                "Time from the head of a request to its response.",
                latency_buckets(),
                registry
            )?,
            append_duration: register_histogram_with_registry!(
                "payfold_ingest_append_duration_seconds",
                "Time from handing a fact to the log until it is durable.",
                latency_buckets(),
                registry
            )?,
            requests,
            queue_depth: register_int_gauge_with_registry!(
                "payfold_ingest_append_queue_depth",
                "Appends waiting for durability.",
                registry
            )?,
            quarantined: CodeCounters::new(&quarantined, &[]),
            quarantine_over_budget: register_int_counter_with_registry!(
                "payfold_quarantine_over_budget_total",
                "Signed notices answered 503 and not stored because their account is over its \
                 quarantine budget.",
                registry
            )?,
            own_clock_skew: register_gauge_with_registry!(
                "payfold_ingest_own_clock_skew_seconds",
                "This host's clock minus the time that partners agree on, while they show that it \
                 is wrong; else 0.",
                registry
            )?,
            unknown_fields: register_int_counter_with_registry!(
                "payfold_ingest_unknown_fields_total",
                "Fields outside the contract in accepted notices.",
                registry
            )?,
            anonymous_refusals,
            partners: RwLock::default(),
        })
    }

    /// Counts an accepted notice; `handles` are those of its partner.
    pub(crate) fn count_accepted(
        &self,
        handles: &PartnerMetrics,
        (partner, key_id): (&PartnerCode, &KeyId),
    ) {
        handles.accepted.inc();
        handles.count_key_use(key_id, || {
            self.keys.uses.with_label_values(&[partner.as_str(), key_id.as_str()])
        });
    }

    /// Counts an accepted notice that was signed with a replaced key.
    pub(crate) fn count_old_key_use(&self, partner: &PartnerCode, key_id: &KeyId) {
        self.keys.old_uses.with_label_values(&[partner.as_str(), key_id.as_str()]).inc();
    }

    /// Counts a refused notice; `partner` is given only if a verified signature proves it.
    pub(crate) fn count_refused(&self, partner: Option<&PartnerCode>, code: RefusalCode) {
        match partner {
            Some(partner) => self.for_partner(partner).refused.count(code),
            None => self.anonymous_refusals.count(code),
        }
    }

    /// Counts an authenticated notice that leaves no fact and is acknowledged.
    pub(crate) fn count_ignored(&self, partner: &PartnerCode) {
        self.requests.with_label_values(&[partner.as_str(), IGNORED]).inc();
    }

    /// Counts a replay of a stored fact.
    pub(crate) fn count_duplicate(&self, partner: &PartnerCode) {
        self.requests.with_label_values(&[partner.as_str(), DUPLICATE]).inc();
    }

    /// Counts a notice that is durable in quarantine.
    pub(crate) fn count_quarantined(&self, code: RefusalCode) {
        self.quarantined.count(code);
    }

    /// Counts a signed notice that was not stored: its account is over its quarantine budget.
    pub(crate) fn count_over_budget(&self) {
        self.quarantine_over_budget.inc();
    }

    /// Sets the error of this host's clock; called when metrics are exported.
    pub fn set_own_clock_skew(&self, verdict: ClockVerdict) {
        self.own_clock_skew.set(match verdict {
            ClockVerdict::Agrees => 0.0,
            ClockVerdict::Off { skew_ms, .. } => skew_ms as f64 / 1e3,
        });
    }

    /// Counts the fields outside the contract in an accepted notice.
    pub(crate) fn count_unknown_fields(&self, fields: u64) {
        if fields > 0 {
            self.unknown_fields.inc_by(fields);
        }
    }

    /// Records the duration of a request.
    pub(crate) fn observe_request(&self, duration: Duration) {
        self.request_duration.observe(duration.as_secs_f64());
    }

    /// Records the duration of an append.
    pub(crate) fn observe_append(&self, duration: Duration) {
        self.append_duration.observe(duration.as_secs_f64());
    }

    /// Sets the number of waiting appends; called when metrics are exported.
    pub fn set_queue_depth(&self, depth: usize) {
        self.queue_depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    /// The handles of one partner. They are created at its first notice.
    pub(crate) fn for_partner(&self, partner: &PartnerCode) -> Arc<PartnerMetrics> {
        let known = self.partners.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(handles) = known.get(partner) {
            return Arc::clone(handles);
        }
        drop(known);
        let label = &[partner.as_str()];
        let handles = Arc::new(PartnerMetrics {
            accepted: self.requests.with_label_values(&[partner.as_str(), ACCEPTED]),
            last_accepted: self.last_accepted.with_label_values(label),
            skew: self.skew.with_label_values(label),
            key_uses: RwLock::default(),
            refused: CodeCounters::new(&self.requests, label),
        });
        let mut known = self.partners.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        Arc::clone(known.entry(partner.clone()).or_insert(handles))
    }
}

impl PartnerMetrics {
    /// Sets the time and the skew of the last accepted notice: received at `now`, signed with
    /// `timestamp`.
    pub(crate) fn set_last_accepted(&self, now: Time, timestamp: Option<Time>) {
        self.last_accepted.set(seconds(now.unix_nanos()));
        if let Some(timestamp) = timestamp {
            self.skew.set(seconds(now.nanos_since(timestamp)));
        }
    }

    fn count_key_use(&self, key_id: &KeyId, make: impl FnOnce() -> IntCounter) {
        let known = self.key_uses.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(uses) = known.get(key_id) {
            uses.inc();
            return;
        }
        drop(known);
        let mut known = self.key_uses.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        known.entry(key_id.clone()).or_insert_with(make).inc();
    }
}

fn seconds(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

/// Buckets from 100 µs to 10 s: a normal response takes a few ms, a stuck disk some seconds.
fn latency_buckets() -> Vec<f64> {
    vec![
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
        5.0, 10.0,
    ]
}
