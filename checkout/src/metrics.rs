//! Owns the metrics of checkout. Labels are partners, operations and codes, never an order.

use std::time::Duration;

use payfold_schemas::ids::PartnerCode;
use prometheus::{
    HistogramVec, IntCounterVec, IntGauge, Registry, register_histogram_vec_with_registry,
    register_int_counter_vec_with_registry, register_int_gauge_with_registry,
};

/// The `code` label of a request without a problem.
pub(crate) const OK: &str = "ok";

/// How a create request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreateResult {
    /// The partner opened a session.
    Opened,
    /// The partner refused the payment.
    Refused,
    /// The partner could not be reached; nothing was sent.
    Unreachable,
    /// The partner's answer breaks the contract.
    ContractViolation,
    /// It is unknown whether the partner opened a session.
    Unknown,
    /// The partner has too many calls in flight already.
    Busy,
    /// No call was made: `CreateRequested` was not durable in time.
    StorageUnavailable,
    /// The key was known; the request was answered from its order.
    Replayed,
}

impl CreateResult {
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

/// The metrics of the checkout role.
pub struct Metrics {
    requests: IntCounterVec,
    creates: IntCounterVec,
    call_duration: HistogramVec,
    streams: IntGauge,
}

/// Counts a stream as open, until dropped.
pub(crate) struct OpenStream(IntGauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Registers the metrics. Errors: a name is registered already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests = register_int_counter_vec_with_registry!(
            "payfold_checkout_requests_total",
            "Requests of shops by operation and code (ok, or the code of the problem).",
            &["operation", "code"],
            registry
        )?;
        let creates = register_int_counter_vec_with_registry!(
            "payfold_checkout_creates_total",
            "Create requests by partner and outcome.",
            &["partner", "outcome"],
            registry
        )?;
        let call_duration = register_histogram_vec_with_registry!(
            "payfold_checkout_partner_call_duration_seconds",
            "A create call to the end of its answer, with waits for tokens and a repeated call.",
            &["partner"],
            vec![0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0],
            registry
        )?;
        let streams = register_int_gauge_with_registry!(
            "payfold_checkout_streams",
            "Streams of order changes that are open.",
            registry
        )?;
        Ok(Self { requests, creates, call_duration, streams })
    }

    /// Counts an answered request.
    pub(crate) fn count_request(&self, operation: &str, code: &str) {
        self.requests.with_label_values(&[operation, code]).inc();
    }

    /// Counts a create request by its outcome.
    pub(crate) fn count_create(&self, partner: &PartnerCode, outcome: CreateResult) {
        self.creates.with_label_values(&[partner.as_str(), outcome.as_str()]).inc();
    }

    /// Records how long a create call took.
    pub(crate) fn observe_call(&self, partner: &PartnerCode, duration: Duration) {
        self.call_duration.with_label_values(&[partner.as_str()]).observe(duration.as_secs_f64());
    }

    /// Counts a stream that is opened.
    pub(crate) fn open_stream(&self) -> OpenStream {
        self.streams.inc();
        OpenStream(self.streams.clone())
    }
}
