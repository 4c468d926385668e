//! Owns the decision whether a partner's answer would help an order, and what the query asks for.
//! Pure.
//!
//! These orders are asked about: those without a final state (REQUESTED, PENDING, UNCONFIRMED);
//! those that ended by our clock alone (EXPIRED, and the partner has not said so); those with a
//! notice that waits for its confirmation; and those with an open flag that the partner's records
//! can settle. These are not: orders with a final state; UNMATCHED orders, because no partner can
//! supply the create request; and flags about which an answer could only contradict one of two
//! notices, or which are about two orders or about our own facts.

use std::collections::BTreeSet;

use payfold_reconcile::question::{QueryTarget, answer_matches_notice, is_confirmed, session_refs};
use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::{IpnPolicy, Status};
use payfold_schemas::order::{Flag, Known, KnownIpn, Order, OrderState, RaisedFlag, Severity};

/// The most transactions of one order that are asked for. Most orders have one.
pub(crate) const TARGETS_MAX: usize = 8;

/// A reason to ask a partner about an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryReason {
    /// The order is in this state, which is not final.
    State(OrderState),
    /// This flag of the order is open.
    Flag(Flag),
}

impl std::fmt::Display for QueryReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::State(state) => std::fmt::Display::fmt(state, f),
            Self::Flag(flag) => std::fmt::Display::fmt(flag, f),
        }
    }
}

/// The reasons to ask about an order on the schedule that counts from its creation; empty if it is
/// not asked about. Unconfirmed notices are not among them: their schedule counts from their
/// receipt.
pub fn query_reasons(order: &Order) -> Vec<QueryReason> {
    let mut reasons = Vec::new();
    if needs_query_for_state(order) {
        reasons.push(QueryReason::State(order.summary.state));
    }
    let flags = order.summary.flags.iter();
    let flags = flags.filter(|raised| needs_query_for_flag(raised, order));
    reasons.extend(flags.map(|raised| QueryReason::Flag(raised.flag)));
    reasons
}

/// What to ask for, for these reasons: first what notices of others can't add to.
pub(crate) fn targets_for(order: &Order, reasons: &[QueryReason]) -> Vec<QueryTarget> {
    let (mut own, mut named) = (BTreeSet::new(), BTreeSet::new());
    for reason in reasons {
        match reason {
            QueryReason::State(_) => {
                own.extend(session_refs(order).map(Some));
                // The watch over notices may have had no room for these.
                named.extend(confirmation_targets(order));
            }
            QueryReason::Flag(_) => {
                let notices = order.facts.ipns.iter().map(|known| &known.content);
                let answers = &order.facts.query_answers;
                let confirmed = notices.filter(|ipn| is_confirmed(ipn, answers));
                own.extend(confirmed.map(|ipn| target_of(ipn.policy, &ipn.provider_ref)));
            }
        }
    }
    if own.is_empty() && named.is_empty() && !reasons.is_empty() {
        own.insert(None);
    }
    let others: Vec<_> = named.difference(&own).cloned().collect();
    own.into_iter().chain(others).take(TARGETS_MAX).collect()
}

/// The notices that count only once an equal answer is known, as long as none is.
pub fn unconfirmed_notices(order: &Order) -> impl Iterator<Item = &Known<KnownIpn>> {
    let answers = &order.facts.query_answers;
    order.facts.ipns.iter().filter(move |known| !is_confirmed(&known.content, answers))
}

/// What to ask for to confirm the order's unconfirmed notices; empty if there are none.
pub(crate) fn confirmation_targets(order: &Order) -> BTreeSet<QueryTarget> {
    let notices = unconfirmed_notices(order).map(|known| &known.content);
    notices.map(|ipn| target_of(ipn.policy, &ipn.provider_ref)).collect()
}

/// Whether to ask for this, to confirm a notice that names it. The notice may have been left out of
/// the row.
pub(crate) fn needs_confirmation(order: &Order, target: &QueryTarget) -> bool {
    let facts = &order.facts;
    let is_answered = || {
        facts.query_answers.iter().any(|known| Some(&known.content.provider_ref) == target.as_ref())
    };
    confirmation_targets(order).contains(target)
        || (facts.unconfirmed_left_out && target.is_some() && !is_answered())
}

/// Whether to ask for this about the order, for any reason.
pub(crate) fn is_wanted(order: &Order, target: &QueryTarget) -> bool {
    needs_confirmation(order, target) || targets_for(order, &query_reasons(order)).contains(target)
}

/// Whether an answer adds something to the order. It does not if the order has the same answer
/// already, or if a notice that needs no confirmation says the same and there is nothing to ask.
pub(crate) fn is_news(order: &Order, answer: &QueryAnswer) -> bool {
    let facts = &order.facts;
    if facts.query_answers.iter().any(|known| known.content == *answer) {
        return false;
    }
    let mut notices = facts.ipns.iter().map(|known| &known.content);
    let is_in_notice =
        notices.any(|ipn| !ipn.policy.unconfirmed && answer_matches_notice(answer, ipn));
    !is_in_notice || !query_reasons(order).is_empty() || unconfirmed_notices(order).next().is_some()
}

/// Whether an answer's amount and currency match none of the order's create requests. A refund may
/// be of a part. Without a create request there is nothing to compare, so this is false.
pub(crate) fn has_unexpected_money(order: &Order, answer: &QueryAnswer) -> bool {
    let mut creates = order.facts.creates.iter().map(|known| &known.content).peekable();
    creates.peek().is_some()
        && !creates.any(|create| {
            let part = answer.status == Status::Refunded && answer.amount < create.amount;
            create.currency == answer.currency && (create.amount == answer.amount || part)
        })
}

/// The transaction that a notice with this policy and ref names; `None` for a placeholder.
pub(crate) fn target_of(policy: IpnPolicy, provider_ref: &ProviderRef) -> QueryTarget {
    (!policy.placeholder_ref).then(|| provider_ref.clone())
}

/// Whether the order's state is a reason to ask.
fn needs_query_for_state(order: &Order) -> bool {
    match order.summary.state {
        OrderState::Requested | OrderState::Pending | OrderState::Unconfirmed => true,
        OrderState::Expired => {
            let facts = &order.facts;
            let confirmed = facts.ipns.iter().filter(|known| !known.content.policy.unconfirmed);
            let mut notices = confirmed.map(|known| known.content.status);
            let mut answers = facts.query_answers.iter().map(|known| known.content.status);
            !notices.any(|status| status == Status::Expired)
                && !answers.any(|status| status == Status::Expired)
        }
        // Final states; UNMATCHED waits for a create request.
        OrderState::Failed | OrderState::Paid | OrderState::Refunded | OrderState::Unmatched => {
            false
        }
    }
}

/// Whether a flag is a reason to ask.
fn needs_query_for_flag(raised: &RaisedFlag, order: &Order) -> bool {
    let can_settle = match raised.flag {
        // The partner knows which amount was paid, and what of it was paid back.
        Flag::AmountMismatch | Flag::CurrencyMismatch | Flag::DoublePayment => true,
        // Critical: the amount or the currency differs. Info: only the time of payment does.
        Flag::ContentVariant => raised.severity == Severity::Critical,
        // Whether the rest was refunded too, if the notices can't be added up.
        Flag::PartialRefund => order.summary.refunded_at_least,
        Flag::ProviderRefReused
        | Flag::CreateConflict
        | Flag::SecondSession
        | Flag::SuccessAndFailed
        | Flag::SuccessAndExpired
        | Flag::PaidAfterDeadline
        | Flag::RefundWithoutSuccess
        | Flag::RefundAndNegative
        | Flag::UnknownOrder
        | Flag::QueryDisagrees
        | Flag::Unconfirmed
        | Flag::SettledByQuery
        | Flag::ProviderRefUnexpected
        | Flag::FactOverflow
        | Flag::DecisionsConflict => false,
    };
    can_settle && raised.is_open() && !order.facts.creates.is_empty()
}

#[cfg(test)]
mod tests;
