//! Owns the judgement whether our clock is wrong, from the times partners sign: partners that agree with each other and
//! not with us. Pure; `now` is passed in. Invariants: a partner has one vote, however many accounts and notices it has;
//! each notice counts once, however often it comes; memory is bounded by the number of partners.

use std::collections::{HashMap, VecDeque};

use payfold_schemas::ids::PartnerCode;
use payfold_schemas::time::Time;

/// How long a notice says something of our clock.
const WINDOW_MS: i64 = 300_000;
/// So many distinct notices in a row have to be outside the window before their partner's vote is that our clock is wrong.
const NOTICES_MIN: usize = 5;
/// Partners' clocks agree with each other if their notices are not further apart than this; one wrong clock of ours puts
/// all of them off by the same.
const SPREAD_MS_MAX: i64 = 60_000;
/// One partner's clock may be wrong; several are not wrong by the same.
const PARTNERS_MIN: usize = 2;

/// A signed notice whose timestamp of delivery is outside its profile's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutsideNotice {
    /// When it came, by our clock.
    pub at: Time,
    /// Our clock minus its timestamp.
    pub skew_ms: i64,
    /// Distinguishes notices.
    pub identity: u64,
}

/// What the partners' times say of our clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockVerdict {
    /// Nothing shows that it is wrong.
    Agrees,
    /// Most partners heard of late agree with each other that it is wrong.
    Off {
        /// Our clock minus theirs: above 0 ours is ahead.
        skew_ms: i64,
        /// How many partners say so.
        partners: usize,
    },
}

/// What each partner's newest notices say of our clock.
#[derive(Debug, Default)]
pub struct ClockAgreement {
    partners: HashMap<PartnerCode, PartnerTimes>,
}

/// One partner's newest notices.
#[derive(Debug, Default)]
struct PartnerTimes {
    inside_at: Option<Time>,
    /// Those since the last one inside, the newest last, at most `NOTICES_MIN`.
    outside: VecDeque<OutsideNotice>,
}

impl ClockAgreement {
    /// A signed notice of this partner came in its time: what it said otherwise before no longer counts.
    pub fn note_inside(&mut self, partner: &PartnerCode, now: Time) {
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

    /// A signed notice of this partner came outside its time. Returns whether it is new; one that is known counts no
    /// second time.
    pub fn note_outside(&mut self, partner: &PartnerCode, notice: OutsideNotice) -> bool {
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

    /// Whether our clock is wrong: at least two partners say so by the same, and more than say that it is right.
    pub fn verdict(&self, now: Time) -> ClockVerdict {
        let mut skews: Vec<i64> = Vec::new();
        let mut agreeing = 0;
        for times in self.partners.values() {
            match times.vote(now) {
                Some(Vote::Outside(skew_ms)) => skews.push(skew_ms),
                Some(Vote::Inside) => agreeing += 1,
                None => {}
            }
        }
        skews.sort_unstable();
        let (mut partners, mut middle_ms) = (0, 0);
        for (place, first_ms) in skews.iter().enumerate() {
            let last_ms = first_ms.saturating_add(SPREAD_MS_MAX);
            let group = &skews[place..];
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

/// What one partner says of our clock.
enum Vote {
    /// It is right.
    Inside,
    /// It is off by so much.
    Outside(i64),
}

impl PartnerTimes {
    /// Its vote; none if it was not heard of late, or its notices outside are few or say different times.
    fn vote(&self, now: Time) -> Option<Vote> {
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

/// A time that is ahead of now is of our clock before it was set back: it says nothing any more.
fn is_recent(at: Time, now: Time) -> bool {
    at <= now && now.unix_ms().saturating_sub(at.unix_ms()) < WINDOW_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What partners sent, a line each: `agrees` or `off SKEW_S by PARTNERS`, then the notices in order: partner, how
    /// often, skew in s (0 is inside), and behind `@` how many seconds before now they came.
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
                    0 => agreement.note_inside(&partner, at),
                    _ => {
                        let notice = OutsideNotice { at, skew_ms, identity };
                        assert!(agreement.note_outside(&partner, notice));
                    }
                }
            }
        }
        agreement
    }

    #[test]
    fn several_partners_that_agree_with_each_other_are_believed() {
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
    fn one_notice_counts_once_however_often_it_comes() {
        let mut agreement = agreement("bolt 5 600 @0");
        let acme = PartnerCode::parse("acme").unwrap();
        let stale = |identity| OutsideNotice { at: NOW, skew_ms: 600_000, identity };
        for copy in 0..100 {
            let is_new = agreement.note_outside(&acme, stale(101 + copy % 4));
            assert_eq!(is_new, copy < 4, "{copy}");
        }
        assert_eq!(agreement.verdict(NOW), ClockVerdict::Agrees);
        assert!(agreement.note_outside(&acme, stale(105)));
        assert_eq!(agreement.verdict(NOW), ClockVerdict::Off { skew_ms: 600_000, partners: 2 });
    }
}
