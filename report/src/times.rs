//! Owns the text of times: in the partner's zone with its offset at that time, and ages in whole
//! days. Pure.

use chrono::DateTime;
use chrono_tz::Tz;
use maud::{Markup, html};
use payfold_schemas::time::Time;

const DAY_MS: i64 = 86_400_000;

/// The partner's zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartnerZone(Tz);

impl PartnerZone {
    /// The zone of this name; UTC if there is none, which the offset shows.
    pub(super) fn of(name: &str) -> Self {
        Self(name.parse().unwrap_or(Tz::UTC))
    }

    /// Formats a time: `2026-01-31 23:59:12 +07:00`.
    pub(super) fn clock(self, time: Time) -> String {
        let local = DateTime::from_timestamp_nanos(time.unix_nanos()).with_timezone(&self.0);
        local.format("%Y-%m-%d %H:%M:%S %:z").to_string()
    }

    /// As `clock`, in a `time` element with the instant for programs.
    pub(super) fn moment(self, time: Time) -> Markup {
        html! { time datetime=(time.to_rfc3339()) { (self.clock(time)) } }
    }

    /// The day of a time, `2026-01-31`.
    pub(super) fn day(self, time: Time) -> String {
        let local = DateTime::from_timestamp_nanos(time.unix_nanos()).with_timezone(&self.0);
        local.format("%Y-%m-%d").to_string()
    }
}

/// The age in whole days; 0 for a time in the future.
pub(super) fn age_days(since: Time, now: Time) -> u64 {
    let days = now.unix_ms().saturating_sub(since.unix_ms()) / DAY_MS;
    u64::try_from(days).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_partners_zone() {
        for (time, zone, expected) in [
            ("2026-01-31T17:00:00Z", "Asia/Ho_Chi_Minh", "2026-02-01 00:00:00 +07:00"),
            ("2026-07-01T10:00:00.9Z", "Europe/Berlin", "2026-07-01 12:00:00 +02:00"),
            ("2026-01-31T17:00:00Z", "America/St_Johns", "2026-01-31 13:30:00 -03:30"),
            ("2026-01-31T17:00:00Z", "Nowhere/Land", "2026-01-31 17:00:00 +00:00"),
        ] {
            let (time, zone) = (Time::parse(time).unwrap(), PartnerZone::of(zone));
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
