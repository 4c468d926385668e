//! Owns the line of questions to one partner: which waits, how many are under way, how fast they may follow each
//! other, and how long the partner is left alone. Pure; `now` is passed in.
//! Invariants: no more under way and no faster than the profile says; while it rests none begins; bounded.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use payfold_partners::profile::QueryPace;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::time::Time;
use tokio::time::Instant;

use crate::stuck::Target;

/// Questions that may wait for one partner, some 5 MB; one more is put off to its order's next time.
pub(crate) const WAITING_MAX: usize = 10_000;
/// The first rest after no answer; it doubles.
const REST_MIN: Duration = Duration::from_secs(1);
/// The longest such rest.
const REST_MAX: Duration = Duration::from_secs(60);
/// The longest rest a partner can ask for.
const ASKED_REST_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How often one kind of trouble is logged.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// A question that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// The order.
    pub(crate) key: OrderKey,
    /// What of it.
    pub(crate) target: Target,
    /// Since when it is due.
    pub(crate) due: Time,
    /// What for.
    pub(crate) purpose: Purpose,
}

/// What a question is put for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Its order is stuck: it is asked only while the order wants it.
    Stuck,
    /// A day's books are compared: it is asked whatever the order wants.
    Books,
}

/// What a question came to, as far as the next ones are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The partner answered, whatever it was.
    Answered,
    /// It wants to be left alone, for so long where it said how long, ms; this question was not answered.
    Busy(Option<u64>),
    /// It does not answer, or takes no question.
    Failed,
    /// Nothing was asked.
    Unasked,
}

/// The questions of one partner.
pub(crate) struct Line {
    pace: QueryPace,
    waiting: VecDeque<Waiting>,
    /// What waits or is under way.
    known: HashSet<(OrderKey, Target)>,
    under_way: usize,
    next_at: Instant,
    rests_until: Instant,
    /// Rests in a row.
    rests: u32,
    told: BTreeMap<&'static str, Instant>,
}

impl Line {
    pub(crate) fn new(pace: QueryPace, now: Instant) -> Self {
        Self {
            pace,
            waiting: VecDeque::new(),
            known: HashSet::new(),
            under_way: 0,
            next_at: now,
            rests_until: now,
            rests: 0,
            told: BTreeMap::new(),
        }
    }

    /// Takes the profile's pace as it is now.
    pub(crate) fn keep_pace(&mut self, pace: QueryPace) {
        self.pace = pace;
    }

    /// Lines a question up, unless it waits already. False: there is no room.
    pub(crate) fn push(&mut self, waiting: Waiting) -> bool {
        if self.waiting.len() >= WAITING_MAX {
            return false;
        }
        if self.known.insert((waiting.key.clone(), waiting.target.clone())) {
            self.waiting.push_back(waiting);
        }
        true
    }

    /// The next question, if it may be asked now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Waiting> {
        if self.ready_at().is_none_or(|at| at > now) {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.under_way += 1;
        self.next_at = now + Duration::from_secs(1) / self.pace.per_s;
        Some(next)
    }

    /// When the next question may be asked; none while none waits or one under way must end before.
    pub(crate) fn ready_at(&self) -> Option<Instant> {
        let free = !self.waiting.is_empty() && self.under_way < self.pace.at_once;
        free.then(|| self.next_at.max(self.rests_until))
    }

    /// A question has ended. One that was not answered because the partner is busy waits on, in front.
    pub(crate) fn ended(&mut self, asked: Waiting, how: Ended, now: Instant) {
        assert!(self.under_way > 0, "only what was begun ends");
        self.under_way -= 1;
        match how {
            Ended::Answered => self.rests = 0,
            Ended::Unasked => {}
            Ended::Busy(Some(ms)) => {
                let rest = Duration::from_millis(ms).clamp(REST_MIN, ASKED_REST_MAX);
                self.rests_until = self.rests_until.max(now + rest);
            }
            // What was under way together fails together: one rest, not one on top of the other.
            Ended::Failed | Ended::Busy(None) if now < self.rests_until => {}
            Ended::Failed | Ended::Busy(None) => {
                let rest = REST_MIN.saturating_mul(1_u32 << self.rests.min(16)).min(REST_MAX);
                self.rests = self.rests.saturating_add(1);
                self.rests_until = now + rest;
            }
        }
        if matches!(how, Ended::Busy(_)) {
            self.waiting.push_front(asked);
        } else {
            self.known.remove(&(asked.key, asked.target));
        }
    }

    /// How many wait or are under way.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Since when the longest waits.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.waiting.iter().map(|waiting| waiting.due).min()
    }

    /// Whether trouble of this kind is to be logged: once in a while.
    pub(crate) fn tells(&mut self, kind: &'static str, now: Instant) -> bool {
        let silent = self.told.get(kind).is_some_and(|at| now < *at + TELL_EVERY);
        if !silent {
            self.told.insert(kind, now);
        }
        !silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testkit::{at, key};

    const PACE: QueryPace = QueryPace { at_once: 2, per_s: 10 };

    fn waiting(order: &str) -> Waiting {
        Waiting { key: key(order), target: None, due: at("10:00"), purpose: Purpose::Stuck }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test]
    async fn a_partner_is_asked_no_faster_and_no_more_at_once_than_its_profile_says() {
        let now = Instant::now();
        let mut line = Line::new(PACE, now);
        for order in ["a", "b", "c", "a"] {
            assert!(line.push(waiting(order)));
        }
        assert_eq!(line.len(), 3, "what waits is not lined up twice");
        let a = line.next(now).unwrap();
        assert_eq!((a.clone(), line.next(now)), (waiting("a"), None));
        assert_eq!(line.ready_at(), Some(now + ms(100)));
        let b = line.next(now + ms(100)).unwrap();
        // Two are under way.
        assert_eq!((line.ready_at(), line.next(now + ms(500))), (None, None));
        assert!(line.push(waiting("a")), "and what is under way is not either");
        assert_eq!(line.len(), 3);
        line.ended(a, Ended::Answered, now + ms(500));
        assert_eq!(line.next(now + ms(500)).unwrap(), waiting("c"));
        line.ended(b, Ended::Unasked, now + ms(500));
        assert!(line.push(waiting("a")));
        assert_eq!((line.len(), line.oldest()), (2, Some(at("10:00"))));
    }

    #[tokio::test]
    async fn a_busy_partner_is_left_alone_for_as_long_as_it_says() {
        let now = Instant::now();
        let mut line = Line::new(PACE, now);
        line.push(waiting("a"));
        line.push(waiting("b"));
        let a = line.next(now).unwrap();
        line.ended(a, Ended::Busy(Some(7_000)), now);
        assert_eq!(line.ready_at(), Some(now + ms(7_000)));
        assert_eq!(line.next(now + ms(6_999)), None);
        // The one that was not answered comes first.
        assert_eq!(line.next(now + ms(7_000)).unwrap(), waiting("a"));
        // Absurd rests are cut; none at all is none too short.
        line.ended(waiting("a"), Ended::Busy(Some(u64::MAX)), now + ms(7_000));
        assert_eq!(line.ready_at(), Some(now + ms(7_000) + ASKED_REST_MAX));
        let mut line = Line::new(PACE, now);
        line.push(waiting("a"));
        let a = line.next(now).unwrap();
        line.ended(a, Ended::Busy(Some(0)), now);
        assert_eq!(line.ready_at(), Some(now + REST_MIN));
    }

    #[tokio::test]
    async fn a_partner_that_is_down_is_asked_less_and_less() {
        let mut now = Instant::now();
        let mut line = Line::new(QueryPace { at_once: 3, per_s: 1_000 }, now);
        let mut rests = Vec::new();
        for n in 0..8 {
            // Three fail together: that is one rest.
            for part in ["a", "b", "c"] {
                line.push(waiting(&format!("{n}{part}")));
            }
            let begun = [0, 1, 2].map(|later| line.next(now + ms(later)).unwrap());
            now += ms(2);
            for asked in begun {
                line.ended(asked, Ended::Failed, now);
            }
            assert_eq!(line.len(), 0, "what failed is left to its next time");
            rests.push((line.rests_until - now).as_secs());
            now = line.rests_until;
        }
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 60, 60]);
        line.push(waiting("z"));
        let z = line.next(now).unwrap();
        line.ended(z, Ended::Answered, now);
        line.push(waiting("z"));
        let z = line.next(now + ms(1)).unwrap();
        line.ended(z, Ended::Failed, now + ms(1));
        assert_eq!((line.rests_until - now).as_millis(), 1_001, "it begins anew");
    }

    #[tokio::test]
    async fn a_line_is_bounded_and_quiet() {
        let now = Instant::now();
        let mut line = Line::new(PACE, now);
        for n in 0..WAITING_MAX {
            assert!(line.push(waiting(&n.to_string())));
        }
        assert!(!line.push(waiting("more")));
        assert!(line.tells("busy", now) && !line.tells("busy", now + ms(59_999)));
        assert!(line.tells("refused", now) && line.tells("busy", now + ms(60_000)));
    }
}
