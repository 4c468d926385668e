//! Owns when a member leaves its group and joins it again, because it may have missed which partitions are its own.
//!
//! Under KIP-848 the broker says once, in its answer to a heartbeat, which partitions a member is to let go. librdkafka
//! gives that answer up after one heartbeat interval (the broker's: 5 s if nothing is set) and asks again without saying
//! what it holds, so that the broker has nothing new to say: it waits for the member to let go, the member knows
//! nothing of it, and is given nothing meanwhile. Only who joins anew is told all of its partitions. Decision 0043.
//!
//! Invariants: each answer that was given up is followed by joining anew, once the coordinator has answered in time
//! since the look before, or after `PATIENCE`; between two joinings are at least `APART`.

use std::time::{Duration, Instant};

use rdkafka::Statistics;

/// How often librdkafka is asked how many answers it gave up, ms.
pub(super) const LOOK_MS: &str = "5000";
/// Where answers are given up again and again, nobody waits longer for quiet.
const PATIENCE: Duration = Duration::from_secs(60);
/// From one joining to the next.
const APART: Duration = Duration::from_secs(60);

/// What a member knows of answers it has given up.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// How many, since the client began.
    given_up: u64,
    /// When the first was given up that no joining followed yet.
    since: Option<Instant>,
    joined: Option<Instant>,
}

impl Missed {
    /// So many answers of the coordinator were given up since the client began. Whether to join anew now.
    pub(super) fn looked(&mut self, given_up: u64, now: Instant) -> bool {
        let more = given_up > self.given_up;
        self.given_up = given_up;
        if more {
            self.since.get_or_insert(now);
        }
        let over = |begun: Instant, span: Duration| now.saturating_duration_since(begun) >= span;
        let Some(since) = self.since else { return false };
        if (more && !over(since, PATIENCE)) || !self.joined.is_none_or(|at| over(at, APART)) {
            return false;
        }
        (self.since, self.joined) = (None, Some(now));
        true
    }
}

/// Answers that were given up on the connection that is the group's alone: librdkafka keeps one for the coordinator,
/// whichever broker that is.
pub(super) fn given_up(statistics: &Statistics) -> u64 {
    let coordinator = |source: &str| source == "logical";
    let brokers = statistics.brokers.values().filter(|broker| coordinator(&broker.source));
    brokers.map(|broker| broker.req_timeouts).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 5 s at these counts; at which of them it joined anew.
    fn joined(counts: impl IntoIterator<Item = u64>) -> Vec<usize> {
        let begun = Instant::now();
        let mut missed = Missed::default();
        let mut now = begun;
        let mut joined = Vec::new();
        for (look, count) in counts.into_iter().enumerate() {
            if missed.looked(count, now) {
                joined.push(look);
            }
            now += Duration::from_secs(5);
        }
        joined
    }

    #[test]
    fn nothing_is_done_while_all_answers_come() {
        assert_eq!(joined([0; 100]), [0_usize; 0]);
    }

    #[test]
    fn an_answer_given_up_is_followed_at_the_first_quiet_look() {
        assert_eq!(joined([0, 1, 1, 1, 1]), [2]);
        assert_eq!(joined([0, 1, 3, 4, 4, 4]), [4]);
    }

    #[test]
    fn joinings_are_a_minute_apart_and_none_is_forgotten() {
        // Given up at looks 1, 4 and 8; joined anew at 2, and for the others together at 2 + 12.
        let counts = [0, 1, 1, 1, 2, 2, 2, 2, 3].into_iter().chain([3; 20]);
        assert_eq!(joined(counts), [2, 14]);
    }

    #[test]
    fn it_is_not_waited_for_quiet_for_ever() {
        assert_eq!(joined(0..40), [13, 26, 39]);
    }
}
