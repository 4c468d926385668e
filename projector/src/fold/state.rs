//! Owns the state of an order: that of the first condition that holds, in a fixed sequence.

use payfold_schemas::order::OrderState;
use payfold_schemas::time::Time;

use super::refs::View;

/// The state of an order, from its counting statements and its other facts.
pub(super) fn state_of(order: &View<'_>) -> OrderState {
    let facts = order.facts;
    let opened = !facts.sessions.is_empty();
    let create_failed = !facts.create_failures.is_empty() && !opened;
    if facts.creates.is_empty() {
        OrderState::Unmatched
    } else if order.refs.iter().any(|outcome| outcome.is_paid()) {
        OrderState::Paid
    } else if order.refs.iter().any(|outcome| outcome.refunds.whole) {
        OrderState::Refunded
    } else if create_failed || order.refs.iter().any(|outcome| outcome.failed) {
        OrderState::Failed
    } else if deadline_passed(order) || order.refs.iter().any(|outcome| outcome.expired) {
        OrderState::Expired
    } else if order.unconfirmed().next().is_some() {
        OrderState::Unconfirmed
    } else if opened {
        OrderState::Pending
    } else {
        OrderState::Requested
    }
}

/// Whether some X is not earlier than the deadline of every known O. Without an O any X is enough.
fn deadline_passed(order: &View<'_>) -> bool {
    let last = last_session_deadline(order);
    order.facts.deadlines_passed.iter().any(|known| Some(known.content) >= last)
}

/// The latest deadline of the known sessions.
pub(super) fn last_session_deadline(order: &View<'_>) -> Option<Time> {
    order.facts.sessions.iter().map(|known| known.content.deadline).max()
}
