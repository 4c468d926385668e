//! Owns the comparison of refunds. A transaction may be refunded in parts on several days, so each
//! line is matched with one refund of ours.

use payfold_schemas::finding::{BookLine, Code};
use payfold_schemas::ids::{EventRef, ProviderRef};
use payfold_schemas::ipn::Status;

use super::super::day_rules::DayPosition;
use super::super::difference::{Difference, NOTHING, difference, is_same_money, money_differences};
use super::super::ours::{OurRef, Refund};
use super::payments::other_day;
use super::{Comparison, Item, part_of_ours};

impl Comparison<'_> {
    pub(super) fn compare_refunds(&mut self, lines: &[&BookLine]) {
        let (mut refunds, mut surplus) = (Vec::new(), Vec::new());
        for line in lines.iter().filter(|line| line.status == Status::Refunded) {
            match self.surplus(line, lines) {
                Some(known) => surplus.push((*line, known)),
                None => refunds.push(*line),
            }
        }
        // A line without a ref may be about a transaction that another line names.
        let about = |this: &Self, line: &BookLine| -> Option<ProviderRef> {
            let ours = this.counterpart(line).map(|ours| ours.provider_ref.clone());
            ours.or_else(|| line.provider_ref.clone())
        };
        let mut refs: Vec<Option<ProviderRef>> =
            refunds.iter().map(|line| about(self, line)).collect();
        refs.sort_unstable();
        refs.dedup();
        for provider_ref in refs {
            let of_ref: Vec<&BookLine> =
                refunds.iter().filter(|line| about(self, line) == provider_ref).copied().collect();
            self.match_refunds(&of_ref);
        }
        self.add_unlisted_refunds();
        surplus.into_iter().for_each(|(line, known)| self.add_surplus(line, known));
    }

    /// Matches all refund lines of a ref with our refunds of the same ref.
    fn match_refunds(&mut self, lines: &[&BookLine]) {
        let Some(ours) = lines.first().and_then(|line| self.counterpart(line)) else {
            lines.iter().for_each(|line| self.add_unmatched(line));
            return;
        };
        let (mut left, mut unmatched): (Vec<&Refund>, Vec<&BookLine>) =
            (ours.refunds.iter().collect(), Vec::new());
        for line in lines {
            match self.item_of(line).and_then(|item| item.refund) {
                Some(refund) => {
                    left.retain(|other| !std::ptr::eq(*other, refund));
                    self.mark_listed(ours, Status::Refunded, Some(refund));
                    self.check_named_order(line);
                    self.compare_refund(ours, refund, line);
                }
                None => unmatched.push(line),
            }
        }
        self.add_unmatched_refunds(ours, &left, &unmatched);
    }

    fn compare_refund(&mut self, known: &OurRef, refund: &Refund, line: &BookLine) {
        let differing = refund_differences(known, refund, line);
        if differing.is_empty() {
            self.outcome.matched += 1;
            self.compare_refund_day(known, refund, line);
        } else {
            self.add_double(Item { known, refund: Some(refund) }, line, None);
        }
        self.outcome.differences.extend(differing);
    }

    /// Compares the day of a refund, if the records list refunds on the day they are made.
    fn compare_refund_day(&mut self, known: &OurRef, refund: &Refund, line: &BookLine) {
        let Some(at) = refund.money.at else { return };
        let position = self.rules.day_position(at);
        self.outcome.cut_off += u64::from(position == DayPosition::Neighbour);
        let is_apart = position == DayPosition::OtherDay && self.rules.lists.refunds;
        let part = || Some(part_of_ours(known, refund));
        let otherwise = is_apart.then(|| other_day(known, part(), at, line));
        self.add_double(Item { known, refund: Some(refund) }, line, otherwise);
    }

    /// Adds refunds of ours and lines that match nothing. If there is exactly one of each, they are
    /// the same refund with two amounts or two names.
    fn add_unmatched_refunds(&mut self, ours: &OurRef, left: &[&Refund], unmatched: &[&BookLine]) {
        if let ([refund], [line]) = (left, unmatched)
            && ours.refunds.len() == 1
            && self.may_be_the_refund(ours, refund, line)
        {
            let differing = refund_differences(ours, refund, line);
            if !differing.is_empty() || self.has_other_name(refund, line) {
                self.mark_listed(ours, Status::Refunded, Some(refund));
                self.outcome.differences.extend(differing);
                return;
            }
        }
        self.add_missing_refunds(ours, left);
        for line in unmatched {
            self.mark_listed(ours, Status::Refunded, None);
            if self.rules.is_young(line.at) {
                self.outcome.pending += 1;
                continue;
            }
            // Without any refund here the states of the order differ; with other refunds here this
            // one is missing.
            let code = match ours.refunds.is_empty() {
                true => Code::StatusDiffers,
                false => Code::MissingHere,
            };
            let our_amounts: Vec<_> =
                ours.refunds.iter().map(|r| r.money.amount.to_string()).collect();
            let is_same = |refund: &Refund| is_same_money(&refund.money, line);
            let note = if ours.refunds.iter().any(is_same) { ", another refund" } else { "" };
            let found = Difference {
                ours: match ours.refunds.is_empty() {
                    true => self.state(),
                    false => format!("{} {}{note}", Status::Refunded, our_amounts.join(" + ")),
                },
                partners: format!("{} {}", line.status, line.amount),
                ..difference(code, "status", line)
            };
            self.outcome.differences.push(found);
        }
    }

    /// Whether a line may be about a refund that differs in money or name. Not if it is another
    /// day's, or if both differ.
    fn may_be_the_refund(&self, known: &OurRef, refund: &Refund, line: &BookLine) -> bool {
        let item = Item { known, refund: Some(refund) };
        let has_other_name = refund.event_ref.is_some()
            && line.event_ref.is_some()
            && refund.event_ref != line.event_ref;
        self.may_be_of_day(item, refund.money.at, line)
            && !self.is_listed_on_other_day(item)
            && (!has_other_name || is_same_money(&refund.money, line))
    }

    /// Adds a difference if a line of the money of a refund gives it another name; returns false if
    /// the notice of another refund may be on its way.
    fn has_other_name(&mut self, refund: &Refund, line: &BookLine) -> bool {
        if self.rules.is_young(line.at) {
            return false;
        }
        let name =
            |name: &Option<EventRef>| name.as_ref().map_or(NOTHING.to_owned(), |n| n.to_string());
        self.outcome.differences.push(Difference {
            ours: name(&refund.event_ref),
            partners: name(&line.event_ref),
            ..difference(Code::RefDiffers, "eventRef", line)
        });
        true
    }

    /// Adds our refunds of refs that no refund line is about.
    fn add_unlisted_refunds(&mut self) {
        let Some(order) = self.ours else { return };
        for known in &order.refs {
            if !self.is_listed(known, Status::Refunded) {
                self.add_missing_refunds(known, &known.refunds.iter().collect::<Vec<_>>());
            }
        }
    }

    /// Adds refunds of ours that no line lists, as far as they are dated.
    fn add_missing_refunds(&mut self, known: &OurRef, left: &[&Refund]) {
        if !self.rules.lists.has(Status::Refunded) {
            return;
        }
        for refund in left {
            let Some(at) = refund.money.at else { continue };
            self.add_missing(Item { known, refund: Some(refund) }, refund.money, at);
        }
    }
}

/// The differences in amount and currency of a refund, however the line names it; empty if the
/// money is the same.
fn refund_differences(known: &OurRef, refund: &Refund, line: &BookLine) -> Vec<Difference> {
    let part = part_of_ours(known, refund);
    let found = money_differences(&refund.money, line).into_iter();
    found.map(|found| Difference { part: Some(part.clone()), ..found }).collect()
}
