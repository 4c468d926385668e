//! Owns when a member leaves its group and joins it again, because it may have missed which partitions are its own.
//!
//! Under KIP-848 the broker says once, in its answer to a heartbeat, which partitions a member is to let go. librdkafka
//! gives that answer up after one heartbeat interval (the broker's: 5 s if nothing is set) and asks again without saying
//! what it holds, so that the broker has nothing new to say: it waits for the member to let go, the member knows
//! nothing of it, and is given nothing meanwhile. Only who joins anew is told all of its partitions. Decision 0043.
//!
//! Invariants: answers that were given up are followed by joining anew once, at the first look since which the coordinator
//! has answered and nothing was given up; while it stays late, a member keeps what it has. Between two joinings are at
//! least `APART`.

use std::time::{Duration, Instant};

use rdkafka::Statistics;

/// How often librdkafka is asked, ms.
pub(super) const LOOK_MS: &str = "5000";
/// From one joining to the next.
const APART: Duration = Duration::from_secs(60);

/// What librdkafka has counted on the connection that is the group's alone: it keeps one for the coordinator, whichever
/// broker that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Answers that came.
    pub(super) answered: u64,
    /// Answers that were given up.
    pub(super) given_up: u64,
}

impl Counted {
    pub(super) fn of(statistics: &Statistics) -> Self {
        let mut counted = Self::default();
        for broker in statistics.brokers.values().filter(|broker| broker.source == "logical") {
            counted.answered += broker.rx;
            counted.given_up += broker.req_timeouts;
        }
        counted
    }
}

/// What a member knows of answers it has given up.
#[derive(Debug, Default)]
pub(super) struct Missed {
    before: Counted,
    /// Some were given up that no joining followed yet.
    owed: bool,
    joined: Option<Instant>,
}

impl Missed {
    /// So much was counted since the client began. Whether to join anew now.
    pub(super) fn looked(&mut self, counted: Counted, now: Instant) -> bool {
        let before = std::mem::replace(&mut self.before, counted);
        if counted.given_up > before.given_up {
            self.owed = true;
            return false;
        }
        let is_over = |at: Instant| now.saturating_duration_since(at) >= APART;
        let answers = counted.answered > before.answered;
        if !(self.owed && answers && self.joined.is_none_or(is_over)) {
            return false;
        }
        (self.owed, self.joined) = (false, Some(now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 5 s at these counts, answered and given up; at which of them it joined anew.
    fn joined(counts: impl IntoIterator<Item = (u64, u64)>) -> Vec<usize> {
        let mut missed = Missed::default();
        let mut now = Instant::now();
        let mut joined = Vec::new();
        for (look, (answered, given_up)) in counts.into_iter().enumerate() {
            if missed.looked(Counted { answered, given_up }, now) {
                joined.push(look);
            }
            now += Duration::from_secs(5);
        }
        joined
    }

    #[test]
    fn nothing_is_done_while_all_answers_come() {
        assert_eq!(joined((0..100).map(|look| (look, 0))), [0_usize; 0]);
    }

    #[test]
    fn answers_given_up_are_followed_once_others_come() {
        assert_eq!(joined([(1, 0), (1, 1), (2, 1), (3, 1), (4, 1)]), [2]);
        // While some are given up, and while none come, who has partitions keeps them.
        assert_eq!(joined([(1, 0), (2, 1), (3, 3), (4, 4), (4, 4), (4, 4), (5, 4), (6, 4)]), [6]);
        assert_eq!(joined((0..100).map(|look| (look, look))), [0_usize; 0]);
    }

    #[test]
    fn joinings_are_a_minute_apart_and_none_is_forgotten() {
        // Given up at looks 1, 4 and 8; joined anew at 2, and for the others together at 2 + 12.
        let given_up = [0, 1, 1, 1, 2, 2, 2, 2, 3].into_iter().chain([3; 20]);
        assert_eq!(joined((1..).zip(given_up)), [2, 14]);
    }
}
