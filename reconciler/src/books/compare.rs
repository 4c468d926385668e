//! Owns the comparison of one order with the partner's lines of it. Pure: which lines agree, what differs in which
//! field, and what may not be missed yet. Invariant: every line ends up matched, pending, or in a difference, and so does
//! every payment of ours that the day's records should list.

mod payments;
mod refunds;

use payfold_schemas::finding::{BookLine, Code};
use payfold_schemas::ids::{EventRef, OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};

use super::ours::{Money, OurOrder, OurRef, Refund};
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
    /// Of which of its refunds: a transaction may be refunded in parts.
    pub part: Option<String>,
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
    /// What of ours a line of these records speaks of.
    pub listed: Vec<Spoken>,
    /// What of it is of the day after: that day's records won't list it again.
    pub early: Vec<Spoken>,
    /// Lines that agree.
    pub matched: u64,
    /// Lines or payments too young to be missed.
    pub pending: u64,
    /// Payments of a neighbouring day that these records list.
    pub cut_off: u64,
    /// Payments that these records list, of an order that is known here.
    pub payments: u64,
    /// Those of them that no notice told anything of.
    pub unnoticed: u64,
}

/// A transaction, what became of it, and of a refund which one.
pub type Spoken = (ProviderRef, Status, Option<String>);

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
    comparison.merged()
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
                Some(last) if content(last) == content(line) => self.repeated(line),
                _ => kept.push(line),
            }
        }
        kept
    }

    fn repeated(&mut self, line: &BookLine) {
        let money_moved = matches!(line.status, Status::Success | Status::Refunded);
        self.outcome.differences.push(Difference {
            ours: "once".to_owned(),
            at_risk: if money_moved { line.amount.minor() } else { 0 },
            ..difference(Code::DuplicatedThere, "providerRef", line)
        });
    }

    /// FAILED and EXPIRED: they contradict money that moved, unless the records list that too.
    fn ends(&mut self, lines: &[&BookLine]) {
        let is_end = |status| matches!(status, Status::Failed | Status::Expired);
        for line in lines.iter().filter(|line| is_end(line.status)) {
            let is_told = |told: &Difference| {
                (told.status, &told.provider_ref) == (line.status, &line.provider_ref)
                    && told.code == Code::StatusDiffers
            };
            if self.outcome.differences.iter().any(is_told) {
                continue;
            }
            let paid = self.counterpart(line).filter(|ours| ours.is_paid());
            let listed = |ours: &OurRef| {
                lines.iter().any(|other| !is_end(other.status) && self.speaks_of(other, ours))
            };
            match paid {
                Some(ours) if !listed(ours) => {
                    self.listed(ours, Status::Success, None);
                    let found = Difference {
                        ours: self.state(),
                        partners: line.status.to_string(),
                        at_risk: ours.money().map_or(0, |money| money.amount.minor()),
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

    /// A line speaks of our payment or end, or of this refund of ours.
    fn listed(&mut self, ours: &OurRef, status: Status, refund: Option<&Refund>) {
        let at = match refund {
            Some(refund) => refund.money.at,
            None => ours.paid.iter().filter_map(|money| money.at).min(),
        };
        let spoken = (ours.provider_ref.clone(), status, refund.map(part_of_ours));
        if at.is_some_and(|at| self.rules.is_head_of_tomorrow(at)) {
            self.outcome.early.push(spoken.clone());
        }
        self.outcome.listed.push(spoken);
    }

    /// Whether a line speaks of a ref of ours in this status.
    fn is_listed(&self, ours: &OurRef, status: Status) -> bool {
        self.outcome.is_listed(&ours.provider_ref, status)
    }

    /// One difference of each name: what is there more than once is one finding, with all its money.
    fn merged(mut self) -> Outcome {
        let mut merged: Vec<(Difference, u64)> = Vec::new();
        for difference in std::mem::take(&mut self.outcome.differences) {
            match merged.iter_mut().find(|(known, _)| has_one_name(known, &difference)) {
                Some((known, times)) => {
                    known.at_risk = known.at_risk.saturating_add(difference.at_risk);
                    known.line = known.line.min(difference.line);
                    *times += 1;
                }
                None => merged.push((difference, 1)),
            }
        }
        let told = |(difference, times): (Difference, u64)| match (difference.code, times) {
            (Code::DuplicatedThere, _) => {
                Difference { partners: format!("{} times", times + 1), ..difference }
            }
            (_, 1) => difference,
            (Code::MissingThere, _) => {
                Difference { ours: format!("{times} times {}", difference.ours), ..difference }
            }
            _ => Difference {
                partners: format!("{times} times {}", difference.partners),
                ..difference
            },
        };
        self.outcome.differences = merged.into_iter().map(told).collect();
        self.outcome
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

impl Outcome {
    /// Whether a line speaks of this transaction in this status.
    pub(crate) fn is_listed(&self, provider_ref: &ProviderRef, status: Status) -> bool {
        self.listed.iter().any(|(named, said, _)| (named, *said) == (provider_ref, status))
    }
}

/// Whether two differences would be one finding.
fn has_one_name(a: &Difference, b: &Difference) -> bool {
    (a.code, a.field, a.status) == (b.code, b.field, b.status)
        && (&a.provider_ref, &a.part) == (&b.provider_ref, &b.part)
}

/// Which of a transaction's refunds it is: by the partner's name of it, else by its money.
fn part(event_ref: Option<&EventRef>, amount: Amount, currency: Currency) -> String {
    event_ref.map_or_else(|| format!("{amount} {currency}"), ToString::to_string)
}

fn part_of_ours(refund: &Refund) -> String {
    part(refund.event_ref.as_ref(), refund.money.amount, refund.money.currency)
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
        part: (line.status == Status::Refunded)
            .then(|| part(line.event_ref.as_ref(), line.amount, line.currency)),
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
