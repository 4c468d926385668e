//! Owns the comparison of one order with the partner's lines of it. Pure: which lines agree, what differs in which
//! field, and what may not be missed yet. Invariant: every line ends up matched, pending, or in a difference, and so does
//! every payment of ours that the day's records should list.

mod payments;
mod refunds;

use payfold_schemas::finding::{BookLine, Code};
use payfold_schemas::ids::{OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;

use super::ours::{Money, OurOrder, OurRef};
use super::rules::Rules;

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What kind.
    pub code: Code,
    /// The field, in the contract's words.
    pub field: &'static str,
    /// Of a payment, a refund or an end.
    pub status: Status,
    /// Of which transaction.
    pub provider_ref: Option<ProviderRef>,
    /// What is known here.
    pub ours: String,
    /// What the partner says.
    pub partners: String,
    /// The line that says so; none if it is about a line that is not there.
    pub line: Option<u64>,
    /// Another order it is about too.
    pub other_order: Option<OrderId>,
    /// Minor units at risk.
    pub at_risk: i64,
    /// Of them.
    pub currency: Currency,
}

/// What the comparison of one order came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What differs.
    pub differences: Vec<Difference>,
    /// What would be missing on the day before, if that day's records have left it to this day's.
    pub left_over: Vec<Difference>,
    /// The (ref, status) of ours that a line of these records speaks of.
    pub listed: Vec<(ProviderRef, Status)>,
    /// Lines that agree.
    pub matched: u64,
    /// Lines or payments too young to be missed.
    pub pending: u64,
    /// Payments of a neighbouring day that these records list.
    pub cut_off: u64,
    /// Payments of the day as these records list them, that no notice told.
    pub unnoticed: u64,
}

/// Compares an order, or none, with all lines that name it. Lines may come in any order.
pub fn compare(ours: Option<&OurOrder>, lines: &[BookLine], rules: &Rules) -> Outcome {
    let mut sorted: Vec<&BookLine> = lines.iter().collect();
    sorted.sort_by(|a, b| content(a).cmp(&content(b)).then(a.line.cmp(&b.line)));
    let mut comparison = Comparison { ours, rules, outcome: Outcome::default() };
    let lines = comparison.without_repeats(sorted);
    comparison.payments(&lines);
    comparison.refunds(&lines);
    comparison.ends(&lines);
    comparison.unlisted();
    comparison.outcome
}

/// All of a line but where it stands.
fn content(line: &BookLine) -> impl Ord + '_ {
    let BookLine { provider_ref, status, amount, currency, at, paid_at, event_ref, .. } = line;
    (provider_ref, status, event_ref, amount, currency, at, paid_at)
}

/// One comparison on its way.
struct Comparison<'a> {
    ours: Option<&'a OurOrder>,
    rules: &'a Rules,
    outcome: Outcome,
}

impl<'a> Comparison<'a> {
    /// The lines, each once. One that is there twice is a difference.
    fn without_repeats(&mut self, sorted: Vec<&'a BookLine>) -> Vec<&'a BookLine> {
        let mut kept: Vec<&BookLine> = Vec::with_capacity(sorted.len());
        for line in sorted {
            match kept.last() {
                Some(last) if content(last) == content(line) => self.repeated(line, last.line),
                _ => kept.push(line),
            }
        }
        kept
    }

    fn repeated(&mut self, line: &BookLine, first: u64) {
        let money_moved = matches!(line.status, Status::Success | Status::Refunded);
        self.outcome.differences.push(Difference {
            ours: "one".to_owned(),
            partners: format!("once more, like line {first}"),
            at_risk: if money_moved { line.amount.minor() } else { 0 },
            ..difference(Code::DuplicatedThere, "providerRef", line)
        });
    }

    /// FAILED and EXPIRED: they contradict money that moved, unless the records list that too.
    fn ends(&mut self, lines: &[&BookLine]) {
        let is_end = |status| matches!(status, Status::Failed | Status::Expired);
        for line in lines.iter().filter(|line| is_end(line.status)) {
            let paid = self.counterpart(line).filter(|ours| !ours.paid.is_empty());
            let listed = |ours: &OurRef| {
                lines.iter().any(|other| !is_end(other.status) && self.speaks_of(other, ours))
            };
            match paid {
                Some(ours) if !listed(ours) => {
                    self.listed(ours, Status::Success);
                    let found = Difference {
                        ours: self.state(),
                        partners: line.status.to_string(),
                        at_risk: ours.payment().map_or(0, |money| money.amount.minor()),
                        ..difference(Code::StatusDiffers, "status", line)
                    };
                    self.outcome.differences.push(found);
                }
                Some(_) | None => self.outcome.matched += 1,
            }
        }
    }

    /// Our ref that a line is about: the one it names; the only one where it names none.
    fn counterpart(&self, line: &BookLine) -> Option<&'a OurRef> {
        let ours = self.ours?;
        match &line.provider_ref {
            Some(provider_ref) => ours.find(provider_ref),
            None => match ours.refs.as_slice() {
                [only] => Some(only),
                refs => refs.iter().find(|known| known.is_paid()),
            },
        }
    }

    fn speaks_of(&self, line: &BookLine, ours: &OurRef) -> bool {
        self.counterpart(line).is_some_and(|known| known.provider_ref == ours.provider_ref)
    }

    /// Our word for the whole order.
    fn state(&self) -> String {
        self.ours.map_or_else(|| NOTHING.to_owned(), |ours| ours.state.to_string())
    }

    fn listed(&mut self, ours: &OurRef, status: Status) {
        self.outcome.listed.push((ours.provider_ref.clone(), status));
    }

    /// What a line says that no transaction here answers to.
    fn unanswered(&mut self, line: &BookLine) {
        if self.rules.is_young(line.at) {
            self.outcome.pending += 1;
            return;
        }
        let code = if self.ours.is_some() { Code::StatusDiffers } else { Code::MissingHere };
        let found = Difference {
            ours: self.state(),
            partners: line.status.to_string(),
            ..difference(code, "status", line)
        };
        self.outcome.differences.push(found);
    }
}

/// What a side that says nothing says.
pub(crate) const NOTHING: &str = "nothing";

/// A difference about a line; the values are still to be said.
fn difference(code: Code, field: &'static str, line: &BookLine) -> Difference {
    Difference {
        code,
        field,
        status: line.status,
        provider_ref: line.provider_ref.clone(),
        ours: String::new(),
        partners: String::new(),
        line: Some(line.line),
        other_order: None,
        at_risk: line.amount.minor(),
        currency: line.currency,
    }
}

/// Differences of money in amount and currency; none if it is the same.
fn money_differs(ours: &Money, line: &BookLine) -> Vec<Difference> {
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

#[cfg(test)]
mod tests;
