//! Owns the decision whether this host's clock is wrong. It is wrong if several partners' signed
//! timestamps agree with each other and not with it. Pure; `now` is passed in. Invariants: a
//! partner has one vote, however many accounts and notices it has. Each notice counts once, however
//! often it is delivered. Memory is bounded by the number of partners.

use std::collections::{HashMap, VecDeque};

use payfold_schemas::ids::PartnerCode;
use payfold_schemas::time::Time;

/// How long a notice is evidence about this host's clock.
const WINDOW_MS: i64 = 300_000;
/// A partner votes that this host's clock is wrong after this many distinct out-of-window notices
/// in a row.
const NOTICES_MIN: usize = 5;
/// Partners agree with each other if their skews differ by at most this. An error of this host's
/// clock shifts all skews by the same amount.
const SPREAD_MS_MAX: i64 = 60_000;
/// One partner's clock may be wrong. Two clocks are not wrong by the same amount.
const PARTNERS_MIN: usize = 2;

/// A signed notice with a delivery timestamp outside the window of its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfWindowNotice {
    /// When it arrived, by this host's clock.
    pub at: Time,
    /// This host's clock minus the timestamp.
    pub skew_ms: i64,
    /// Distinguishes this notice from others: half of its `NoticeIdentity`.
    pub identity: u64,
}

/// What the partners' timestamps show about this host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockVerdict {
    /// Nothing shows that the clock is wrong.
    Agrees,
    /// At least two partners, and more than vote that it is right, agree that the clock is wrong.
    Off {
        /// This host's clock minus theirs. Above 0, this host's clock is ahead.
        skew_ms: i64,
        /// How many partners agree on it.
        partners: usize,
    },
}

/// Each partner's newest notices as evidence about this host's clock.
#[derive(Debug, Default)]
pub(crate) struct ClockAgreement {
    partners: HashMap<PartnerCode, PartnerTimes>,
}

/// One partner's newest notices.
#[derive(Debug, Default)]
struct PartnerTimes {
    inside_at: Option<Time>,
    /// The out-of-window notices since the last one inside, newest last, at most `NOTICES_MIN`.
    outside: VecDeque<OutOfWindowNotice>,
}

impl ClockAgreement {
    /// Records a notice inside its window. It clears the partner's out-of-window notices.
    pub(crate) fn record_in_window(&mut self, partner: &PartnerCode, now: Time) {
        match self.partners.get_mut(partner) {
            Some(times) => {
                times.inside_at = Some(now);
                times.outside.clear();
            }
            None => {
                let times = PartnerTimes { inside_at: Some(now), ..PartnerTimes::default() };
                self.partners.insert(partner.clone(), times);
            }
        }
    }

    /// Records a notice outside its window. Returns `false` if this notice is recorded already.
    pub(crate) fn record_out_of_window(
        &mut self,
        partner: &PartnerCode,
        notice: OutOfWindowNotice,
    ) -> bool {
        let times = self.partners.entry(partner.clone()).or_default();
        if times.outside.iter().any(|known| known.identity == notice.identity) {
            return false;
        }
        if times.outside.len() >= NOTICES_MIN {
            times.outside.pop_front();
        }
        times.outside.push_back(notice);
        true
    }

    /// Whether this host's clock is wrong: at least two partners agree on one skew, and they are
    /// more than the partners that vote that the clock is right.
    pub(crate) fn verdict(&self, now: Time) -> ClockVerdict {
        let mut skews: Vec<i64> = Vec::new();
        let mut agreeing = 0;
        for times in self.partners.values() {
            match times.cast_vote(now) {
                Some(Vote::Outside(skew_ms)) => skews.push(skew_ms),
                Some(Vote::Inside) => agreeing += 1,
                None => {}
            }
        }
        skews.sort_unstable();
        // Find the largest group of skews within SPREAD_MS_MAX. Its median is the reported skew.
        let (mut partners, mut middle_ms) = (0, 0);
        for (start, first_ms) in skews.iter().enumerate() {
            let last_ms = first_ms.saturating_add(SPREAD_MS_MAX);
            let group = &skews[start..];
            let group = &group[..group.partition_point(|skew_ms| *skew_ms <= last_ms)];
            if group.len() > partners {
                (partners, middle_ms) = (group.len(), group[group.len() / 2]);
            }
        }
        if partners >= PARTNERS_MIN && partners > agreeing {
            ClockVerdict::Off { skew_ms: middle_ms, partners }
        } else {
            ClockVerdict::Agrees
        }
    }
}

/// One partner's vote on this host's clock.
enum Vote {
    /// The clock is right.
    Inside,
    /// The clock is off by this skew, in ms.
    Outside(i64),
}

impl PartnerTimes {
    /// The partner's vote. `None` if it sent no recent notice, or if its out-of-window notices
    /// disagree.
    fn cast_vote(&self, now: Time) -> Option<Vote> {
        let mut skews = [0; NOTICES_MIN];
        let recent = self.outside.iter().filter(|notice| is_recent(notice.at, now));
        let count =
            skews.iter_mut().zip(recent).map(|(skew, notice)| *skew = notice.skew_ms).count();
        if count == NOTICES_MIN {
            skews.sort_unstable();
            let spread_ms = skews[NOTICES_MIN - 1].saturating_sub(skews[0]);
            return (spread_ms <= SPREAD_MS_MAX).then_some(Vote::Outside(skews[NOTICES_MIN / 2]));
        }
        self.inside_at.filter(|at| is_recent(*at, now)).map(|_| Vote::Inside)
    }
}

/// Whether `at` is within the last `WINDOW_MS`. A time after `now` was taken before this host's
/// clock was set back, so it is no evidence.
fn is_recent(at: Time, now: Time) -> bool {
    at <= now && now.unix_ms().saturating_sub(at.unix_ms()) < WINDOW_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One case per line. First the verdict: `agrees` or `off SKEW_S by PARTNERS`. Then the notices
    /// in order: partner, count, skew in s (0 is inside the window), and after `@` their age in s.
    const CASES: &str = "
        agrees        |
        agrees        | acme 100 600 @0
        agrees        | acme 4 600 @0; bolt 100 600 @0
        off 600 by 2  | acme 5 600 @0; bolt 5 600 @0
        off -600 by 2 | acme 5 -600 @0; bolt 5 -600 @0
        agrees        | acme 5 600 @0; bolt 5 -600 @0
        off 630 by 2  | acme 5 600 @0; bolt 5 630 @0
        off 660 by 2  | acme 5 600 @0; bolt 5 660 @0
        agrees        | acme 5 600 @0; bolt 5 661 @0
        agrees        | acme 4 600 @0; acme 1 700 @0; bolt 5 600 @0
        off 600 by 2  | acme 9 7000 @0; acme 5 600 @0; bolt 5 600 @0
        agrees        | acme 5 600 @0; bolt 5 600 @0; acme 1 0 @0
        agrees        | acme 1 0 @9; acme 4 600 @0; bolt 5 600 @0
        off 600 by 2  | acme 1 0 @9; acme 5 600 @0; bolt 5 600 @0
        off 600 by 2  | acme 5 600 @0; bolt 5 600 @0; cord 1 0 @0
        agrees        | acme 5 600 @0; bolt 5 600 @0; cord 1 0 @0; dock 1 0 @0
        off 600 by 2  | acme 5 600 @0; bolt 5 600 @0; cord 1 0 @0; dock 1 0 @300
        off 600 by 3  | acme 5 600 @0; bolt 5 600 @0; cord 5 600 @0; dock 1 0 @0; east 1 0 @0
        off 600 by 2  | acme 5 600 @0; bolt 5 600 @0; cord 5 9000 @0
        off 600 by 2  | acme 5 600 @299; bolt 5 600 @0
        agrees        | acme 5 600 @300; bolt 5 600 @0
        agrees        | acme 1 600 @300; acme 4 600 @0; bolt 5 600 @0
        agrees        | acme 5 600 @-1; bolt 5 600 @0";

    const NOW: Time = Time::from_unix_ms(1_769_853_600_000);

    fn agreement(notices: &str) -> ClockAgreement {
        let (mut agreement, mut identity) = (ClockAgreement::default(), 0);
        for notice in notices.split(';').map(str::trim).filter(|notice| !notice.is_empty()) {
            let (what, before_s) = notice.split_once(" @").unwrap();
            let [partner, times, skew_s] = what.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{notice}")
            };
            let partner = PartnerCode::parse(partner).unwrap();
            let at = NOW.plus_ms(-1_000 * before_s.parse::<i64>().unwrap());
            let skew_ms = 1_000 * skew_s.parse::<i64>().unwrap();
            for _ in 0..times.parse().unwrap() {
                identity += 1;
                match skew_ms {
                    0 => agreement.record_in_window(&partner, at),
                    _ => {
                        let notice = OutOfWindowNotice { at, skew_ms, identity };
                        assert!(agreement.record_out_of_window(&partner, notice));
                    }
                }
            }
        }
        agreement
    }

    #[test]
    fn partners_that_agree_on_a_skew_decide() {
        for case in CASES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (expected, notices) = case.split_once('|').unwrap();
            let verdict = match agreement(notices).verdict(NOW) {
                ClockVerdict::Agrees => "agrees".to_owned(),
                ClockVerdict::Off { skew_ms, partners } => {
                    format!("off {} by {partners}", skew_ms / 1_000)
                }
            };
            assert_eq!(verdict, expected.trim(), "{case}");
        }
    }

    #[test]
    fn a_notice_counts_once_however_often_it_is_delivered() {
        let mut agreement = agreement("bolt 5 600 @0");
        let acme = PartnerCode::parse("acme").unwrap();
        let stale = |identity| OutOfWindowNotice { at: NOW, skew_ms: 600_000, identity };
        for copy in 0..100 {
            let is_new = agreement.record_out_of_window(&acme, stale(101 + copy % 4));
            assert_eq!(is_new, copy < 4, "{copy}");
        }
        assert_eq!(agreement.verdict(NOW), ClockVerdict::Agrees);
        assert!(agreement.record_out_of_window(&acme, stale(105)));
        assert_eq!(agreement.verdict(NOW), ClockVerdict::Off { skew_ms: 600_000, partners: 2 });
    }
}
