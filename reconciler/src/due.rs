//! Owns the question whether X is due for an order. Pure: the row, the time and how far the fold has come go in.
//!
//! X says "this deadline has passed". It is due while it would change something, and not before what came in
//! time is folded: a payment that waits behind a backlog must not be called abandoned meanwhile.

use payfold_schemas::order::{Order, OrderState};
use payfold_schemas::time::Time;

/// What an entry of the deadline view asks for, now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// X of this deadline is due.
    Due(Time),
    /// Ask again: the fold has not come as far as the deadline.
    NotYet,
    /// Nothing, now or later: whatever makes this order due again brings an entry of its own.
    Settled,
}

/// Judges an order at `now`; of its partition of intake everything received before `folded_until` is folded.
///
/// An order becomes due again after `Settled` only by a new session or create request, and each of those has
/// its own entry in the deadline view.
pub(crate) fn judge(order: &Order, now: Time, folded_until: Time) -> Verdict {
    let Some(deadline) = order.summary.deadline else { return Verdict::Settled };
    let told = order.facts.deadlines_passed.iter().any(|known| known.content >= deadline);
    if !may_expire(order.summary.state) || told || deadline >= now {
        Verdict::Settled
    } else if deadline >= folded_until {
        Verdict::NotYet
    } else {
        Verdict::Due(deadline)
    }
}

/// Whether a row was written after the deadline entry of this time: engines without transactions write entries first.
pub(crate) fn knows(order: &Order, deadline: Time) -> bool {
    let mut created = order.facts.creates.iter().map(|known| known.content.deadline);
    let mut opened = order.facts.sessions.iter().map(|known| known.content.deadline);
    created.any(|known| known == deadline) || opened.any(|known| known == deadline)
}

/// Whether X can change this state (order-state.md, the order of its questions). REQUESTED, PENDING and
/// UNCONFIRMED stand below EXPIRED, so X turns them into it. PAID, REFUNDED and FAILED stand above it; EXPIRED
/// holds already, and if a later session reopens it, that session brings a later deadline. UNMATCHED stands
/// above all: no create request is known, and the one that comes brings its own deadline.
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
    use crate::run::testkit::{at, create, known, order, passed, session};

    /// State, deadline, X already known, now, folded until → verdict.
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
    fn an_entry_may_be_there_before_the_row_that_knows_of_it() {
        let mut row = order("a", OrderState::Pending, Some(at("10:17")));
        assert!(!knows(&row, at("10:17")), "the summary alone tells nothing of an entry");
        row.facts.creates = vec![known(create("10:30"))];
        row.facts.sessions = vec![known(session("r1", "10:17"))];
        for (clock, expected) in [("10:30", true), ("10:17", true), ("10:20", false)] {
            assert_eq!(knows(&row, at(clock)), expected, "{clock}");
        }
    }

    #[test]
    fn the_table_of_deadlines() {
        for line in TABLE.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<_> = line.split_whitespace().collect();
            let deadline = (words[1] != "-").then(|| at(words[1]));
            let mut row = order("a", OrderState::parse(words[0]).unwrap(), deadline);
            let known = words[2].split(',').filter(|word| *word != "-");
            row.facts.deadlines_passed = known.map(|clock| passed(at(clock))).collect();
            let expected = match words[5..] {
                ["due", clock] => Verdict::Due(at(clock)),
                ["not", "yet"] => Verdict::NotYet,
                ["settled"] => Verdict::Settled,
                _ => panic!("{line}"),
            };
            assert_eq!(judge(&row, at(words[3]), at(words[4])), expected, "{line}");
        }
    }
}
