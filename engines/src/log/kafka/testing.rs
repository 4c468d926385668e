//! What tests of the Kafka log have in common.

use std::sync::atomic::{AtomicU32, Ordering};

/// A broker to test with.
#[expect(clippy::disallowed_methods, reason = "a test is told its broker")]
pub(super) fn kafka_broker() -> String {
    std::env::var("PAYFOLD_TEST_KAFKA").expect(
        "PAYFOLD_TEST_KAFKA names no broker: start one by \
         `deploy/dev-stack/dev-stack up --brokers 1 --cassandra 0` and set PAYFOLD_TEST_KAFKA=127.0.0.1:PORT",
    )
}

/// A prefix no other test has.
pub(super) fn fresh(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = crate::clock::Clock::now(&crate::clock::SystemClock).unix_nanos();
    format!("{name}-{now:x}-{count}")
}
