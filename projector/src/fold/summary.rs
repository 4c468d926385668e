//! Owns the summary of an order, computed from its kept facts.
//!
//! Of two conflicting C the smaller in content order is shown. Amounts are in minor units; sums
//! saturate.

use payfold_schemas::ids::ProviderRef;
use payfold_schemas::order::{KnownFacts, OrderState, RaisedFlag, Severity, Summary};
use payfold_schemas::time::Time;

use super::flags::flags_of;
use super::refs::{RefOutcome, View, is_session_ref};
use super::state::{last_session_deadline, state_of};

/// Computes the summary of an order from its kept facts.
pub fn summarize(facts: &KnownFacts) -> Summary {
    let order = View::of(facts);
    let (state, flags) = (state_of(&order), flags_of(&order));
    let shown = facts.creates.first().map(|known| &known.content);
    let payment = payment(&order);
    let sums = Sums::of(&order);
    let is_settled = matches!(state, OrderState::Paid | OrderState::Refunded);
    assert_eq!(
        payment.is_some(),
        is_settled,
        "an order is settled by a payment and by nothing else"
    );
    Summary {
        state,
        fulfil: state == OrderState::Paid && !flags.iter().any(is_open_critical),
        flags,
        reference: shown.map(|create| create.reference.clone()),
        attempt: shown.map(|create| create.attempt),
        amount: shown.map(|create| create.amount.minor()),
        currency: shown.map(|create| create.currency),
        paid_amount: sums.paid,
        refunded_amount: sums.refunded,
        overpaid: sums.overpaid,
        refunded_at_least: order.refs.iter().any(|outcome| outcome.refunds.at_least),
        session_ref: session_ref(&order, payment).cloned(),
        payment_ref: payment.map(|outcome| outcome.view.provider_ref.clone()),
        paid_at: payment.and_then(|outcome| outcome.paid_at),
        deadline: deadline(&order),
    }
}

pub(super) fn is_open_critical(raised: &RaisedFlag) -> bool {
    raised.is_open() && raised.severity == Severity::Critical
}

/// The smallest paid ref, else the smallest refunded one.
fn payment<'v, 'a>(order: &'v View<'a>) -> Option<&'v RefOutcome<'a>> {
    let paid = order.refs.iter().find(|outcome| outcome.is_paid());
    paid.or_else(|| order.refs.iter().find(|outcome| outcome.refunds.whole))
}

/// The payment's ref if it is a session's, else the smallest session's.
fn session_ref<'a>(order: &View<'a>, payment: Option<&RefOutcome<'a>>) -> Option<&'a ProviderRef> {
    let paid = payment.map(|outcome| outcome.view.provider_ref);
    paid.filter(|provider_ref| is_session_ref(order.facts, provider_ref))
        .or_else(|| order.facts.sessions.first().map(|known| &known.content.provider_ref))
}

/// The latest deadline of the known sessions, else of the create requests.
fn deadline(order: &View<'_>) -> Option<Time> {
    let of_creates = || order.terms.iter().map(|create| create.deadline).max();
    last_session_deadline(order).or_else(of_creates)
}

struct Sums {
    paid: i64,
    refunded: i64,
    overpaid: i64,
}

impl Sums {
    fn of(order: &View<'_>) -> Self {
        let successes = || order.refs.iter().filter_map(|outcome| outcome.success);
        let paid = sum(successes());
        let refunded = sum(order.refs.iter().map(|outcome| outcome.refunds.amount));
        let over = paid.saturating_sub(refunded).saturating_sub(order.terms.largest());
        // With one ref nothing is overpaid: a counting S has the amount of some C.
        let overpaid = over.max(0);
        assert!(
            overpaid == 0 || order.refs.len() > 1,
            "one ref pays no more than it was asked for"
        );
        Self { paid, refunded, overpaid }
    }
}

fn sum(amounts: impl Iterator<Item = i64>) -> i64 {
    amounts.fold(0, i64::saturating_add)
}
