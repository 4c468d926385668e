//! Owns the decision whether a `DeadlinePassed` fact is due for an order. Pure: the row, the time
//! and the progress of the fold are arguments.
//!
//! The fact is due if it would change the order's state and everything received before the deadline
//! is folded. Without the second condition a payment that waits behind a backlog would be called
//! abandoned.

use payfold_schemas::order::{Order, OrderState};
use payfold_schemas::time::Time;

/// What to do now about an order's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeadlineVerdict {
    /// `DeadlinePassed` with this deadline is due.
    Due(Time),
    /// Judge again later: the fold has not come as far as the deadline.
    NotYet,
    /// Nothing, now or later: a fact that makes this order due again has its own view entry.
    Settled,
}

/// Judges an order's deadline at `now`. In the order's partition of intake, everything received
/// before `folded_until` is folded.
///
/// After `Settled` an order becomes due again only by a new session or create request, and each of
/// those has its own entry in the deadline view.
pub(crate) fn judge_deadline(order: &Order, now: Time, folded_until: Time) -> DeadlineVerdict {
    let Some(deadline) = order.summary.deadline else { return DeadlineVerdict::Settled };
    let is_appended = order.facts.deadlines_passed.iter().any(|known| known.content >= deadline);
    if !may_expire(order.summary.state) || is_appended || deadline >= now {
        DeadlineVerdict::Settled
    } else if deadline >= folded_until {
        DeadlineVerdict::NotYet
    } else {
        DeadlineVerdict::Due(deadline)
    }
}

/// Whether a row has the create request or session that set this deadline. Engines without
/// transactions write a view entry before its row, so the row that was read may be older.
pub(crate) fn has_deadline(order: &Order, deadline: Time) -> bool {
    let mut created = order.facts.creates.iter().map(|known| known.content.deadline);
    let mut opened = order.facts.sessions.iter().map(|known| known.content.deadline);
    created.any(|known| known == deadline) || opened.any(|known| known == deadline)
}

/// Whether `DeadlinePassed` can change this state (order-state.md, the order of its questions). It
/// turns REQUESTED, PENDING and UNCONFIRMED into EXPIRED. PAID, REFUNDED and FAILED take precedence
/// over EXPIRED. An order that is EXPIRED already is reopened only by a later session, which has a
/// later deadline. UNMATCHED takes precedence over all: no create request is known, and when one is
/// appended it has its own deadline.
fn may_expire(state: OrderState) -> bool {
    match state {
        OrderState::Requested | OrderState::Pending | OrderState::Unconfirmed => true,
        OrderState::Expired
        | OrderState::Failed
        | OrderState::Paid
        | OrderState::Refunded
        | OrderState::Unmatched => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testkit::{at, create, deadline_passed, known, order, session};

    /// State, deadline, deadlines of known `DeadlinePassed` facts, now, folded until → verdict.
    const TABLE: &str = "
        REQUESTED   10:30 -           10:29 10:29 settled
        REQUESTED   10:30 -           10:30 10:30 settled
        REQUESTED   10:30 -           10:31 10:31 due 10:30
        PENDING     10:17 -           10:18 10:18 due 10:17
        UNCONFIRMED 10:17 -           10:18 10:18 due 10:17
        PENDING     10:17 10:17       10:18 10:18 settled
        PENDING     10:17 10:30       10:31 10:31 settled
        PENDING     10:40 10:30       10:41 10:41 due 10:40
        PENDING     10:40 10:20,10:30 10:35 10:35 settled
        EXPIRED     10:17 -           10:18 10:18 settled
        FAILED      10:17 -           10:18 10:18 settled
        PAID        10:17 -           10:18 10:18 settled
        REFUNDED    10:17 -           10:18 10:18 settled
        UNMATCHED   10:17 -           10:18 10:18 settled
        UNMATCHED   -     -           10:18 10:18 settled
        PENDING     -     -           10:18 10:18 settled
        PENDING     10:17 -           10:50 10:16 not yet
        PENDING     10:17 -           10:50 10:17 not yet
        PENDING     10:17 -           10:50 10:18 due 10:17
        PENDING     10:17 -           10:10 10:09 settled
        PAID        10:17 -           10:50 10:16 settled";

    #[test]
    fn a_row_has_the_deadlines_of_its_creates_and_sessions() {
        let mut row = order("a", OrderState::Pending, Some(at("10:17")));
        assert!(!has_deadline(&row, at("10:17")), "the summary's deadline alone is not enough");
        row.facts.creates = vec![known(create("10:30"))];
        row.facts.sessions = vec![known(session("r1", "10:17"))];
        for (clock, expected) in [("10:30", true), ("10:17", true), ("10:20", false)] {
            assert_eq!(has_deadline(&row, at(clock)), expected, "{clock}");
        }
    }

    #[test]
    fn deadlines_are_judged_as_in_the_table() {
        for line in TABLE.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let columns: Vec<_> = line.split_whitespace().collect();
            let deadline = (columns[1] != "-").then(|| at(columns[1]));
            let mut row = order("a", OrderState::parse(columns[0]).unwrap(), deadline);
            let known = columns[2].split(',').filter(|deadline| *deadline != "-");
            row.facts.deadlines_passed = known.map(|clock| deadline_passed(at(clock))).collect();
            let expected = match columns[5..] {
                ["due", clock] => DeadlineVerdict::Due(at(clock)),
                ["not", "yet"] => DeadlineVerdict::NotYet,
                ["settled"] => DeadlineVerdict::Settled,
                _ => panic!("{line}"),
            };
            assert_eq!(judge_deadline(&row, at(columns[3]), at(columns[4])), expected, "{line}");
        }
    }
}
