//! Owns what a partner's days are judged by: its zone, how young a payment may be, how near to midnight, and by what lines
//! find their orders. From the profile's `[records]`; answers to queries are of a partner without such a section, too.
//! Pure.

use std::time::Duration;

use chrono::NaiveDate;
use chrono_tz::Tz;
use payfold_partners::records::{MatchBy, RecordsSpec};
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;

use super::judge::By;
use super::rules::{Lists, Rules, day_bounds};

/// How young a payment may be, where no profile says it.
const GRACE_MS: i64 = 3_600_000;

/// A partner's terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) zone: Tz,
    pub(crate) by: By,
    grace_ms: i64,
    cut_off_ms: i64,
    time_tolerance_ms: Option<i64>,
    lists: Lists,
}

impl Terms {
    /// Of a partner's files.
    pub(crate) fn of_records(spec: &RecordsSpec) -> Self {
        Self {
            zone: spec.zone(),
            by: match spec.match_by() {
                MatchBy::Order => By::Order,
                MatchBy::Ref => By::Ref,
            },
            grace_ms: ms(spec.grace()),
            cut_off_ms: ms(spec.cut_off()),
            time_tolerance_ms: spec.time_tolerance().map(ms),
            lists: Lists {
                payments: spec.lists().contains(&Status::Success),
                refunds: spec.lists().contains(&Status::Refunded),
            },
        }
    }

    /// Of a partner's answers: each is about one payment that was asked for, and says neither a time nor which refunds.
    pub(crate) fn of_answers(spec: Option<&RecordsSpec>, zone: Tz) -> Self {
        Self {
            zone: spec.map_or(zone, RecordsSpec::zone),
            by: By::Order,
            grace_ms: spec.map_or(GRACE_MS, |spec| ms(spec.grace())),
            cut_off_ms: 0,
            time_tolerance_ms: None,
            lists: Lists { payments: true, refunds: false },
        }
    }

    /// What a day is judged by as of `now`.
    pub(crate) fn rules(&self, day: NaiveDate, now: Time) -> Rules {
        let (from, until) = day_bounds(day, self.zone);
        Rules {
            day,
            zone: self.zone,
            from,
            until,
            now,
            grace_ms: self.grace_ms,
            cut_off_ms: self.cut_off_ms,
            time_tolerance_ms: self.time_tolerance_ms,
            lists: self.lists,
        }
    }
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(0)
}
