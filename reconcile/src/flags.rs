//! Owns the findings of an order's own flags: which flags are findings, how much money each puts at
//! risk, and how that is joined with the differences of the same order. Pure.
//!
//! Invariants: a flag's finding has the flag's own evidence, so a decision on the flag is the
//! decision on the finding. The money at risk of an order is that of its differences or that of its
//! flags, whichever is larger, never the sum.

use payfold_schemas::digest::Digest;
use payfold_schemas::finding::{Code, Side};
use payfold_schemas::ids::{EventRef, OrderKey, ProviderRef, Reference};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::order::{Flag, KnownIpn, RaisedFlag, Severity};
use payfold_schemas::order_money::OrderMoney;
use serde::{Deserialize, Serialize};

use super::detected_finding::{DetectedFinding, FindingIdentity};
use super::difference::NOTHING;
use super::question::is_confirmed;

/// The flags of one order that are findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OrderFlags {
    pub(crate) key: OrderKey,
    reference: Option<Reference>,
    /// The currency of the create request; without one, that of the first notice or answer.
    pub(crate) currency: Option<Currency>,
    pub(crate) flags: Vec<OrderFlag>,
}

/// One flag of high or critical severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OrderFlag {
    pub(crate) flag: Flag,
    severity: Severity,
    /// The flag's own evidence.
    evidence: Digest,
    /// Whether it has no final decision.
    pub(crate) is_open: bool,
    /// Minor units at risk.
    at_risk: i64,
}

impl OrderFlags {
    /// The flags of an order that are findings, open or decided; `None` if the order has none. Each
    /// flag has the money that it puts at risk by itself.
    pub(crate) fn of(order: &OrderMoney) -> Option<Self> {
        let is_high = |raised: &&RaisedFlag| raised.severity >= Severity::High;
        // Most orders have no such flag, so the statements are collected only for those that have.
        order.summary.flags.iter().find(is_high)?;
        let money = MoneyStatements::of(order);
        let flag = |raised: &RaisedFlag| OrderFlag {
            flag: raised.flag,
            severity: raised.severity,
            evidence: raised.evidence,
            is_open: raised.is_open(),
            at_risk: money.at_risk(raised.flag, order),
        };
        let mut flags: Vec<OrderFlag> =
            order.summary.flags.iter().filter(is_high).map(flag).collect();
        // Of a flag of two severities, one is the finding: what is open, else what is worse.
        flags.sort_by_key(|one| (one.flag, !one.is_open, std::cmp::Reverse(one.severity)));
        flags.dedup_by_key(|one| one.flag);
        let (key, reference) = (order.key.clone(), order.summary.reference.clone());
        Some(Self { key, reference, currency: money.currency, flags })
    }

    /// Joins the flags with differences of the same order that put `differences_minor` at risk. The
    /// open flag with the most money at risk keeps the amount beyond the differences. The other
    /// flags keep nothing.
    pub(crate) fn join_with_differences(mut self, differences_minor: i64) -> Self {
        let open = self.flags.iter().enumerate().filter(|(_, flag)| flag.is_open);
        let largest = open.max_by_key(|(index, flag)| (flag.at_risk, std::cmp::Reverse(*index)));
        let largest = largest.map(|(index, _)| index);
        for (index, flag) in self.flags.iter_mut().enumerate() {
            let beyond = flag.at_risk.saturating_sub(differences_minor).max(0);
            flag.at_risk = if Some(index) == largest { beyond } else { 0 };
        }
        self
    }

    /// The finding of one of the flags on this day.
    pub(crate) fn finding(&self, flag: OrderFlag, day: &str) -> DetectedFinding {
        let identity = FindingIdentity {
            partner: self.key.partner.clone(),
            merchant_code: Some(self.key.merchant_code.clone()),
            order_id: Some(self.key.order_id.clone()),
            provider_ref: None,
            code: Code::OpenFlag.to_string(),
            what: flag.flag.to_string(),
            day: Some(day.to_owned()),
        };
        DetectedFinding {
            id: identity.id(),
            code: Code::OpenFlag,
            severity: flag.severity,
            flag: Some(flag.flag),
            identity,
            reference: self.reference.clone(),
            field: String::new(),
            ours: Side { value: flag.flag.to_string(), source: self.key.to_string() },
            partners: Side {
                value: NOTHING.to_owned(),
                source: "the partner's records".to_owned(),
            },
            at_risk: flag.at_risk,
            currency: self.currency,
            lines: Vec::new(),
            evidence: flag.evidence,
        }
    }
}

/// A payment or refund that a notice or an answer states.
struct MoneyStatement<'a> {
    /// Transaction, status and the partner's name of the refund.
    of: (&'a ProviderRef, Status, Option<&'a EventRef>),
    /// Minor units.
    minor: i64,
}

/// What notices, answers and create requests state of an order's money, in the order's currency.
struct MoneyStatements<'a> {
    currency: Option<Currency>,
    /// Amounts of create requests, minor units.
    requested: Vec<i64>,
    /// Payments and refunds that notices and answers state.
    stated: Vec<MoneyStatement<'a>>,
}

impl<'a> MoneyStatements<'a> {
    fn of(order: &'a OrderMoney) -> Self {
        let facts = &order.facts;
        // Anybody can send what is not confirmed. Without a create request there is nothing else.
        let counts =
            |ipn: &KnownIpn| is_confirmed(ipn, &facts.query_answers) || facts.creates.is_empty();
        let notices = facts.ipns.iter().map(|known| &known.content).filter(|ipn| counts(ipn));
        let notices = notices.map(|ipn| {
            let of = (&ipn.provider_ref, ipn.status, ipn.money.event_ref.as_ref());
            (ipn.money.currency, MoneyStatement { of, minor: ipn.money.amount.minor() })
        });
        let answers = facts.query_answers.iter().map(|known| {
            let answer = &known.content;
            let of = (&answer.provider_ref, answer.status, None);
            (answer.currency, MoneyStatement { of, minor: answer.amount.minor() })
        });
        let all: Vec<_> = notices.chain(answers).collect();
        let currency = order.summary.currency.or_else(|| all.first().map(|(of, _)| *of));
        let moves =
            |stated: &MoneyStatement<'_>| matches!(stated.of.1, Status::Success | Status::Refunded);
        let stated = all.into_iter().filter(|(of, stated)| Some(*of) == currency && moves(stated));
        let requested =
            facts.creates.iter().filter(|known| Some(known.content.currency) == currency);
        Self {
            currency,
            requested: requested.map(|known| known.content.amount.minor()).collect(),
            stated: stated.map(|(_, stated)| stated).collect(),
        }
    }

    /// Minor units that a flag by itself says may be lost, doubled or invented.
    fn at_risk(&self, flag: Flag, order: &OrderMoney) -> i64 {
        match flag {
            Flag::DoublePayment => order.summary.overpaid,
            Flag::AmountMismatch | Flag::ContentVariant | Flag::CreateConflict => self.widest_gap(),
            Flag::RefundWithoutSuccess | Flag::RefundAndNegative | Flag::PartialRefund => {
                order.summary.refunded_amount.max(self.largest(Status::Refunded))
            }
            Flag::CurrencyMismatch
            | Flag::ProviderRefReused
            | Flag::PaidAfterDeadline
            | Flag::UnknownOrder
            | Flag::QueryDisagrees
            | Flag::Unconfirmed
            | Flag::ProviderRefUnexpected
            | Flag::FactOverflow => self.whole_payment(),
            Flag::SecondSession
            | Flag::SuccessAndFailed
            | Flag::SuccessAndExpired
            | Flag::SettledByQuery
            | Flag::DecisionsConflict => 0,
        }
    }

    /// The largest stated amount of this status, minor units.
    fn largest(&self, status: Status) -> i64 {
        let stated = self.stated.iter().filter(|stated| stated.of.1 == status);
        stated.map(|stated| stated.minor).max().unwrap_or(0)
    }

    /// The whole payment, minor units: as stated, else as requested, else the largest refund.
    fn whole_payment(&self) -> i64 {
        let requested = || self.requested.iter().copied().max().unwrap_or(0);
        let sums = [self.largest(Status::Success), requested(), self.largest(Status::Refunded)];
        sums.into_iter().find(|minor| *minor > 0).unwrap_or(0)
    }

    /// The largest of these differences, minor units: between a payment and the requested amount,
    /// between a refund and a smaller requested amount, between two statements of one transaction,
    /// and between two create requests.
    fn widest_gap(&self) -> i64 {
        let to_asked = |stated: &MoneyStatement<'_>| {
            let gap_to = |requested: &i64| stated.minor.saturating_sub(*requested);
            let gaps = self.requested.iter().map(gap_to);
            let nearest = gaps.min_by_key(|gap| gap.unsigned_abs()).unwrap_or(0);
            if stated.of.1 == Status::Success { nearest.saturating_abs() } else { nearest.max(0) }
        };
        let variants = |one: &MoneyStatement<'_>| {
            let others = self.stated.iter().filter(|other| other.of == one.of);
            others.map(|other| other.minor.saturating_sub(one.minor)).max().unwrap_or(0)
        };
        let of_said = self.stated.iter().map(|stated| to_asked(stated).max(variants(stated))).max();
        let requested = || self.requested.iter().copied();
        let of_asked = requested().max().zip(requested().min());
        let of_asked = of_asked.map_or(0, |(most, least)| most.saturating_sub(least));
        of_said.unwrap_or(0).max(of_asked)
    }
}

#[cfg(test)]
mod tests;
