//! Owns the terms for comparing a partner's days: the zone, the grace period, the margin around
//! midnight, and the key that matches lines with orders. The terms of files come from the profile's
//! `[records]`. The terms of answers to queries take only the zone and the grace period from it;
//! without that section, the zone of the settings and one hour. Pure.

use std::time::Duration;

use chrono::NaiveDate;
use chrono_tz::Tz;
use payfold_partners::records::RecordsSpec;
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;

use super::comparer::MatchKey;
use super::day_rules::{DayRules, ListedStatuses, day_bounds};

/// The grace period for answers of a partner without `[records]`, ms: the default of `grace_s`.
const GRACE_MS: i64 = 3_600_000;

/// The terms of one partner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartnerTerms {
    pub(crate) zone: Tz,
    pub(crate) by: MatchKey,
    grace_ms: i64,
    /// The margin around midnight within which the partner may book a payment on the neighbouring
    /// day, ms.
    cut_off_ms: i64,
    time_tolerance_ms: Option<i64>,
    lists: ListedStatuses,
    /// Orders created so long before a day are read for it, ms.
    lookback_ms: i64,
}

impl PartnerTerms {
    /// The terms of a partner's files.
    pub(crate) fn of_records(spec: &RecordsSpec, lookback_ms: i64) -> Self {
        Self {
            zone: spec.zone(),
            by: spec.match_by().into(),
            grace_ms: ms(spec.grace()),
            cut_off_ms: ms(spec.cut_off()),
            time_tolerance_ms: spec.time_tolerance().map(ms),
            lists: ListedStatuses {
                payments: spec.lists().contains(&Status::Success),
                refunds: spec.lists().contains(&Status::Refunded),
            },
            lookback_ms,
        }
    }

    /// The terms of a partner's answers to queries. An answer is about one payment that was
    /// queried, so it matches the order, whatever matches the lines of files. It states no time and
    /// no single refunds: the lines made of it get our times, and a missing refund is no finding.
    pub(crate) fn of_answers(spec: Option<&RecordsSpec>, zone: Tz, lookback_ms: i64) -> Self {
        Self {
            zone: spec.map_or(zone, RecordsSpec::zone),
            by: MatchKey::Order,
            grace_ms: spec.map_or(GRACE_MS, |spec| ms(spec.grace())),
            cut_off_ms: 0,
            time_tolerance_ms: None,
            lists: ListedStatuses { payments: true, refunds: false },
            lookback_ms,
        }
    }

    /// The rules of a day as of `now`.
    pub(crate) fn rules(&self, day: NaiveDate, now: Time) -> DayRules {
        let (from, until) = day_bounds(day, self.zone);
        DayRules {
            day,
            zone: self.zone,
            from,
            until,
            now,
            grace_ms: self.grace_ms,
            cut_off_ms: self.cut_off_ms,
            time_tolerance_ms: self.time_tolerance_ms,
            lists: self.lists,
            lookback_ms: self.lookback_ms,
        }
    }
}

fn ms(duration: Duration) -> i64 {
    // The profile bounds its spans, so this can't overflow.
    i64::try_from(duration.as_millis()).unwrap_or(0)
}
