//! Owns what the tests of the Kafka log share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use payfold_testing::stack;

use super::settings::KafkaSettings;

/// Settings with a prefix of their own. Their messages have more time than a busy machine takes.
/// `None` when tests with real servers are left out.
pub(super) fn fresh_settings(name: &str) -> Option<KafkaSettings> {
    let broker = stack::is_available().then(stack::broker)?;
    let settings = KafkaSettings::new(vec![broker], &fresh(name));
    Some(KafkaSettings { delivery_timeout: Duration::from_secs(30), ..settings })
}

/// Makes a prefix that no other test uses.
fn fresh(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = crate::clock::Clock::now(&crate::clock::SystemClock).unix_nanos();
    format!("{name}-{now:x}-{count}")
}
