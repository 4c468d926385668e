//! Owns the queue of queries to one partner: which are queued, how many are in flight, how fast
//! they may follow each other, and how long the partner is not asked after an error (the backoff).
//! Pure: `now` is an argument. Invariants: no more queries are in flight, and they start no faster,
//! than the partner's profile allows. None starts during a backoff. The queue is bounded.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use payfold_partners::profile::QueryPace;
use payfold_reconcile::question::QueryTarget;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::time::Time;
use tokio::time::Instant;

/// The most queries that may be queued for one partner, some 5 MB. Further ones are dropped; their
/// orders are asked about at the next time of the schedule.
pub(crate) const QUEUED_MAX: usize = 10_000;
/// The first backoff after a query without an answer; each further one is twice as long.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// The longest such backoff.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// The longest backoff a partner can ask for with `Retry-After`.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3_600);
/// The least time between two log lines about one kind of trouble at one partner.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A query that is queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedQuery {
    /// The order that is asked about.
    pub(crate) key: OrderKey,
    /// The order's transaction that is asked about; `None` asks by the order id.
    pub(crate) target: QueryTarget,
    /// When the query became due.
    pub(crate) due: Time,
    /// Why the query is made.
    pub(crate) purpose: QueryPurpose,
}

/// Why a query is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryPurpose {
    /// The order is stuck. The query is made only while an answer would help the order.
    StuckOrder,
    /// A day is reconciled with the partner. The query is made whatever the order's state is.
    Reconciliation,
}

/// How a query ended, as far as the following queries are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryEnd {
    /// The partner answered, whatever the answer says.
    Answered,
    /// The partner asked to be called later, after so many ms if it said when. The query was not
    /// answered.
    Busy(Option<u64>),
    /// The partner did not answer, or refused the query.
    Failed,
    /// No query was sent.
    NotSent,
}

/// The queries to one partner.
pub(crate) struct QueryQueue {
    pace: QueryPace,
    queued: VecDeque<QueuedQuery>,
    /// The queries that are queued or in flight.
    known: HashSet<(OrderKey, QueryTarget)>,
    in_flight: usize,
    /// When the next query may start at the profile's rate.
    next_at: Instant,
    backoff_until: Instant,
    /// Backoffs since the last answer.
    backoffs: u32,
    /// When each kind of trouble was last logged.
    logged: BTreeMap<&'static str, Instant>,
}

impl QueryQueue {
    pub(crate) fn new(pace: QueryPace, now: Instant) -> Self {
        Self {
            pace,
            queued: VecDeque::new(),
            known: HashSet::new(),
            in_flight: 0,
            next_at: now,
            backoff_until: now,
            backoffs: 0,
            logged: BTreeMap::new(),
        }
    }

    /// Sets the pace: the profile may have changed.
    pub(crate) fn set_pace(&mut self, pace: QueryPace) {
        self.pace = pace;
    }

    /// Queues a query, unless it is queued or in flight already. False if the queue is full.
    pub(crate) fn push(&mut self, query: QueuedQuery) -> bool {
        if self.queued.len() >= QUEUED_MAX {
            return false;
        }
        if self.known.insert((query.key.clone(), query.target.clone())) {
            self.queued.push_back(query);
        }
        true
    }

    /// Starts the next query, if one may start now. The caller has to report its end.
    pub(crate) fn start_next(&mut self, now: Instant) -> Option<QueuedQuery> {
        if self.ready_at().is_none_or(|at| at > now) {
            return None;
        }
        let next = self.queued.pop_front()?;
        self.in_flight += 1;
        self.next_at = now + Duration::from_secs(1) / self.pace.per_s;
        Some(next)
    }

    /// When the next query may start; `None` if none is queued, or if one in flight has to end
    /// first.
    pub(crate) fn ready_at(&self) -> Option<Instant> {
        let free = !self.queued.is_empty() && self.in_flight < self.pace.at_once;
        free.then(|| self.next_at.max(self.backoff_until))
    }

    /// Notes that a query has ended. If the partner was busy, the query is queued again, in front.
    pub(crate) fn finish(&mut self, query: QueuedQuery, end: QueryEnd, now: Instant) {
        assert!(self.in_flight > 0, "only a query that was started ends");
        self.in_flight -= 1;
        match end {
            QueryEnd::Answered => self.backoffs = 0,
            QueryEnd::NotSent => {}
            QueryEnd::Busy(Some(ms)) => {
                let backoff = Duration::from_millis(ms).clamp(BACKOFF_MIN, RETRY_AFTER_MAX);
                self.backoff_until = self.backoff_until.max(now + backoff);
            }
            // Queries that were in flight together fail together: they cause one backoff, and not
            // one longer than the other.
            QueryEnd::Failed | QueryEnd::Busy(None) if now < self.backoff_until => {}
            QueryEnd::Failed | QueryEnd::Busy(None) => {
                let doubled = BACKOFF_MIN.saturating_mul(1_u32 << self.backoffs.min(16));
                self.backoffs = self.backoffs.saturating_add(1);
                self.backoff_until = now + doubled.min(BACKOFF_MAX);
            }
        }
        if matches!(end, QueryEnd::Busy(_)) {
            self.queued.push_front(query);
        } else {
            self.known.remove(&(query.key, query.target));
        }
    }

    /// How many queries are queued or in flight.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// When the oldest queued query became due.
    pub(crate) fn oldest_due(&self) -> Option<Time> {
        self.queued.iter().map(|query| query.due).min()
    }

    /// Whether to log trouble of this kind now. If so, the kind counts as logged now.
    pub(crate) fn should_log(&mut self, kind: &'static str, now: Instant) -> bool {
        let is_recent = self.logged.get(kind).is_some_and(|at| now < *at + LOG_INTERVAL);
        if !is_recent {
            self.logged.insert(kind, now);
        }
        !is_recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testkit::{at, key};

    const PACE: QueryPace = QueryPace { at_once: 2, per_s: 10 };

    fn query(order: &str) -> QueuedQuery {
        let purpose = QueryPurpose::StuckOrder;
        QueuedQuery { key: key(order), target: None, due: at("10:00"), purpose }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test]
    async fn queries_keep_to_the_rate_and_concurrency_of_the_profile() {
        let now = Instant::now();
        let mut queue = QueryQueue::new(PACE, now);
        for order in ["a", "b", "c", "a"] {
            assert!(queue.push(query(order)));
        }
        assert_eq!(queue.len(), 3, "a queued query is not queued twice");
        let a = queue.start_next(now).unwrap();
        assert_eq!((a.clone(), queue.start_next(now)), (query("a"), None));
        assert_eq!(queue.ready_at(), Some(now + ms(100)));
        let b = queue.start_next(now + ms(100)).unwrap();
        // Two are in flight.
        assert_eq!((queue.ready_at(), queue.start_next(now + ms(500))), (None, None));
        assert!(queue.push(query("a")), "nor is one in flight");
        assert_eq!(queue.len(), 3);
        queue.finish(a, QueryEnd::Answered, now + ms(500));
        assert_eq!(queue.start_next(now + ms(500)).unwrap(), query("c"));
        queue.finish(b, QueryEnd::NotSent, now + ms(500));
        assert!(queue.push(query("a")));
        assert_eq!((queue.len(), queue.oldest_due()), (2, Some(at("10:00"))));
    }

    #[tokio::test]
    async fn a_busy_partner_is_not_asked_before_its_retry_after() {
        let now = Instant::now();
        let mut queue = QueryQueue::new(PACE, now);
        queue.push(query("a"));
        queue.push(query("b"));
        let a = queue.start_next(now).unwrap();
        queue.finish(a, QueryEnd::Busy(Some(7_000)), now);
        assert_eq!(queue.ready_at(), Some(now + ms(7_000)));
        assert_eq!(queue.start_next(now + ms(6_999)), None);
        // The query that was not answered comes first.
        assert_eq!(queue.start_next(now + ms(7_000)).unwrap(), query("a"));
        // An absurd Retry-After is capped, and 0 is raised to the minimum.
        queue.finish(query("a"), QueryEnd::Busy(Some(u64::MAX)), now + ms(7_000));
        assert_eq!(queue.ready_at(), Some(now + ms(7_000) + RETRY_AFTER_MAX));
        let mut queue = QueryQueue::new(PACE, now);
        queue.push(query("a"));
        let a = queue.start_next(now).unwrap();
        queue.finish(a, QueryEnd::Busy(Some(0)), now);
        assert_eq!(queue.ready_at(), Some(now + BACKOFF_MIN));
    }

    #[tokio::test]
    async fn the_backoff_doubles_while_a_partner_fails() {
        let mut now = Instant::now();
        let mut queue = QueryQueue::new(QueryPace { at_once: 3, per_s: 1_000 }, now);
        let mut backoffs = Vec::new();
        for n in 0..8 {
            // Three fail together: that is one backoff.
            for part in ["a", "b", "c"] {
                queue.push(query(&format!("{n}{part}")));
            }
            let started = [0, 1, 2].map(|later| queue.start_next(now + ms(later)).unwrap());
            now += ms(2);
            for query in started {
                queue.finish(query, QueryEnd::Failed, now);
            }
            assert_eq!(queue.len(), 0, "a failed query is not queued again");
            backoffs.push((queue.backoff_until - now).as_secs());
            now = queue.backoff_until;
        }
        assert_eq!(backoffs, [1, 2, 4, 8, 16, 32, 60, 60]);
        queue.push(query("z"));
        let z = queue.start_next(now).unwrap();
        queue.finish(z, QueryEnd::Answered, now);
        queue.push(query("z"));
        let z = queue.start_next(now + ms(1)).unwrap();
        queue.finish(z, QueryEnd::Failed, now + ms(1));
        assert_eq!((queue.backoff_until - now).as_millis(), 1_001, "an answer resets the backoff");
    }

    #[tokio::test]
    async fn a_queue_is_bounded_and_logs_each_kind_of_trouble_once_a_minute() {
        let now = Instant::now();
        let mut queue = QueryQueue::new(PACE, now);
        for n in 0..QUEUED_MAX {
            assert!(queue.push(query(&n.to_string())));
        }
        assert!(!queue.push(query("more")));
        assert!(queue.should_log("busy", now) && !queue.should_log("busy", now + ms(59_999)));
        assert!(queue.should_log("refused", now) && queue.should_log("busy", now + ms(60_000)));
    }
}
