//! Owns the question whether a partner's word would help an order, and what it would be asked. Pure.
//!
//! Asked for are: orders without a final state (REQUESTED, PENDING), orders that ended by our clock alone (EXPIRED
//! without the partner's own word), notices that wait for their confirmation, and orders with an open flag that the
//! partner's books can speak to. Not asked for: what is final; UNMATCHED, whose create request no partner can supply;
//! and flags where an answer could only contradict one of two notices, or is about two orders or our own facts.

use std::collections::BTreeSet;

use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::{Flag, Known, KnownIpn, Order, OrderState, RaisedFlag, Severity};

/// Transactions of one order that are asked for; an order has one, as a rule.
const TARGETS_MAX: usize = 8;

/// Why an order is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its state is not final.
    State(OrderState),
    /// This flag is open.
    Flag(Flag),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::State(state) => std::fmt::Display::fmt(state, f),
            Self::Flag(flag) => std::fmt::Display::fmt(flag, f),
        }
    }
}

/// One thing to ask for: this transaction, or the order as a whole where none is known.
pub type Target = Option<ProviderRef>;

/// Why an order is asked about from its creation on; empty if it is not. Unconfirmed notices count from their own
/// receipt and are not among these.
pub fn reasons(order: &Order) -> Vec<Reason> {
    let mut reasons = Vec::new();
    // Whoever waits for a confirmation is asked about for that.
    if state_asks(order) && unconfirmed(order).next().is_none() {
        reasons.push(Reason::State(order.summary.state));
    }
    let asking = order.summary.flags.iter().filter(|raised| flag_asks(raised, order));
    reasons.extend(asking.map(|raised| Reason::Flag(raised.flag)));
    reasons
}

/// What is asked for these reasons.
pub fn targets(order: &Order, reasons: &[Reason]) -> BTreeSet<Target> {
    let mut targets = BTreeSet::new();
    for reason in reasons {
        match reason {
            Reason::State(_) => targets.extend(session_refs(order).map(Some)),
            Reason::Flag(_) => {
                targets.extend(order.facts.ipns.iter().map(|known| target(&known.content)));
            }
        }
    }
    if targets.is_empty() && !reasons.is_empty() {
        targets.insert(None);
    }
    targets.into_iter().take(TARGETS_MAX).collect()
}

/// The notices that count only once an equal answer is known, and none is.
pub fn unconfirmed(order: &Order) -> impl Iterator<Item = &Known<KnownIpn>> {
    let answers = &order.facts.query_answers;
    let confirmed = |ipn: &KnownIpn| answers.iter().any(|known| says_as(&known.content, ipn));
    order
        .facts
        .ipns
        .iter()
        .filter(move |known| known.content.policy.unconfirmed && !confirmed(&known.content))
}

/// What is asked for to confirm them.
pub fn confirming(order: &Order) -> BTreeSet<Target> {
    unconfirmed(order).map(|known| target(&known.content)).take(TARGETS_MAX).collect()
}

/// Everything the order is asked for, for whatever reason.
pub fn wanted(order: &Order) -> BTreeSet<Target> {
    let mut wanted = targets(order, &reasons(order));
    wanted.extend(confirming(order));
    wanted
}

/// Whether an answer tells the order something: not if it is known already, nor if a notice that needs no witness
/// says the same and nothing is asked.
pub(crate) fn is_news(order: &Order, answer: &QueryAnswer) -> bool {
    let facts = &order.facts;
    if facts.query_answers.iter().any(|known| known.content == *answer) {
        return false;
    }
    let mut notices = facts.ipns.iter().map(|known| &known.content);
    let told = notices.any(|ipn| !ipn.policy.unconfirmed && says_as(answer, ipn));
    !told || !wanted(order).is_empty()
}

/// Whether its money is none the order asks for; a refund may be of a part. While nothing is asked, any is as good.
pub(crate) fn is_other_money(order: &Order, answer: &QueryAnswer) -> bool {
    let mut creates = order.facts.creates.iter().map(|known| &known.content).peekable();
    creates.peek().is_some()
        && !creates.any(|create| {
            let part = answer.status == Status::Refunded && answer.amount < create.amount;
            create.currency == answer.currency && (create.amount == answer.amount || part)
        })
}

/// Whether an answer says what a notice says.
pub(crate) fn says_as(answer: &QueryAnswer, ipn: &KnownIpn) -> bool {
    answer.provider_ref == ipn.provider_ref
        && answer.status == ipn.status
        && answer.amount == ipn.money.amount
        && answer.currency == ipn.money.currency
}

/// A session that is named by its order names no transaction: only a notice does.
pub(crate) fn session_refs(order: &Order) -> impl Iterator<Item = ProviderRef> {
    let refs = order.facts.sessions.iter().map(|known| &known.content.provider_ref);
    refs.filter(|named| named.as_str() != order.key.order_id.as_str()).cloned()
}

/// A placeholder names no transaction.
fn target(ipn: &KnownIpn) -> Target {
    (!ipn.policy.placeholder_ref).then(|| ipn.provider_ref.clone())
}

fn state_asks(order: &Order) -> bool {
    match order.summary.state {
        OrderState::Requested | OrderState::Pending => true,
        OrderState::Expired => {
            let facts = &order.facts;
            let mut notices = facts.ipns.iter().map(|known| known.content.status);
            let mut answers = facts.query_answers.iter().map(|known| known.content.status);
            !notices.any(|status| status == Status::Expired)
                && !answers.any(|status| status == Status::Expired)
        }
        // Final, or the wait for a confirmation, or the wait for a create request.
        OrderState::Failed
        | OrderState::Paid
        | OrderState::Refunded
        | OrderState::Unconfirmed
        | OrderState::Unmatched => false,
    }
}

fn flag_asks(raised: &RaisedFlag, order: &Order) -> bool {
    let asks = match raised.flag {
        // Which money it was, and whether all of both is still there.
        Flag::AmountMismatch | Flag::CurrencyMismatch | Flag::DoublePayment => true,
        // A payment time is no money.
        Flag::ContentVariant => raised.severity == Severity::Critical,
        // Whether the rest went back too, where that can't be counted.
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
    asks && raised.is_open() && !order.facts.creates.is_empty()
}

#[cfg(test)]
mod tests;
