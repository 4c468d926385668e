//! Owns a query of one payment, which a survey hands to the reconciler role, and the content of the
//! partner's answer. The role decides when a partner may be queried.

use payfold_partners::query::PaymentStatus;
use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::ids::{OrderKey, ProviderRef};
use payfold_schemas::order::{Known, KnownIpn, Order};
use payfold_schemas::time::Time;
use tokio::sync::oneshot;

/// What a query is for: this transaction, or with `None` the order as a whole.
pub type QueryTarget = Option<ProviderRef>;

/// A query, and the sender of its answer.
pub struct PaymentQuestion {
    /// The order.
    pub key: OrderKey,
    /// The transaction, or the order as a whole.
    pub target: QueryTarget,
    /// Since when the query is due.
    pub due: Time,
    /// The sender of the answer.
    pub reply: oneshot::Sender<PartnerReply>,
}

/// The result of a query.
#[derive(Clone, Debug)]
pub enum PartnerReply {
    /// The partner's answer.
    Answered(PaymentStatus),
    /// The partner takes queries for transactions only, and the order has no known transaction.
    NoRef,
    /// The query failed; the text says why.
    Trouble(String),
}

/// Whether an answer has the ref, status, amount and currency of a notice.
pub fn answer_matches_notice(answer: &QueryAnswer, ipn: &KnownIpn) -> bool {
    answer.provider_ref == ipn.provider_ref
        && answer.status == ipn.status
        && answer.amount == ipn.money.amount
        && answer.currency == ipn.money.currency
}

/// Whether a notice counts by itself, or by an equal answer.
pub fn is_confirmed(ipn: &KnownIpn, answers: &[Known<QueryAnswer>]) -> bool {
    !ipn.policy.unconfirmed || answers.iter().any(|p| answer_matches_notice(&p.content, ipn))
}

/// The refs of an order's sessions, without a ref that equals the order's id: such a ref names no
/// transaction.
pub fn session_refs(order: &Order) -> impl Iterator<Item = ProviderRef> {
    let refs = order.facts.sessions.iter().map(|known| &known.content.provider_ref);
    refs.filter(|named| named.as_str() != order.key.order_id.as_str()).cloned()
}
