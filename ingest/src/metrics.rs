//! Owns what ingest counts and times, as verbs. Handles are resolved once per partner, so that counting
//! a notice is some atomic adds. Labels are partners, codes and key ids; never an order.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use payfold_schemas::ids::{KeyId, PartnerCode};
use payfold_schemas::time::Time;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

use crate::clock_agreement::ClockVerdict;
use crate::refusal::Code;

/// The label of a request whose partner is not known to be who it says.
const NO_PARTNER: &str = "";
const ACCEPTED: &str = "accepted";
const DUPLICATE: &str = "duplicate";
const IGNORED: &str = "ignored";

/// The counters of the ingest role.
pub struct Metrics {
    requests: IntCounterVec,
    key_uses: IntCounterVec,
    old_key_uses: IntCounterVec,
    skew: GaugeVec,
    last_accepted: GaugeVec,
    request_duration: Histogram,
    append_duration: Histogram,
    queue_depth: IntGauge,
    quarantined: PerCode,
    quarantine_over_budget: IntCounter,
    own_clock_skew: Gauge,
    unknown_fields: IntCounter,
    anonymous: PerCode,
    partners: RwLock<HashMap<PartnerCode, Arc<PartnerMetrics>>>,
}

/// The handles of one partner.
pub struct PartnerMetrics {
    accepted: IntCounter,
    last_accepted: Gauge,
    skew: Gauge,
    key_uses: RwLock<HashMap<KeyId, IntCounter>>,
    refused: PerCode,
}

/// One counter per code, made when it is first needed: a label that never counted is not shown.
struct PerCode {
    labels: Vec<String>,
    counters: IntCounterVec,
    made: [OnceLock<IntCounter>; Code::ALL.len()],
}

impl PerCode {
    /// Counters of `vec` whose last label is the code; `labels` are those before it.
    fn new(vec: &IntCounterVec, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        Self { labels, counters: vec.clone(), made: [const { OnceLock::new() }; Code::ALL.len()] }
    }

    fn count(&self, code: Code) {
        let make = || {
            let mut labels: Vec<_> = self.labels.iter().map(String::as_str).collect();
            labels.push(code.as_str());
            self.counters.with_label_values(&labels)
        };
        self.made[code.index()].get_or_init(make).inc();
    }
}

impl Metrics {
    /// Makes and registers them. Errors: a name that is registered already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let register = Registrar(registry);
        let requests = register.counters(
            "payfold_ingest_requests_total",
            "Notices by partner and outcome (accepted, duplicate, ignored, or the refusal's code).",
            &["partner", "code"],
        )?;
        let quarantined = register.counters(
            "payfold_quarantine_records_total",
            "Validly signed notices kept in quarantine, by refusal code.",
            &["code"],
        )?;
        let anonymous = PerCode::new(&requests, &[NO_PARTNER]);
        for code in Code::ALL {
            requests.with_label_values(&[NO_PARTNER, code.as_str()]);
        }
        Ok(Self {
            key_uses: register.counters(
                "payfold_ingest_key_uses_total",
                "Notices by the key their signature matched.",
                &["partner", "key_id"],
            )?,
            old_key_uses: register.counters(
                "payfold_ingest_old_key_uses_total",
                "Notices signed with a key that a newer one had begun beside.",
                &["partner", "key_id"],
            )?,
            skew: register.partner_gauge(
                "payfold_ingest_clock_skew_seconds",
                "Our clock minus the timestamp of the partner's last accepted notice.",
            )?,
            last_accepted: register.partner_gauge(
                "payfold_ingest_last_accepted_timestamp_seconds",
                "When the partner's last notice was accepted, unix seconds.",
            )?,
            request_duration: register.histogram(
                "payfold_ingest_request_duration_seconds",
                "From the head of a notice to its answer.",
            )?,
            append_duration: register.histogram(
                "payfold_ingest_append_duration_seconds",
                "From hand-over to the log until durable.",
            )?,
            requests,
            queue_depth: register
                .gauge("payfold_ingest_append_queue_depth", "Appends waiting for durability.")?,
            quarantined: PerCode::new(&quarantined, &[]),
            quarantine_over_budget: register.counter(
                "payfold_quarantine_over_budget_total",
                "Signed notices answered 503 and not kept: their account is over its quarantine bytes.",
            )?,
            own_clock_skew: register.float_gauge(
                "payfold_ingest_own_clock_skew_seconds",
                "Our clock minus the times partners agree on, while those show that ours is wrong; else 0.",
            )?,
            unknown_fields: register.counter(
                "payfold_ingest_unknown_fields_total",
                "Fields outside the contract in accepted notices.",
            )?,
            anonymous,
            partners: RwLock::default(),
        })
    }

    /// A notice was accepted; `handles` are its partner's.
    pub fn notice_accepted(
        &self,
        handles: &PartnerMetrics,
        (partner, key_id): (&PartnerCode, &KeyId),
    ) {
        handles.accepted.inc();
        handles.count_key_use(key_id, || {
            self.key_uses.with_label_values(&[partner.as_str(), key_id.as_str()])
        });
    }

    /// An accepted notice was signed with the old key of an overlap.
    pub fn old_key_used(&self, partner: &PartnerCode, key_id: &KeyId) {
        self.old_key_uses.with_label_values(&[partner.as_str(), key_id.as_str()]).inc();
    }

    /// A notice was refused; `partner` only where its signature proved it.
    pub fn notice_refused(&self, partner: Option<&PartnerCode>, code: Code) {
        match partner {
            Some(partner) => self.partner(partner).refused.count(code),
            None => self.anonymous.count(code),
        }
    }

    /// A genuine notice is of a kind its partner's profile leaves alone.
    pub fn notice_ignored(&self, partner: &PartnerCode) {
        self.requests.with_label_values(&[partner.as_str(), IGNORED]).inc();
    }

    /// A notice is a replay of one that is stored.
    pub fn notice_repeated(&self, partner: &PartnerCode) {
        self.requests.with_label_values(&[partner.as_str(), DUPLICATE]).inc();
    }

    /// A signed notice was kept in quarantine.
    pub fn notice_quarantined(&self, code: Code) {
        self.quarantined.count(code);
    }

    /// A signed notice was over its account's quarantine budget.
    pub fn quarantine_over_budget(&self) {
        self.quarantine_over_budget.inc();
    }

    /// What partners' times say of our clock (set when metrics are read).
    pub fn own_clock_is(&self, verdict: ClockVerdict) {
        self.own_clock_skew.set(match verdict {
            ClockVerdict::Agrees => 0.0,
            ClockVerdict::Off { skew_ms, .. } => skew_ms as f64 / 1e3,
        });
    }

    /// An accepted notice had fields outside the contract.
    pub fn unknown_fields_seen(&self, fields: u64) {
        if fields > 0 {
            self.unknown_fields.inc_by(fields);
        }
    }

    /// A request took this long.
    pub fn request_took(&self, duration: Duration) {
        self.request_duration.observe(duration.as_secs_f64());
    }

    /// An append took this long.
    pub fn append_took(&self, duration: Duration) {
        self.append_duration.observe(duration.as_secs_f64());
    }

    /// So many appends wait now (set when metrics are read).
    pub fn queue_depth_is(&self, depth: usize) {
        self.queue_depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    /// The handles of one partner, made at its first notice.
    pub fn partner(&self, partner: &PartnerCode) -> Arc<PartnerMetrics> {
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
            refused: PerCode::new(&self.requests, label),
        });
        let mut known = self.partners.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        Arc::clone(known.entry(partner.clone()).or_insert(handles))
    }
}

impl PartnerMetrics {
    /// The last accepted notice came at `now` and says it was sent at `timestamp`.
    pub fn seen_at(&self, now: Time, timestamp: Option<Time>) {
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

/// Makes metrics and registers them.
struct Registrar<'a>(&'a Registry);

impl Registrar<'_> {
    fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec, prometheus::Error> {
        let made = IntCounterVec::new(Opts::new(name, help), labels)?;
        self.0.register(Box::new(made.clone())).map(|()| made)
    }

    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        let made = IntCounter::new(name, help)?;
        self.0.register(Box::new(made.clone())).map(|()| made)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        let made = IntGauge::new(name, help)?;
        self.0.register(Box::new(made.clone())).map(|()| made)
    }

    fn float_gauge(&self, name: &str, help: &str) -> Result<Gauge, prometheus::Error> {
        let made = Gauge::new(name, help)?;
        self.0.register(Box::new(made.clone())).map(|()| made)
    }

    fn partner_gauge(&self, name: &str, help: &str) -> Result<GaugeVec, prometheus::Error> {
        let made = GaugeVec::new(Opts::new(name, help), &["partner"])?;
        self.0.register(Box::new(made.clone())).map(|()| made)
    }

    fn histogram(&self, name: &str, help: &str) -> Result<Histogram, prometheus::Error> {
        let made = Histogram::with_opts(HistogramOpts::new(name, help).buckets(latency_buckets()))?;
        self.0.register(Box::new(made.clone())).map(|()| made)
    }
}

fn seconds(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

/// 100 µs to 10 s: an answer is some ms, a stuck disk some seconds.
fn latency_buckets() -> Vec<f64> {
    vec![
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
        5.0, 10.0,
    ]
}
