//! What tests of the Kafka log have in common.

use std::sync::atomic::{AtomicU32, Ordering};

use payfold_testing::stack;

/// A broker to test with; none when real servers are left out.
pub(super) fn kafka_broker() -> Option<String> {
    stack::wanted().then(stack::broker)
}

/// A prefix no other test has.
pub(super) fn fresh(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = crate::clock::Clock::now(&crate::clock::SystemClock).unix_nanos();
    format!("{name}-{now:x}-{count}")
}
