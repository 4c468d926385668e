//! Owns the rules for comparing a day: its bounds in the partner's zone, the grace period of young
//! payments, and the margin around midnight. Pure.

use chrono::{Days, NaiveDate, NaiveTime, TimeZone};
use chrono_tz::Tz;
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;

/// The bounds of one partner's day, and its tolerances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayRules {
    /// The day in the partner's zone.
    pub day: NaiveDate,
    /// The partner's zone.
    pub(crate) zone: Tz,
    /// Its first instant.
    pub from: Time,
    /// The instant after its last.
    pub until: Time,
    /// The time of the comparison: payments are young or late relative to it.
    pub now: Time,
    /// The grace period, ms: a payment younger than this is not missing yet.
    pub(crate) grace_ms: i64,
    /// The margin around midnight, ms: a payment this near to it may be in the neighbouring day's
    /// records.
    pub(crate) cut_off_ms: i64,
    /// The largest difference between both sides' times of one payment, ms; `None` if the records
    /// have dates only.
    pub(crate) time_tolerance_ms: Option<i64>,
    /// Whether the records list payments, refunds or both.
    pub(crate) lists: ListedStatuses,
    /// Orders created so long before a day are read for it, ms. Older ones only where a line names
    /// them.
    pub(crate) lookback_ms: i64,
}

/// Whether a partner's records list payments, refunds or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedStatuses {
    /// Whether the records list payments.
    pub payments: bool,
    /// Whether the records list refunds.
    pub(crate) refunds: bool,
}

impl ListedStatuses {
    pub(crate) fn has(self, status: Status) -> bool {
        match status {
            Status::Success => self.payments,
            Status::Refunded => self.refunds,
            Status::Failed | Status::Expired => false,
        }
    }
}

/// The position of a time relative to the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DayPosition {
    /// In the day, and not near its end.
    Inside,
    /// In the day, so near to its end that the next day's records may list it.
    NearEnd,
    /// In a neighbouring day, so near that this day's records may list it.
    Neighbour,
    /// In another day, and not near.
    OtherDay,
}

impl DayRules {
    /// Whether a time is in the day.
    pub(crate) fn contains(&self, at: Time) -> bool {
        self.from <= at && at < self.until
    }

    /// The time from which a run judges every payment of the day: none is within the grace period,
    /// and the records of its end are there.
    pub(crate) fn judged_from(&self) -> Time {
        self.until.plus_ms(self.cut_off_ms).plus_ms(self.grace_ms)
    }

    /// Whether a payment of this time is within the grace period. What these records list is not
    /// younger than the end of their day, whatever time a line has.
    pub(crate) fn is_young(&self, at: Time) -> bool {
        at.min(self.until.plus_ms(self.cut_off_ms)).plus_ms(self.grace_ms) > self.now
    }

    /// The position of a time relative to the day.
    pub(crate) fn day_position(&self, at: Time) -> DayPosition {
        if self.contains(at) {
            let near = at.plus_ms(self.cut_off_ms) >= self.until;
            return if near { DayPosition::NearEnd } else { DayPosition::Inside };
        }
        let neighbour =
            at.plus_ms(self.cut_off_ms) >= self.from && at < self.until.plus_ms(self.cut_off_ms);
        if neighbour { DayPosition::Neighbour } else { DayPosition::OtherDay }
    }

    /// Whether a time is at the end of the day before. This day's records may list a payment of
    /// that time.
    pub(crate) fn is_tail_of_yesterday(&self, at: Time) -> bool {
        at < self.from && at.plus_ms(self.cut_off_ms) >= self.from
    }

    /// Whether a time is so near to the beginning of the day that the records of the day before may
    /// list it.
    pub(crate) fn is_head_of_today(&self, at: Time) -> bool {
        self.contains(at) && at < self.from.plus_ms(self.cut_off_ms)
    }

    /// When the oldest orders were created that are read for a day of this partner.
    pub(crate) fn oldest_order(&self, day: NaiveDate) -> Time {
        day_bounds(day, self.zone).0.plus_ms(-self.lookback_ms)
    }

    /// The day before; this day at the beginning of the calendar.
    pub(crate) fn yesterday(&self) -> NaiveDate {
        self.day.pred_opt().unwrap_or(self.day)
    }

    /// The day after; this day at the end of the calendar.
    pub(crate) fn tomorrow(&self) -> NaiveDate {
        self.day.succ_opt().unwrap_or(self.day)
    }

    /// Whether a time is at the beginning of the following day, so near that this day's records may
    /// list it.
    pub(crate) fn is_head_of_tomorrow(&self, at: Time) -> bool {
        at >= self.until && self.day_position(at) == DayPosition::Neighbour
    }

    /// Whether both sides' times of one payment are within the tolerance.
    pub(crate) fn agree(&self, ours: Time, theirs: Time) -> bool {
        match self.time_tolerance_ms {
            None => true,
            Some(tolerance) => {
                (ours.unix_ms() - theirs.unix_ms()).unsigned_abs() <= tolerance.unsigned_abs()
            }
        }
    }
}

/// The first instant of a day in a zone, and the first instant after the day. A day that the zone
/// skipped is empty. If midnight is skipped or comes twice, the day begins with the first instant
/// of that date.
pub(crate) fn day_bounds(day: NaiveDate, zone: Tz) -> (Time, Time) {
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

/// The day of a time, in a zone.
pub(crate) fn day_of(at: Time, zone: Tz) -> NaiveDate {
    chrono::DateTime::from_timestamp_nanos(at.unix_nanos()).with_timezone(&zone).date_naive()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    #[test]
    fn day_bounds_follow_the_zone() {
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
    fn a_time_is_of_the_day_with_the_bounds_that_contain_it() {
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
