//! Owns a role's view of its storage: since when writes fail, why, and what that means for
//! readiness.
//!
//! Readiness is half-open, like a circuit breaker (decision 0007). A role becomes not ready only
//! after 10 s of failures. After 10 s without a failed write it reports ready again although no
//! write succeeded, because a role that gets no traffic writes nothing and so would never notice
//! that the storage works again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use payfold_schemas::time::Time;

use crate::lock;

/// How long writes fail before a role is not ready, and how long it then goes without a failed
/// write before it is ready again.
const TIMEOUT_MS: i64 = 10_000;

/// The value of `failing_since_ms` while writes succeed.
const HEALTHY: i64 = 0;

/// Since when writes fail, when the last one failed, and why. Times are Unix milliseconds.
#[derive(Debug, Default)]
pub struct StorageHealth {
    failing_since_ms: AtomicI64,
    last_failure_ms: AtomicI64,
    cause: Mutex<String>,
}

impl StorageHealth {
    /// Records that a write became durable. Returns whether writes had failed before it.
    pub fn succeeded(&self) -> bool {
        if self.failing_since_ms.load(Ordering::Relaxed) == HEALTHY {
            return false;
        }
        self.failing_since_ms.swap(HEALTHY, Ordering::Relaxed) != HEALTHY
    }

    /// Records a failed write. Returns whether it is the first failure after a success.
    pub fn failed(&self, now: Time, cause: &str) -> bool {
        let mut known = lock(&self.cause);
        if *known != cause {
            cause.clone_into(&mut known);
        }
        drop(known);
        self.last_failure_ms.store(now.unix_ms(), Ordering::Relaxed);
        self.failing_since_ms
            .compare_exchange(HEALTHY, now.unix_ms(), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Whether no write has failed since the last one that became durable.
    pub fn takes_appends(&self) -> bool {
        self.failing_since_ms.load(Ordering::Relaxed) == HEALTHY
    }

    /// Why this process should get no traffic; `None` while it is ready.
    pub fn trouble(&self, now: Time) -> Option<String> {
        let since = self.failing_since_ms.load(Ordering::Relaxed);
        let last = self.last_failure_ms.load(Ordering::Relaxed);
        let fails_for_long = since != HEALTHY && now.unix_ms().saturating_sub(since) >= TIMEOUT_MS;
        let failed_lately = now.unix_ms().saturating_sub(last) < TIMEOUT_MS;
        (fails_for_long && failed_lately).then(|| lock(&self.cause).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_seconds_of_failures_are_not_ready_and_quiet_or_success_is() {
        let (health, at) = (StorageHealth::default(), Time::from_unix_ms);
        let trouble = |now| health.trouble(at(now));
        assert_eq!(trouble(1_000), None);
        assert!(health.failed(at(1_000), "the disk is full"));
        assert!(!health.failed(at(9_000), "the disk is full"));
        assert_eq!(trouble(9_000), None);
        health.failed(at(11_000), "the disk is read-only");
        assert_eq!(trouble(11_000).as_deref(), Some("the disk is read-only"));
        assert_eq!(trouble(21_001), None, "no write for 10 s: let traffic try again");
        health.failed(at(21_002), "the disk is full");
        assert_eq!(trouble(21_002).as_deref(), Some("the disk is full"));
        assert!(health.succeeded());
        assert!(!health.succeeded());
        assert_eq!(trouble(21_003), None);
    }
}
