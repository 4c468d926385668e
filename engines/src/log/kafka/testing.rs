//! What tests of the Kafka log have in common.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use payfold_testing::stack;

use super::settings::KafkaSettings;

/// Settings of a log of its own, whose messages have more time than a busy machine takes; none when real servers are
/// left out.
pub(super) fn settings(name: &str) -> Option<KafkaSettings> {
    let broker = stack::wanted().then(stack::broker)?;
    let settings = KafkaSettings::new(vec![broker], &fresh(name));
    Some(KafkaSettings { delivery_timeout: Duration::from_secs(30), ..settings })
}

/// A prefix no other test has.
fn fresh(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = crate::clock::Clock::now(&crate::clock::SystemClock).unix_nanos();
    format!("{name}-{now:x}-{count}")
}
