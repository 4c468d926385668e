//! Owns what a comparison is judged by: whose day it is, how young a payment may be, how near to midnight. Pure.

use chrono::{Days, NaiveDate, NaiveTime, TimeZone};
use chrono_tz::Tz;
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;

/// One day of a partner, and what is let pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The day in the partner's zone.
    pub day: NaiveDate,
    /// That zone.
    pub zone: Tz,
    /// Its first instant.
    pub from: Time,
    /// The instant after its last.
    pub until: Time,
    /// Orders are judged as of then.
    pub now: Time,
    /// A payment younger than this is not missed, ms.
    pub grace_ms: i64,
    /// A payment so near to the day's border may be on the neighbouring day's records, ms.
    pub cut_off_ms: i64,
    /// How far the two times of one payment may differ, ms; none where the records have only dates.
    pub time_tolerance_ms: Option<i64>,
    /// What the records list: payments, refunds or both.
    pub lists: Lists,
}

/// What a partner's records list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lists {
    /// Payments.
    pub payments: bool,
    /// Refunds.
    pub refunds: bool,
}

impl Lists {
    pub(crate) fn has(self, status: Status) -> bool {
        match status {
            Status::Success => self.payments,
            Status::Refunded => self.refunds,
            Status::Failed | Status::Expired => false,
        }
    }
}

/// Where a moment lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lies {
    /// In the day.
    Inside,
    /// In the day, so near to its end that the next day's records may list it.
    NearEnd,
    /// In the neighbouring day, so near that this day's records may list it.
    Neighbour,
    /// In another day.
    Elsewhere,
}

impl Rules {
    /// Whether a moment is of the day.
    pub(crate) fn has(&self, at: Time) -> bool {
        self.from <= at && at < self.until
    }

    /// From when on a run judges every payment of the day: none is too young any more, and the partner's records of its end
    /// are there.
    pub(crate) fn judged_from(&self) -> Time {
        self.until.plus_ms(self.cut_off_ms).plus_ms(self.grace_ms)
    }

    /// Whether what happened then is too young to be missed.
    pub(crate) fn is_young(&self, at: Time) -> bool {
        at.plus_ms(self.grace_ms) > self.now
    }

    pub(crate) fn lies(&self, at: Time) -> Lies {
        if self.has(at) {
            let near = at.plus_ms(self.cut_off_ms) >= self.until;
            return if near { Lies::NearEnd } else { Lies::Inside };
        }
        let neighbour =
            at.plus_ms(self.cut_off_ms) >= self.from && at < self.until.plus_ms(self.cut_off_ms);
        if neighbour { Lies::Neighbour } else { Lies::Elsewhere }
    }

    /// Whether it happened at the end of the day before, where that day's records may have left it to this one's.
    pub(crate) fn is_tail_of_yesterday(&self, at: Time) -> bool {
        at < self.from && at.plus_ms(self.cut_off_ms) >= self.from
    }

    /// Whether it happened at the beginning of the day after, where this day's records may have it already.
    pub(crate) fn is_head_of_tomorrow(&self, at: Time) -> bool {
        at >= self.until && self.lies(at) == Lies::Neighbour
    }

    /// Whether two times of one payment are as good as the same.
    pub(crate) fn agree(&self, ours: Time, theirs: Time) -> bool {
        match self.time_tolerance_ms {
            None => true,
            Some(tolerance) => {
                (ours.unix_ms() - theirs.unix_ms()).unsigned_abs() <= tolerance.unsigned_abs()
            }
        }
    }
}

/// A day's first instant and the one after its last, in a zone. A day that a zone has skipped is empty; where midnight
/// is skipped or comes twice, the day begins with the first instant that is of it.
pub fn day_bounds(day: NaiveDate, zone: Tz) -> (Time, Time) {
    let next = day.checked_add_days(Days::new(1)).unwrap_or(day);
    (midnight(day, zone), midnight(next, zone))
}

fn midnight(day: NaiveDate, zone: Tz) -> Time {
    let mut local = day.and_time(NaiveTime::MIN);
    // No zone has skipped more than a day.
    for _ in 0..=48 {
        if let Some(instant) = zone.from_local_datetime(&local).earliest() {
            return Time::from_unix_ms(instant.timestamp_millis());
        }
        local += chrono::TimeDelta::minutes(30);
    }
    Time::from_unix_ms(day.and_time(NaiveTime::MIN).and_utc().timestamp_millis())
}

/// The day a moment is of, in a zone.
pub fn day_of(at: Time, zone: Tz) -> NaiveDate {
    chrono::DateTime::from_timestamp_nanos(at.unix_nanos()).with_timezone(&zone).date_naive()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    #[test]
    fn days_are_the_zones() {
        let of = |text: &str, zone: &str| {
            let (from, until) = day_bounds(day(text), zone.parse().unwrap());
            format!("{from} {until}")
        };
        for (date, zone, expected) in [
            ("2026-01-31", "UTC", "2026-01-31T00:00:00Z 2026-02-01T00:00:00Z"),
            ("2026-01-31", "Asia/Ho_Chi_Minh", "2026-01-30T17:00:00Z 2026-01-31T17:00:00Z"),
            // 23 and 25 hours
            ("2026-03-29", "Europe/Berlin", "2026-03-28T23:00:00Z 2026-03-29T22:00:00Z"),
            ("2026-10-25", "Europe/Berlin", "2026-10-24T22:00:00Z 2026-10-25T23:00:00Z"),
            // midnight is skipped
            ("2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00:00Z 2018-11-05T02:00:00Z"),
            // midnight comes twice
            ("2018-11-04", "America/Havana", "2018-11-04T04:00:00Z 2018-11-05T05:00:00Z"),
            // the whole day is skipped
            ("2011-12-30", "Pacific/Apia", "2011-12-30T10:00:00Z 2011-12-30T10:00:00Z"),
        ] {
            assert_eq!(of(date, zone), expected, "{date} {zone}");
        }
    }

    #[test]
    fn a_moment_is_of_the_day_whose_bounds_hold_it() {
        for zone in ["UTC", "Asia/Kathmandu", "America/Sao_Paulo", "Pacific/Apia"] {
            let zone: Tz = zone.parse().unwrap();
            for date in ["2011-12-29", "2011-12-31", "2018-02-17", "2018-02-18", "2018-11-04"] {
                let (from, until) = day_bounds(day(date), zone);
                assert_eq!(day_of(from, zone), day(date));
                assert_eq!(day_of(until.plus_ms(-1), zone), day(date));
                assert_ne!(day_of(until, zone), day(date));
                assert_ne!(day_of(from.plus_ms(-1), zone), day(date));
            }
        }
    }
}
