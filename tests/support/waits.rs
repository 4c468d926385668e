//! Waits until a condition holds or its time is over. Nothing sleeps for luck. A failure
//! begins with `[time]`.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fmt::Debug;
use std::time::{Duration, Instant};

use payfold_engines::clock::{Clock, SystemClock};

/// How much longer than on a quiet machine something may take: a time limit here finds what never
/// comes, and a machine with other work must not make it up.
const BUSY: u32 = 6;

/// Asks until there is something; fails when it is not there `BUSY` times its time on a quiet
/// machine.
pub fn until<T>(what: &str, quiet: Duration, ask: impl FnMut() -> Option<T>) -> T {
    within(what, quiet * BUSY, ask)
}

/// As `until`; a failure shows what `ask` saw instead.
pub fn until_seen<T, S: Debug>(
    what: &str,
    quiet: Duration,
    mut ask: impl FnMut() -> Result<T, S>,
) -> T {
    let mut seen = None;
    watch(quiet * BUSY, || ask().map_err(|instead| seen = Some(instead)).ok())
        .unwrap_or_else(|| panic!("[time] not within {:?}: {what}, but {seen:?}", quiet * BUSY))
}

/// Asks until there is something; fails when it is not there within a time that was promised, on
/// any machine.
pub fn within<T>(what: &str, time_max: Duration, ask: impl FnMut() -> Option<T>) -> T {
    watch(time_max, ask).unwrap_or_else(|| panic!("[time] not within {time_max:?}: {what}"))
}

fn watch<T>(time_max: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    let mut found = ask();
    while found.is_none() && begun.elapsed() < time_max {
        std::thread::sleep(Duration::from_millis(5));
        found = ask();
    }
    found
}

/// Waits while an hour of UTC, and perhaps a day or a month with it, is about to end. What is
/// counted per hour, day or month then falls into one of them.
pub fn early_in_hour(needed: Duration) {
    let needed = i64::try_from(needed.as_millis()).expect("a short time");
    let left = || 3_600_000 - SystemClock.now().unix_ms().rem_euclid(3_600_000);
    until("the hour ends", Duration::from_secs(60), || (left() > needed).then_some(()));
}
