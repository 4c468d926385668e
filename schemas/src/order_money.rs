//! Owns the part of an order that reconciliation compares: its money. It is decoded from the stored
//! bytes of the whole order, without the other fields. Invariant: each field has the number, and so
//! the value, that it has in `Order`.

use minicbor::Decode;

use crate::fact::{Create, QueryAnswer, SharedRef};
use crate::flag::RaisedFlag;
use crate::ids::{OrderKey, Reference};
use crate::money::{Amount, Currency};
use crate::order::{Known, KnownIpn, Order, OrderState, Summary};
use crate::time::Time;

/// The money of one order.
#[derive(Clone, Debug, PartialEq, Eq, Decode)]
pub struct OrderMoney {
    /// The order's name.
    #[n(0)]
    pub key: OrderKey,
    /// When the first of its records was received.
    #[n(2)]
    pub first_seen: Time,
    /// The summary of its facts.
    #[n(4)]
    pub summary: MoneySummary,
    /// The facts about money.
    #[n(5)]
    pub facts: MoneyFacts,
}

/// The summary of the facts, as in `Summary`.
#[derive(Clone, Debug, PartialEq, Eq, Decode)]
pub struct MoneySummary {
    /// The order's state.
    #[n(0)]
    pub state: OrderState,
    /// Every flag that holds.
    #[n(2)]
    pub flags: Vec<RaisedFlag>,
    /// The shop's reference; none while no create request is known.
    #[n(3)]
    pub reference: Option<Reference>,
    /// The attempt at that reference.
    #[n(4)]
    pub attempt: Option<u32>,
    /// The currency that was asked for; none while no create request is known.
    #[n(6)]
    pub currency: Option<Currency>,
    /// The sum of refunds, minor units.
    #[n(8)]
    pub refunded_amount: i64,
    /// What was paid above the amount and not refunded, minor units.
    #[n(9)]
    pub overpaid: i64,
}

/// The facts about money, as in `KnownFacts`.
#[derive(Clone, Debug, PartialEq, Eq, Decode)]
pub struct MoneyFacts {
    /// Create requests of the shop.
    #[n(0)]
    pub creates: Vec<Known<Asked>>,
    /// Notices of the partner, of every status.
    #[n(3)]
    pub ipns: Vec<Known<KnownIpn>>,
    /// Answers of the partner to queries.
    #[n(5)]
    pub query_answers: Vec<Known<QueryAnswer>>,
    /// Refs that another order has too.
    #[n(6)]
    pub shared_refs: Vec<Known<SharedRef>>,
}

/// What a create request asked for, as in `Create`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Decode)]
pub struct Asked {
    /// Minor units.
    #[n(0)]
    pub amount: Amount,
    /// The currency's ISO 4217 code.
    #[n(1)]
    pub currency: Currency,
}

impl From<Order> for OrderMoney {
    fn from(order: Order) -> Self {
        let Order { key, first_seen, summary, facts, .. } = order;
        let (refunded_amount, overpaid) = (summary.refunded_amount, summary.overpaid);
        let Summary { state, flags, reference, attempt, currency, .. } = summary;
        let asked = facts.creates.into_iter().map(|known| {
            let Create { amount, currency, .. } = known.content;
            Known { content: Asked { amount, currency }, position: known.position }
        });
        Self {
            key,
            first_seen,
            summary: MoneySummary {
                state,
                flags,
                reference,
                attempt,
                currency,
                refunded_amount,
                overpaid,
            },
            facts: MoneyFacts {
                creates: asked.collect(),
                ipns: facts.ipns,
                query_answers: facts.query_answers,
                shared_refs: facts.shared_refs,
            },
        }
    }
}
