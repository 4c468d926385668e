//! Owns when a member leaves its group and joins it again, because it may have missed an
//! assignment.
//!
//! Under KIP-848 the broker sends a member once, in a heartbeat response, the partitions that it
//! has to revoke. librdkafka drops a response that takes longer than one heartbeat interval (the
//! broker's, 5 s by default). Its next heartbeat doesn't list the partitions it owns, so the broker
//! has nothing new to send. Then the broker waits for the member to revoke partitions, the member
//! doesn't know about it, and it gets no new partitions meanwhile. Only a member that joins again
//! gets its whole assignment. Decision 0043.
//!
//! Invariants: dropped responses are followed by one rejoin, at the first check since which the
//! coordinator has answered and no response was dropped; while the coordinator stays late, a member
//! keeps its partitions. Two rejoins are at least `REJOIN_INTERVAL_MIN` apart.

use std::time::{Duration, Instant};

use rdkafka::Statistics;

/// The interval of librdkafka's statistics, and so of the check, ms.
pub(super) const CHECK_MS: &str = "5000";
/// The shortest time between two rejoins.
const REJOIN_INTERVAL_MIN: Duration = Duration::from_secs(60);

/// Counts of librdkafka's connection to the group coordinator. librdkafka keeps one connection for
/// it ("logical" in the statistics), whichever broker that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerCounts {
    /// Responses that came in time.
    pub(super) answered: u64,
    /// Responses that timed out.
    pub(super) timed_out: u64,
}

impl AnswerCounts {
    pub(super) fn of(statistics: &Statistics) -> Self {
        let mut counted = Self::default();
        for broker in statistics.brokers.values().filter(|broker| broker.source == "logical") {
            counted.answered += broker.rx;
            counted.timed_out += broker.req_timeouts;
        }
        counted
    }
}

/// Tracks a member's timed-out responses and its rejoins.
#[derive(Debug, Default)]
pub(super) struct MissedAnswers {
    before: AnswerCounts,
    /// Whether responses timed out since the last rejoin.
    rejoin_due: bool,
    last_rejoin: Option<Instant>,
}

impl MissedAnswers {
    /// Takes the counts since the client started; returns whether to rejoin now.
    pub(super) fn needs_rejoin(&mut self, counted: AnswerCounts, now: Instant) -> bool {
        let before = std::mem::replace(&mut self.before, counted);
        if counted.timed_out > before.timed_out {
            self.rejoin_due = true;
            return false;
        }
        let is_over = |at: Instant| now.saturating_duration_since(at) >= REJOIN_INTERVAL_MIN;
        let answers = counted.answered > before.answered;
        if !(self.rejoin_due && answers && self.last_rejoin.is_none_or(is_over)) {
            return false;
        }
        (self.rejoin_due, self.last_rejoin) = (false, Some(now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks these counts (answered, timed out) every 5 s; returns the indices of the rejoins.
    fn rejoins(counts: impl IntoIterator<Item = (u64, u64)>) -> Vec<usize> {
        let mut missed = MissedAnswers::default();
        let mut now = Instant::now();
        let mut rejoins = Vec::new();
        for (check, (answered, timed_out)) in counts.into_iter().enumerate() {
            if missed.needs_rejoin(AnswerCounts { answered, timed_out }, now) {
                rejoins.push(check);
            }
            now += Duration::from_secs(5);
        }
        rejoins
    }

    #[test]
    fn there_is_no_rejoin_while_every_response_comes() {
        assert_eq!(rejoins((0..100).map(|check| (check, 0))), [0_usize; 0]);
    }

    #[test]
    fn a_rejoin_follows_timed_out_responses_once_others_come() {
        assert_eq!(rejoins([(1, 0), (1, 1), (2, 1), (3, 1), (4, 1)]), [2]);
        // While responses time out, and while none come, a member keeps its partitions.
        assert_eq!(rejoins([(1, 0), (2, 1), (3, 3), (4, 4), (4, 4), (4, 4), (5, 4), (6, 4)]), [6]);
        assert_eq!(rejoins((0..100).map(|check| (check, check))), [0_usize; 0]);
    }

    #[test]
    fn rejoins_are_a_minute_apart_and_none_is_left_out() {
        // Timeouts at checks 1, 4 and 8; a rejoin at 2, and one for the others together at 2 + 12.
        let timed_out = [0, 1, 1, 1, 2, 2, 2, 2, 3].into_iter().chain([3; 20]);
        assert_eq!(rejoins((1..).zip(timed_out)), [2, 14]);
    }
}
