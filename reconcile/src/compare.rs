//! Owns the comparison of one order with the partner's lines of the order: which lines agree, which
//! fields differ, and which payments are too young to be missing. Pure. Invariant: every line ends
//! up matched, pending, or in a difference. So does every payment of ours that the day's records
//! should list.

mod matching;
mod other_records;
mod payments;
mod refunds;

use std::collections::BTreeMap;

use chrono::NaiveDate;
use payfold_schemas::finding::{BookLine, Code};
use payfold_schemas::ids::{OrderId, ProviderRef};
use payfold_schemas::ipn::Status;

use super::day_rules::DayRules;
use super::difference::{
    Difference, DoubledItem, NOTHING, difference, how_often, is_same_finding, refund_part,
};
use super::other_days::{ListedItem, OtherRecords};
use super::ours::{OurOrder, OurRef, Refund};

/// The result of comparing one order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparisonOutcome {
    /// The differences.
    pub differences: Vec<Difference>,
    /// What is missing on another day, with that day: its records left it to these.
    pub(crate) left_over: Vec<(NaiveDate, Difference)>,
    /// Our payments and refunds that the lines list.
    pub(crate) listed: Vec<ListedItem>,
    /// The listed items of other days.
    pub(crate) apart: Vec<ListedItem>,
    /// The items of this day that no line lists.
    pub(crate) unlisted: Vec<ListedItem>,
    /// The items that another day's records list, too.
    pub(crate) doubled: Vec<DoubledItem>,
    /// Number of lines that agree.
    pub(crate) matched: u64,
    /// Number of lines or payments within the grace period.
    pub(crate) pending: u64,
    /// Number of payments of a neighbouring day that these records list.
    pub(crate) cut_off: u64,
    /// Number of payments that these records list, if the order is known.
    pub payments: u64,
    /// Number of these payments that have no notice.
    pub(crate) unnoticed: u64,
}

/// Compares an order, or none, with all lines that name it. The order of the lines does not matter.
pub(crate) fn compare(
    ours: Option<&OurOrder>,
    lines: &[BookLine],
    rules: &DayRules,
    others: Option<OtherRecords<'_>>,
) -> ComparisonOutcome {
    let (matches, outcome) = (BTreeMap::new(), ComparisonOutcome::default());
    let mut comparison = Comparison { ours, rules, others, matches, outcome };
    let mut sorted: Vec<&BookLine> = lines.iter().collect();
    // Lines that name their item, and differ at most in the order they name, are repeats of each
    // other. The one that names this order or none comes first and is kept.
    let named = |line: &BookLine| (comparison.other_order(line).cloned(), line.line);
    sorted.sort_by(|a, b| content(a).cmp(&content(b)).then_with(|| named(a).cmp(&named(b))));
    let lines = comparison.remove_repeats(sorted);
    comparison.match_lines(&lines);
    comparison.compare_payments(&lines);
    comparison.compare_refunds(&lines);
    comparison.compare_ends(&lines);
    comparison.add_unlisted_payments();
    comparison.merge_differences()
}

/// The content of a line: everything but its number and the order it names.
fn content(line: &BookLine) -> impl Ord + '_ {
    let BookLine { provider_ref, status, amount, currency, at, paid_at, event_ref, .. } = line;
    (provider_ref, status, event_ref, amount, currency, at, paid_at)
}

/// Whether a line says which payment or refund it is about, so that it can be there only once.
fn names_its_item(line: &BookLine) -> bool {
    match line.status {
        Status::Success => line.provider_ref.is_some(),
        Status::Refunded => line.event_ref.is_some(),
        Status::Failed | Status::Expired => true,
    }
}

/// A payment or refund of ours.
#[derive(Clone, Copy)]
struct Item<'a> {
    known: &'a OurRef,
    /// `None` if it is the payment.
    refund: Option<&'a Refund>,
}

/// A comparison in progress.
struct Comparison<'a> {
    ours: Option<&'a OurOrder>,
    rules: &'a DayRules,
    others: Option<OtherRecords<'a>>,
    /// The payment or refund of ours that a line is about, by the address of the line.
    matches: BTreeMap<*const BookLine, Item<'a>>,
    outcome: ComparisonOutcome,
}

impl<'a> Comparison<'a> {
    /// Returns each line once, and adds a difference for each repeat. Equal lines that do not name
    /// their item are all returned: they may be about several payments or refunds.
    fn remove_repeats(&mut self, sorted: Vec<&'a BookLine>) -> Vec<&'a BookLine> {
        let mut kept: Vec<&BookLine> = Vec::with_capacity(sorted.len());
        for line in sorted {
            match kept.last() {
                Some(last) if content(last) == content(line) && names_its_item(line) => {
                    self.add_repeat(line, 1);
                }
                _ => kept.push(line),
            }
        }
        kept
    }

    /// Adds a difference for a line that is there more often than the `known` times we have it.
    fn add_repeat(&mut self, line: &BookLine, known: usize) {
        let money_moved = matches!(line.status, Status::Success | Status::Refunded);
        self.outcome.differences.push(Difference {
            known: known.max(1),
            at_risk: if money_moved { line.amount.minor() } else { 0 },
            ..difference(Code::DuplicatedThere, "providerRef", line)
        });
        if money_moved {
            self.check_named_order(line);
        }
    }

    /// Adds a line that is one too many: pending while it is young, because the notice of another
    /// payment or refund may be on its way.
    fn add_surplus(&mut self, line: &BookLine, known: usize) {
        if self.rules.is_young(line.at) {
            self.outcome.pending += 1;
        } else {
            self.add_repeat(line, known);
        }
    }

    /// The order that a line names, if it is another order than ours.
    fn other_order<'l>(&self, line: &'l BookLine) -> Option<&'l OrderId> {
        let (theirs, ours) = line.order_id.as_ref().zip(self.ours)?;
        (*theirs != ours.order_id).then_some(theirs)
    }

    /// Compares FAILED and EXPIRED lines. Such a line contradicts money that moved here, unless the
    /// records list that money too.
    fn compare_ends(&mut self, lines: &[&BookLine]) {
        let is_end = |status| matches!(status, Status::Failed | Status::Expired);
        for line in lines.iter().filter(|line| is_end(line.status)) {
            let is_known_difference = |known: &Difference| {
                (known.status, &known.provider_ref) == (line.status, &line.provider_ref)
                    && known.code == Code::StatusDiffers
            };
            if self.outcome.differences.iter().any(is_known_difference) {
                continue;
            }
            let paid = self.counterpart(line).filter(|ours| ours.is_paid());
            let listed = |ours: &OurRef| {
                lines.iter().any(|other| !is_end(other.status) && self.is_about(other, ours))
            };
            match paid {
                Some(ours) if !listed(ours) => {
                    let payment = Item { known: ours, refund: None };
                    self.outcome.listed.push(listed_item(payment));
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

    fn is_about(&self, line: &BookLine, ours: &OurRef) -> bool {
        self.counterpart(line).is_some_and(|known| known.provider_ref == ours.provider_ref)
    }

    /// The state of our order, as a value of a difference.
    fn state(&self) -> String {
        self.ours.map_or_else(|| NOTHING.to_owned(), |ours| ours.state.to_string())
    }

    /// Records that a line lists our payment or end, or this refund of ours.
    fn mark_listed(&mut self, ours: &OurRef, status: Status, refund: Option<&Refund>) {
        let item = Item { known: ours, refund };
        let is_item = (status == Status::Refunded) == refund.is_some();
        let at = self.time_of_item(item).filter(|_| is_item);
        let item = ListedItem { status, ..listed_item(item) };
        if at.is_some_and(|at| !self.rules.contains(at)) {
            self.outcome.apart.push(item.clone());
        }
        self.outcome.listed.push(item);
    }

    /// Whether a line lists this ref of ours with this status.
    fn is_listed(&self, ours: &OurRef, status: Status) -> bool {
        self.outcome.is_listed(&ours.provider_ref, status)
    }

    /// Merges differences that would be the same finding into one difference. Its money at risk is
    /// the sum of theirs.
    fn merge_differences(mut self) -> ComparisonOutcome {
        let mut merged: Vec<(Difference, usize)> = Vec::new();
        for difference in std::mem::take(&mut self.outcome.differences) {
            match merged.iter_mut().find(|(known, _)| is_same_finding(known, &difference)) {
                Some((known, times)) => {
                    known.at_risk = known.at_risk.saturating_add(difference.at_risk);
                    known.line = known.line.min(difference.line);
                    known.known = known.known.max(difference.known);
                    *times += 1;
                }
                None => merged.push((difference, 1)),
            }
        }
        let count_in_value =
            |(difference, times): (Difference, usize)| match (difference.code, times) {
                (Code::DuplicatedThere, _) => Difference {
                    ours: how_often(difference.known),
                    partners: how_often(difference.known.saturating_add(times)),
                    ..difference
                },
                (_, 1) => difference,
                (Code::MissingThere, _) => {
                    Difference { ours: format!("{times} times {}", difference.ours), ..difference }
                }
                _ => Difference {
                    partners: format!("{times} times {}", difference.partners),
                    ..difference
                },
            };
        self.outcome.differences = merged.into_iter().map(count_in_value).collect();
        self.outcome
    }

    /// Adds a line that no transaction here corresponds to: pending while it is young, else a
    /// difference.
    fn add_unmatched(&mut self, line: &BookLine) {
        if self.rules.is_young(line.at) {
            self.outcome.pending += 1;
            return;
        }
        let code = if self.ours.is_some() { Code::StatusDiffers } else { Code::MissingHere };
        let is_of_other = self.ours.is_some_and(OurOrder::has_moved_money)
            && line.provider_ref.is_some()
            && self.counterpart(line).is_none();
        let note = if is_of_other { ", with another ref" } else { "" };
        let found = Difference {
            ours: format!("{}{note}", self.state()),
            partners: line.status.to_string(),
            ..difference(code, "status", line)
        };
        self.outcome.differences.push(found);
    }
}

impl ComparisonOutcome {
    /// Whether a line lists this transaction with this status.
    pub(crate) fn is_listed(&self, provider_ref: &ProviderRef, status: Status) -> bool {
        self.listed.iter().any(|item| (&item.provider_ref, item.status) == (provider_ref, status))
    }
}

/// An item as the records list it.
fn listed_item(item: Item<'_>) -> ListedItem {
    let status = if item.refund.is_some() { Status::Refunded } else { Status::Success };
    ListedItem {
        provider_ref: item.known.provider_ref.clone(),
        status,
        part: item.refund.map(|refund| part_of_ours(item.known, refund)),
    }
}

/// Names a refund of ours. Of refunds without a name, and of the same money, all but the first have
/// a number: the line of one says nothing of the others. First is what was stated first, because
/// no later statement changes that.
fn part_of_ours(known: &OurRef, refund: &Refund) -> String {
    let Refund { money, event_ref, position } = refund;
    let part = refund_part(event_ref.as_ref(), money.amount, money.currency);
    let comes_before = |other: &&Refund| {
        (other.event_ref.is_none() && event_ref.is_none())
            && (other.money.amount, other.money.currency) == (money.amount, money.currency)
            && other.position < *position
    };
    match known.refunds.iter().filter(comes_before).count() {
        0 => part,
        before => format!("{part}, number {}", before.saturating_add(1)),
    }
}

#[cfg(test)]
mod tests;
