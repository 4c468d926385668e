//! The waits of all tests, and one for what is counted by the calendar.
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
pub use payfold_testing::waits::{Stopwatch, until, until_seen, within};

/// Waits while an hour of UTC, and perhaps a day or a month with it, is about to end. What is
/// counted per hour, day or month then falls into one of them.
pub fn early_in_hour(needed: Duration) {
    let needed = i64::try_from(needed.as_millis()).expect("a short time");
    let left = || 3_600_000 - SystemClock.now().unix_ms().rem_euclid(3_600_000);
    until("the hour ends", Duration::from_secs(60), || (left() > needed).then_some(()));
}
