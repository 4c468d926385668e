//! Owns what ingest knows of the storage's health: since when appends fail, and what readiness makes of it.
//! A pod turns not ready only after 10 s of failures, and asks for traffic again after 10 s without any, so that
//! a storage that came back is noticed without a write of our own.

use std::sync::atomic::{AtomicI64, Ordering};

use payfold_schemas::time::Time;

const PATIENCE_MS: i64 = 10_000;
const HEALTHY: i64 = 0;

/// Since when appends fail (0: they don't), and when the last one failed. Unix milliseconds.
#[derive(Debug, Default)]
pub struct StorageHealth {
    failing_since_ms: AtomicI64,
    last_failure_ms: AtomicI64,
}

impl StorageHealth {
    /// An append became durable. Tells whether appends had failed before.
    pub fn succeeded(&self) -> bool {
        if self.failing_since_ms.load(Ordering::Relaxed) == HEALTHY {
            return false;
        }
        self.failing_since_ms.swap(HEALTHY, Ordering::Relaxed) != HEALTHY
    }

    /// An append failed. Tells whether it is the first after a success.
    pub fn failed(&self, now: Time) -> bool {
        self.last_failure_ms.store(now.unix_ms(), Ordering::Relaxed);
        self.failing_since_ms
            .compare_exchange(HEALTHY, now.unix_ms(), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Whether traffic should come here.
    pub fn is_ready(&self, now: Time) -> bool {
        let since = self.failing_since_ms.load(Ordering::Relaxed);
        let last = self.last_failure_ms.load(Ordering::Relaxed);
        let stuck = since != HEALTHY && now.unix_ms().saturating_sub(since) >= PATIENCE_MS;
        let asked_lately = now.unix_ms().saturating_sub(last) < PATIENCE_MS;
        !(stuck && asked_lately)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_seconds_of_failures_are_not_ready_and_quiet_or_success_is() {
        let (health, at) = (StorageHealth::default(), Time::from_unix_ms);
        assert!(health.is_ready(at(1_000)));
        assert!(health.failed(at(1_000)));
        assert!(!health.failed(at(9_000)));
        assert!(health.is_ready(at(9_000)));
        health.failed(at(11_000));
        assert!(!health.is_ready(at(11_000)));
        assert!(health.is_ready(at(21_001)), "nobody asked for 10 s: try again");
        health.failed(at(21_002));
        assert!(!health.is_ready(at(21_002)));
        assert!(health.succeeded());
        assert!(!health.succeeded());
        assert!(health.is_ready(at(21_003)));
    }
}
