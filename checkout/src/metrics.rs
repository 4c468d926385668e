//! Owns what checkout counts and times, as verbs. Labels are partners, operations and codes; never an order.

use std::time::Duration;

use payfold_schemas::ids::PartnerCode;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry};

/// The code of a request that was done.
pub const OK: &str = "ok";

/// How an attempt to create a payment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The partner opened a session.
    Opened,
    /// The partner said no.
    Refused,
    /// The partner can't be reached.
    Unreachable,
    /// The partner's answer breaks the contract.
    ContractViolation,
    /// Nobody knows.
    Unknown,
    /// The partner has too many calls already.
    Busy,
    /// Nothing was called: the request could not be made durable.
    StorageUnavailable,
    /// A key that was known: answered from its order.
    Replayed,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::ContractViolation => "contract_violation",
            Self::Unknown => "unknown",
            Self::Busy => "busy",
            Self::StorageUnavailable => "storage_unavailable",
            Self::Replayed => "replayed",
        }
    }
}

/// The counters of the checkout role.
pub struct Metrics {
    requests: IntCounterVec,
    creates: IntCounterVec,
    call_duration: HistogramVec,
    streams: IntGauge,
}

/// A stream that is counted as open, until dropped.
pub struct OpenStream(IntGauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Makes and registers them. Errors: a name that is registered already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests = IntCounterVec::new(
            Opts::new(
                "payfold_checkout_requests_total",
                "Requests of shops by operation and code (ok, or the problem's).",
            ),
            &["operation", "code"],
        )?;
        let creates = IntCounterVec::new(
            Opts::new("payfold_checkout_creates_total", "Payments asked for, by what came of it."),
            &["partner", "outcome"],
        )?;
        let call_duration = HistogramVec::new(
            HistogramOpts::new(
                "payfold_checkout_partner_call_duration_seconds",
                "A create call at the partner, from connecting to the end of its answer.",
            )
            .buckets(vec![0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]),
            &["partner"],
        )?;
        let streams =
            IntGauge::new("payfold_checkout_streams", "Streams of order changes that are open.")?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(creates.clone()))?;
        registry.register(Box::new(call_duration.clone()))?;
        registry.register(Box::new(streams.clone()))?;
        Ok(Self { requests, creates, call_duration, streams })
    }

    /// A request was answered.
    pub fn answered(&self, operation: &str, code: &str) {
        self.requests.with_label_values(&[operation, code]).inc();
    }

    /// A payment was asked for, and this came of it.
    pub fn created(&self, partner: &PartnerCode, outcome: Outcome) {
        self.creates.with_label_values(&[partner.as_str(), outcome.as_str()]).inc();
    }

    /// A create call took this long.
    pub fn call_took(&self, partner: &PartnerCode, duration: Duration) {
        self.call_duration.with_label_values(&[partner.as_str()]).observe(duration.as_secs_f64());
    }

    /// A stream is opened.
    pub fn stream_opened(&self) -> OpenStream {
        self.streams.inc();
        OpenStream(self.streams.clone())
    }
}
