//! Owns the part of an order that tells of its money: what books are compared by. It is read from the stored bytes of the
//! whole order and steps over all else. Invariant: each field has the number, and so the value, that it has in `Order`.

use minicbor::Decode;

use super::{Known, KnownIpn, Order, OrderState, RaisedFlag, Summary};
use crate::fact::{Create, QueryAnswer, SharedRef};
use crate::ids::{OrderKey, Reference};
use crate::money::{Amount, Currency};
use crate::time::Time;

/// One order, as far as its money goes.
#[derive(Clone, Debug, PartialEq, Eq, Decode)]
pub struct OrderMoney {
    /// Its name.
    #[n(0)]
    pub key: OrderKey,
    /// When the first of its records was received.
    #[n(2)]
    pub first_seen: Time,
    /// What its facts come to.
    #[n(4)]
    pub summary: MoneySummary,
    /// The facts that tell of money.
    #[n(5)]
    pub facts: MoneyFacts,
}

/// What the facts come to, as in `Summary`.
#[derive(Clone, Debug, PartialEq, Eq, Decode)]
pub struct MoneySummary {
    /// Where the order stands.
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
    /// What went back, minor units.
    #[n(8)]
    pub refunded_amount: i64,
    /// What was paid over the amount and has not gone back, minor units.
    #[n(9)]
    pub overpaid: i64,
}

/// Facts, as in `KnownFacts`.
#[derive(Clone, Debug, PartialEq, Eq, Decode)]
pub struct MoneyFacts {
    /// C
    #[n(0)]
    pub creates: Vec<Known<Asked>>,
    /// S, F, E, R
    #[n(3)]
    pub ipns: Vec<Known<KnownIpn>>,
    /// P
    #[n(5)]
    pub query_answers: Vec<Known<QueryAnswer>>,
    /// K
    #[n(6)]
    pub shared_refs: Vec<Known<SharedRef>>,
}

/// What a create request asked for, as in `Create`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Decode)]
pub struct Asked {
    /// Minor units.
    #[n(0)]
    pub amount: Amount,
    /// ISO 4217.
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
