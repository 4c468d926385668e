//! Owns how times are written: in the partner's zone with the offset that holds then, and ages in whole days. Pure.

use chrono::DateTime;
use chrono_tz::Tz;
use maud::{Markup, html};
use payfold_schemas::time::Time;

const DAY_MS: i64 = 86_400_000;

/// The partner's zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zone(Tz);

impl Zone {
    /// The zone of this name; UTC where there is none, and the offset says so.
    pub(super) fn of(name: &str) -> Self {
        Self(name.parse().unwrap_or(Tz::UTC))
    }

    /// `2026-01-31 23:59:12 +07:00`.
    pub(super) fn clock(self, time: Time) -> String {
        let local = DateTime::from_timestamp_nanos(time.unix_nanos()).with_timezone(&self.0);
        local.format("%Y-%m-%d %H:%M:%S %:z").to_string()
    }

    /// The same, with the instant for programs.
    pub(super) fn moment(self, time: Time) -> Markup {
        html! { time datetime=(time.to_rfc3339()) { (self.clock(time)) } }
    }

    /// The day it is of, `2026-01-31`.
    pub(super) fn day(self, time: Time) -> String {
        let local = DateTime::from_timestamp_nanos(time.unix_nanos()).with_timezone(&self.0);
        local.format("%Y-%m-%d").to_string()
    }
}

/// Whole days since then; none are negative.
pub(super) fn age_days(since: Time, now: Time) -> u64 {
    let days = now.unix_ms().saturating_sub(since.unix_ms()) / DAY_MS;
    u64::try_from(days).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_partners() {
        for (time, zone, expected) in [
            ("2026-01-31T17:00:00Z", "Asia/Ho_Chi_Minh", "2026-02-01 00:00:00 +07:00"),
            ("2026-07-01T10:00:00.9Z", "Europe/Berlin", "2026-07-01 12:00:00 +02:00"),
            ("2026-01-31T17:00:00Z", "America/St_Johns", "2026-01-31 13:30:00 -03:30"),
            ("2026-01-31T17:00:00Z", "Nowhere/Land", "2026-01-31 17:00:00 +00:00"),
        ] {
            let (time, zone) = (Time::parse(time).unwrap(), Zone::of(zone));
            assert_eq!(zone.clock(time), expected);
            assert_eq!(zone.day(time), expected[..10]);
        }
    }

    #[test]
    fn ages_are_whole_days() {
        let then = Time::parse("2026-01-31T10:00:00Z").unwrap();
        for (ms, days) in [(-1, 0), (0, 0), (DAY_MS - 1, 0), (DAY_MS, 1), (31 * DAY_MS + 1, 31)] {
            assert_eq!(age_days(then, then.plus_ms(ms)), days);
        }
    }
}
