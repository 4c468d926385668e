//! Owns the differences between an order and the partner's lines: what each side says, of which
//! payment or refund, and how much money is at risk.

use chrono::NaiveDate;
use payfold_schemas::finding::{BookLine, Code};
use payfold_schemas::ids::{EventRef, OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

use super::ours::Money;

/// One difference between an order and the partner's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kind of difference.
    pub code: Code,
    /// The field, by its name in the contract.
    pub field: &'static str,
    /// Whether it is about a payment, a refund or an end.
    pub status: Status,
    /// The transaction.
    pub provider_ref: Option<ProviderRef>,
    /// Which refund of the transaction, which may be refunded in parts.
    pub(crate) part: Option<String>,
    /// Our value.
    pub ours: String,
    /// The partner's value.
    pub partners: String,
    /// The number of the line; `None` if the difference is a missing line.
    pub(crate) line: Option<u64>,
    /// Another order that the difference is about too.
    pub(crate) other_order: Option<OrderId>,
    /// Of a line that is there too often: how often our side has it, at least 1.
    pub(crate) known: usize,
    /// Minor units at risk.
    pub(crate) at_risk: i64,
    /// The currency of the money at risk.
    pub currency: Currency,
}

/// A payment or refund that the records of two days list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoubledItem {
    /// The record of `intake` since which it counts.
    pub(crate) counts_since: Option<Position>,
    /// The day of the finding: its records list what is not of it.
    pub(crate) day: NaiveDate,
    /// The other day, if its run has only not missed the item: the run may have begun before it was
    /// known.
    pub(crate) inferred_from: Option<NaiveDate>,
    pub(crate) found: Difference,
    /// What the line is a difference by, if the item turns out to be listed once.
    pub(crate) otherwise: Option<Difference>,
}

/// The value of a side that has nothing.
pub(crate) const NOTHING: &str = "nothing";

/// A difference about a line, with both values still empty.
pub(crate) fn difference(code: Code, field: &'static str, line: &BookLine) -> Difference {
    Difference {
        code,
        field,
        status: line.status,
        provider_ref: line.provider_ref.clone(),
        part: (line.status == Status::Refunded)
            .then(|| refund_part(line.event_ref.as_ref(), line.amount, line.currency)),
        ours: String::new(),
        partners: String::new(),
        line: Some(line.line),
        other_order: None,
        known: 1,
        at_risk: line.amount.minor(),
        currency: line.currency,
    }
}

/// When the partner says that the money of a line moved.
pub(crate) fn time_of(line: &BookLine) -> Time {
    line.paid_at.unwrap_or(line.at)
}

pub(crate) fn is_same_money(ours: &Money, line: &BookLine) -> bool {
    (ours.amount, ours.currency) == (line.amount, line.currency)
}

/// The differences in amount and currency; empty if the money is the same.
pub(crate) fn money_differences(ours: &Money, line: &BookLine) -> Vec<Difference> {
    let mut found = Vec::new();
    if ours.currency != line.currency {
        found.push(Difference {
            ours: ours.currency.to_string(),
            partners: line.currency.to_string(),
            ..difference(Code::CurrencyDiffers, "currency", line)
        });
    }
    if ours.amount != line.amount {
        let gap = ours.amount.minor() - line.amount.minor();
        let at_risk = if ours.currency == line.currency { gap.abs() } else { line.amount.minor() };
        found.push(Difference {
            ours: ours.amount.to_string(),
            partners: line.amount.to_string(),
            at_risk,
            ..difference(Code::AmountDiffers, "amount", line)
        });
    }
    found
}

/// Names a refund of a transaction: the partner's name of the refund, else its money.
pub(crate) fn refund_part(
    event_ref: Option<&EventRef>,
    amount: Amount,
    currency: Currency,
) -> String {
    event_ref.map_or_else(|| format!("{amount} {currency}"), ToString::to_string)
}

/// `once`, `2 times`, …
pub(crate) fn how_often(times: usize) -> String {
    if times == 1 { "once".to_owned() } else { format!("{times} times") }
}

/// Whether two differences would be the same finding.
pub(crate) fn is_same_finding(a: &Difference, b: &Difference) -> bool {
    (a.code, a.field, a.status) == (b.code, b.field, b.status)
        && (&a.provider_ref, &a.part) == (&b.provider_ref, &b.part)
}
