//! Owns the comparison of refunds. A transaction may be refunded in parts on several days, so each
//! line is matched with one refund of ours: by the partner's name of the refund if both sides have
//! that name, else by the amount.

use payfold_schemas::finding::{BookLine, Code};
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Status;

use super::super::day_rules::DayPosition;
use super::super::ours::{OurRef, Refund};
use super::{Comparison, Difference, difference, money_differences, part_of_ours};
use crate::compare::payments::MissingItem;

impl Comparison<'_> {
    pub(super) fn compare_refunds(&mut self, lines: &[&BookLine]) {
        let refunds = || lines.iter().filter(|line| line.status == Status::Refunded);
        // A line without a ref may be about a transaction that another line names.
        let about = |this: &Self, line: &BookLine| -> Option<ProviderRef> {
            let ours = this.counterpart(line).map(|ours| ours.provider_ref.clone());
            ours.or_else(|| line.provider_ref.clone())
        };
        let mut refs: Vec<Option<ProviderRef>> = refunds().map(|line| about(self, line)).collect();
        refs.sort_unstable();
        refs.dedup();
        for provider_ref in refs {
            let of_ref: Vec<&BookLine> =
                refunds().filter(|line| about(self, line) == provider_ref).copied().collect();
            self.match_refunds(&of_ref);
        }
        self.add_unlisted_refunds();
    }

    /// Matches all refund lines of a ref with our refunds of the same ref.
    fn match_refunds(&mut self, lines: &[&BookLine]) {
        let Some(ours) = lines.first().and_then(|line| self.counterpart(line)) else {
            lines.iter().for_each(|line| self.add_unmatched(line));
            return;
        };
        let mut left: Vec<&Refund> = ours.refunds.iter().collect();
        let mut unmatched: Vec<&BookLine> = Vec::new();
        for line in lines {
            let index = left
                .iter()
                .position(|refund| has_same_name(refund, line))
                .or_else(|| left.iter().position(|refund| is_same_money(refund, line)));
            match index {
                Some(index) => {
                    let refund = left.remove(index);
                    self.mark_listed(ours, Status::Refunded, Some(refund));
                    self.compare_refund(refund, line);
                }
                None => unmatched.push(line),
            }
        }
        self.add_unmatched_refunds(ours, &left, &unmatched);
    }

    fn compare_refund(&mut self, ours: &Refund, line: &BookLine) {
        let differing = money_differences(&ours.money, line);
        if differing.is_empty() {
            self.outcome.matched += 1;
            self.compare_refund_day(ours, line);
        }
        self.outcome.differences.extend(differing);
    }

    /// Compares the day of a refund, if the records list refunds on the day they are made.
    fn compare_refund_day(&mut self, ours: &Refund, line: &BookLine) {
        match ours.money.at.map(|at| (at, self.rules.day_position(at))) {
            Some((at, DayPosition::OtherDay)) if self.rules.lists.refunds => {
                self.add_time_difference(Code::OtherDay, at, line);
            }
            Some((_, DayPosition::Neighbour)) => self.outcome.cut_off += 1,
            Some((_, DayPosition::OtherDay | DayPosition::Inside | DayPosition::NearEnd))
            | None => {}
        }
    }

    /// Adds refunds of ours and lines that match nothing. If there is exactly one of each, they are
    /// the same refund with two amounts.
    fn add_unmatched_refunds(&mut self, ours: &OurRef, left: &[&Refund], unmatched: &[&BookLine]) {
        if let ([refund], [line]) = (left, unmatched)
            && ours.refunds.len() == 1
        {
            self.mark_listed(ours, Status::Refunded, Some(refund));
            self.outcome.differences.extend(money_differences(&refund.money, line));
            return;
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
            let found = Difference {
                ours: match ours.refunds.is_empty() {
                    true => self.state(),
                    false => format!("{} {}", Status::Refunded, our_amounts.join(" + ")),
                },
                partners: format!("{} {}", line.status, line.amount),
                ..difference(code, "status", line)
            };
            self.outcome.differences.push(found);
        }
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
            let part = Some(part_of_ours(refund));
            let missing = MissingItem { known, status: Status::Refunded, part };
            self.add_missing(missing, refund.money, at);
        }
    }
}

fn has_same_name(ours: &Refund, line: &BookLine) -> bool {
    ours.event_ref.is_some() && ours.event_ref == line.event_ref
}

fn is_same_money(ours: &Refund, line: &BookLine) -> bool {
    let other_names = ours.event_ref.is_some() && line.event_ref.is_some();
    !other_names && money_differences(&ours.money, line).is_empty()
}
