//! What tests of the Kafka log have in common.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use payfold_testing::stack;

use super::settings::KafkaSettings;

/// A broker to test with; none when real servers are left out.
pub(super) fn kafka_broker() -> Option<String> {
    stack::wanted().then(stack::broker)
}

/// Settings of a log of its own, whose messages have more time than a busy machine takes; none when real servers are
/// left out.
pub(super) fn settings(name: &str) -> Option<KafkaSettings> {
    let settings = KafkaSettings::new(vec![kafka_broker()?], &fresh(name));
    Some(KafkaSettings { delivery_timeout: Duration::from_secs(30), ..settings })
}

/// A prefix no other test has.
pub(super) fn fresh(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = crate::clock::Clock::now(&crate::clock::SystemClock).unix_nanos();
    format!("{name}-{now:x}-{count}")
}
