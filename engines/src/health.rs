//! Owns what a role knows of its storage's health: since when storing fails and why, and what readiness makes of it.
//! A role turns not ready only after 10 s of failures, and asks for traffic again after 10 s without any, so that a
//! storage that came back is noticed without a write of our own.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use payfold_schemas::time::Time;

use crate::lock;

const PATIENCE_MS: i64 = 10_000;
const HEALTHY: i64 = 0;

/// Since when storing fails (0: it doesn't), when it last failed, and why. Unix milliseconds.
#[derive(Debug, Default)]
pub struct StorageHealth {
    failing_since_ms: AtomicI64,
    last_failure_ms: AtomicI64,
    cause: Mutex<String>,
}

impl StorageHealth {
    /// Something became durable. Returns whether storing had failed before.
    pub fn succeeded(&self) -> bool {
        if self.failing_since_ms.load(Ordering::Relaxed) == HEALTHY {
            return false;
        }
        self.failing_since_ms.swap(HEALTHY, Ordering::Relaxed) != HEALTHY
    }

    /// Storing failed. Returns whether it is the first failure after a success.
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

    /// Whether nothing has failed since something last became durable.
    pub fn takes_appends(&self) -> bool {
        self.failing_since_ms.load(Ordering::Relaxed) == HEALTHY
    }

    /// Why no traffic should come here; none while it should.
    pub fn trouble(&self, now: Time) -> Option<String> {
        let since = self.failing_since_ms.load(Ordering::Relaxed);
        let last = self.last_failure_ms.load(Ordering::Relaxed);
        let stuck = since != HEALTHY && now.unix_ms().saturating_sub(since) >= PATIENCE_MS;
        let asked_lately = now.unix_ms().saturating_sub(last) < PATIENCE_MS;
        (stuck && asked_lately).then(|| lock(&self.cause).clone())
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
        assert_eq!(trouble(21_001), None, "nobody asked for 10 s: try again");
        health.failed(at(21_002), "the disk is full");
        assert_eq!(trouble(21_002).as_deref(), Some("the disk is full"));
        assert!(health.succeeded());
        assert!(!health.succeeded());
        assert_eq!(trouble(21_003), None);
    }
}
