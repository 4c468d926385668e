//! Owns the log lines of refusals: at most one a second for each code, with a digest of the body and never
//! a value of it, so that a flood of refusals can't flood the log.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use payfold_schemas::digest::Digest;

use crate::intake::Receipt;
use crate::refusal::Code;

/// Remembers when each code was last logged and how many went by since.
pub struct Sampler {
    codes: [Slot; Code::ALL.len()],
}

#[derive(Default)]
struct Slot {
    second: AtomicI64,
    passed_over: AtomicU64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { codes: std::array::from_fn(|_| Slot::default()) }
    }
}

impl Sampler {
    /// Logs this refusal if its code has not been logged in this second.
    pub fn sample(&self, receipt: &Receipt, body: Option<&[u8]>, code: Code) {
        let slot =
            &self.codes[Code::ALL.iter().position(|other| *other == code).unwrap_or_default()];
        let second = receipt.received_at.unix_ms().div_euclid(1_000);
        if slot.second.swap(second, Ordering::Relaxed) == second {
            slot.passed_over.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let passed_over = slot.passed_over.swap(0, Ordering::Relaxed);
        let digest = body.map(|body| Digest::of_bytes(body).to_string()).unwrap_or_default();
        tracing::info!(
            code = code.as_str(), request.id = %receipt.request_id, body.digest = digest,
            body.bytes = body.map_or(0, <[u8]>::len), since_last = passed_over, "ipn refused"
        );
    }
}
