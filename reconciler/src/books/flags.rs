//! Owns the findings of the flags that an order itself has: which flags are findings, what each puts at risk, and how that
//! is joined with what the comparison says of the same money. Pure.
//!
//! Invariants: a finding of a flag stands on the flag's own evidence, so a decision on the flag is the decision on the
//! finding; the findings of one order put at risk what the larger of both says, the comparison or the flags, never the sum.

use payfold_schemas::digest::Digest;
use payfold_schemas::finding::{Code, Side};
use payfold_schemas::ids::{EventRef, OrderKey, ProviderRef, Reference};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::order::{Flag, OrderMoney, RaisedFlag, Severity};
use serde::{Deserialize, Serialize};

use super::compare::NOTHING;
use super::found::{About, Found};

/// The flags of one order that are findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OrderFlags {
    pub(crate) key: OrderKey,
    reference: Option<Reference>,
    /// What was asked for is in it; else what a notice or an answer says.
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
    /// Whether nobody has decided it.
    pub(crate) is_open: bool,
    /// Minor units.
    at_risk: i64,
}

impl OrderFlags {
    /// The flags of an order that are findings, open or decided; `None` if there are none. Each puts at risk what it says
    /// by itself.
    pub(crate) fn of(order: &OrderMoney) -> Option<Self> {
        let is_loud = |raised: &&RaisedFlag| raised.severity >= Severity::High;
        // Most orders have no flags.
        order.summary.flags.iter().find(is_loud)?;
        let money = Statements::of(order);
        let flag = |raised: &RaisedFlag| OrderFlag {
            flag: raised.flag,
            severity: raised.severity,
            evidence: raised.evidence,
            is_open: raised.is_open(),
            at_risk: money.at_risk(raised.flag, order),
        };
        let flags = order.summary.flags.iter().filter(is_loud).map(flag).collect();
        let (key, reference) = (order.key.clone(), order.summary.reference.clone());
        Some(Self { key, reference, currency: money.currency, flags })
    }

    /// The flags beside differences of the same order that put `differing` minor units at risk. The open flag that puts
    /// most at risk keeps what goes beyond those; the others keep nothing.
    pub(crate) fn joined(mut self, differing: i64) -> Self {
        let open = self.flags.iter().enumerate().filter(|(_, flag)| flag.is_open);
        let largest = open.max_by_key(|(place, flag)| (flag.at_risk, std::cmp::Reverse(*place)));
        let largest = largest.map(|(place, _)| place);
        for (place, flag) in self.flags.iter_mut().enumerate() {
            let beyond = flag.at_risk.saturating_sub(differing).max(0);
            flag.at_risk = if Some(place) == largest { beyond } else { 0 };
        }
        self
    }

    /// The finding of one of the flags, on this day of the partner's.
    pub(crate) fn finding(&self, flag: OrderFlag, day: &str) -> Found {
        let about = About {
            partner: self.key.partner.clone(),
            merchant_code: Some(self.key.merchant_code.clone()),
            order_id: Some(self.key.order_id.clone()),
            provider_ref: None,
            code: Code::OpenFlag.to_string(),
            what: flag.flag.to_string(),
            day: Some(day.to_owned()),
        };
        Found {
            id: about.id(),
            code: Code::OpenFlag,
            severity: flag.severity,
            flag: Some(flag.flag),
            about,
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

/// What is said of one refund or payment: which one, and its minor units.
struct Statement<'a> {
    of: (&'a ProviderRef, Status, Option<&'a EventRef>),
    minor: i64,
}

/// What notices, answers and create requests say of an order's money, in its currency.
struct Statements<'a> {
    currency: Option<Currency>,
    /// What was asked for.
    asked: Vec<i64>,
    /// Payments and refunds.
    said: Vec<Statement<'a>>,
}

impl<'a> Statements<'a> {
    fn of(order: &'a OrderMoney) -> Self {
        let facts = &order.facts;
        let notices = facts.ipns.iter().map(|known| {
            let ipn = &known.content;
            let of = (&ipn.provider_ref, ipn.status, ipn.money.event_ref.as_ref());
            (ipn.money.currency, Statement { of, minor: ipn.money.amount.minor() })
        });
        let answers = facts.query_answers.iter().map(|known| {
            let answer = &known.content;
            let of = (&answer.provider_ref, answer.status, None);
            (answer.currency, Statement { of, minor: answer.amount.minor() })
        });
        let all: Vec<_> = notices.chain(answers).collect();
        let currency = order.summary.currency.or_else(|| all.first().map(|(of, _)| *of));
        let moves = |said: &Statement<'_>| matches!(said.of.1, Status::Success | Status::Refunded);
        let said = all.into_iter().filter(|(of, said)| Some(*of) == currency && moves(said));
        let asked = facts.creates.iter().filter(|known| Some(known.content.currency) == currency);
        Self {
            currency,
            asked: asked.map(|known| known.content.amount.minor()).collect(),
            said: said.map(|(_, said)| said).collect(),
        }
    }

    /// What a flag says by itself may be lost, doubled or made up, minor units.
    fn at_risk(&self, flag: Flag, order: &OrderMoney) -> i64 {
        match flag {
            Flag::DoublePayment => order.summary.overpaid,
            Flag::AmountMismatch | Flag::ContentVariant | Flag::CreateConflict => self.gap(),
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
            | Flag::FactOverflow => self.whole(),
            Flag::SecondSession
            | Flag::SuccessAndFailed
            | Flag::SuccessAndExpired
            | Flag::SettledByQuery
            | Flag::DecisionsConflict => 0,
        }
    }

    fn largest(&self, status: Status) -> i64 {
        let said = self.said.iter().filter(|said| said.of.1 == status);
        said.map(|said| said.minor).max().unwrap_or(0)
    }

    /// The payment: as it is said to have been made, else as it was asked for, else what went back.
    fn whole(&self) -> i64 {
        let asked = || self.asked.iter().copied().max().unwrap_or(0);
        let sums = [self.largest(Status::Success), asked(), self.largest(Status::Refunded)];
        sums.into_iter().find(|minor| *minor > 0).unwrap_or(0)
    }

    /// The widest gap: between a payment and what was asked for, by which a refund exceeds that, between two tellings of
    /// one thing, and between two requests.
    fn gap(&self) -> i64 {
        let to_asked = |said: &Statement<'_>| {
            let gap = |asked: &i64| said.minor.saturating_sub(*asked);
            let gaps = self.asked.iter().map(gap);
            let nearest = gaps.min_by_key(|gap| gap.unsigned_abs()).unwrap_or(0);
            if said.of.1 == Status::Success { nearest.saturating_abs() } else { nearest.max(0) }
        };
        let variants = |one: &Statement<'_>| {
            let others = self.said.iter().filter(|other| other.of == one.of);
            others.map(|other| other.minor.saturating_sub(one.minor)).max().unwrap_or(0)
        };
        let of_said = self.said.iter().map(|said| to_asked(said).max(variants(said))).max();
        let asked = || self.asked.iter().copied();
        let of_asked = asked().max().zip(asked().min());
        let of_asked = of_asked.map_or(0, |(most, least)| most.saturating_sub(least));
        of_said.unwrap_or(0).max(of_asked)
    }
}

/// What a person should do next about a flag.
pub(crate) fn action(flag: Flag) -> &'static str {
    match flag {
        Flag::DoublePayment => "refund one of the payments; that clears it",
        Flag::AmountMismatch | Flag::CurrencyMismatch | Flag::ContentVariant => {
            "ask the partner what was paid, deliver nothing before that, then decide the flag"
        }
        Flag::ProviderRefReused => {
            "ask the partner which order was paid, deliver neither before that, then decide the flag"
        }
        Flag::CreateConflict | Flag::SecondSession => {
            "ask the shop which request it means, then decide the flag"
        }
        Flag::PaidAfterDeadline => {
            "ask the shop whether it still delivers; refund the payment if not, then decide the flag"
        }
        Flag::RefundWithoutSuccess | Flag::RefundAndNegative => {
            "ask the partner for the payment that went back; its notice clears a missing payment, else decide the flag"
        }
        Flag::PartialRefund => {
            "check that the shop knows which part went back; a refund of the rest clears it, else decide the flag"
        }
        Flag::UnknownOrder => {
            "look for the order in the shop; its create request clears it, else agree whose money it is and decide the flag"
        }
        Flag::QueryDisagrees | Flag::Unconfirmed => {
            "ask the partner what became of the payment; a matching answer clears it, else decide the flag"
        }
        Flag::ProviderRefUnexpected => {
            "check in the partner's console whose payment it is, then decide the flag"
        }
        Flag::FactOverflow => {
            "read all notices of the order in the log (`payfold trace`), then decide the flag"
        }
        Flag::DecisionsConflict => "agree on one decision and decide the flag again",
        Flag::SuccessAndFailed | Flag::SuccessAndExpired | Flag::SettledByQuery => {
            "look at the order's facts"
        }
    }
}

#[cfg(test)]
mod tests;
