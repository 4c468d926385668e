//! Owns the comparison of payments: each SUCCESS line with the ref it names, and our payments that
//! no line lists.

use std::collections::BTreeSet;

use payfold_schemas::finding::{BookLine, Code};
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;

use super::super::day_rules::DayPosition;
use super::super::difference::{
    Difference, NOTHING, difference, is_same_money, money_differences, time_of,
};
use super::super::other_days::ListedItem;
use super::super::ours::{Money, OurRef};
use super::other_records::Fate;
use super::{Comparison, Item, listed_item};

impl Comparison<'_> {
    pub(super) fn compare_payments(&mut self, lines: &[&BookLine]) {
        let mut compared: BTreeSet<Option<ProviderRef>> = BTreeSet::new();
        for line in self.best_first(lines) {
            if let Some(known) = self.surplus(line, lines) {
                self.add_surplus(line, known);
                continue;
            }
            // A line without a ref may be about a transaction that another line names.
            let about = self.counterpart(line).map(|ours| ours.provider_ref.clone());
            if !compared.insert(about.or_else(|| line.provider_ref.clone())) {
                // A transaction is paid once, so a second SUCCESS line is a difference.
                self.add_repeat(line, 1);
                continue;
            }
            self.count_payment(line);
            self.compare_payment(line, lines);
        }
    }

    /// Counts a payment of a known order, and whether the order has a notice.
    fn count_payment(&mut self, line: &BookLine) {
        let Some(ours) = self.ours.filter(|_| !self.rules.is_young(line.at)) else { return };
        self.outcome.payments += 1;
        self.outcome.unnoticed += u64::from(!ours.refs.iter().any(|known| known.noticed));
    }

    /// The SUCCESS lines. Lines that agree with our amount and currency come first, so of two lines
    /// with the same ref the agreeing line is matched.
    fn best_first<'l>(&self, lines: &[&'l BookLine]) -> Vec<&'l BookLine> {
        let mut payments: Vec<&BookLine> =
            lines.iter().filter(|line| line.status == Status::Success).copied().collect();
        let agrees = |line: &BookLine| {
            let ours = self.counterpart(line).map_or(&[][..], |ours| &ours.paid);
            ours.iter().any(|money| is_same_money(money, line))
        };
        payments.sort_by_key(|line| {
            (!agrees(line), self.item_of(line).is_none(), self.other_order(line).is_some())
        });
        payments
    }

    fn compare_payment(&mut self, line: &BookLine, lines: &[&BookLine]) {
        let Some(ours) = self.counterpart(line) else {
            return self.match_other_ref(line, lines);
        };
        self.mark_listed(ours, Status::Success, None);
        self.check_named_order(line);
        if let Some(other_order) = ours.shared_with.clone() {
            let found = Difference {
                ours: format!("also of order {other_order}"),
                partners: "of this order".to_owned(),
                other_order: Some(other_order),
                ..difference(Code::RefOnTwoOrders, "providerRef", line)
            };
            self.outcome.differences.push(found);
        }
        if !ours.paid.is_empty() {
            self.compare_paid(ours, line);
        } else if ours.is_known_by_refunds() {
            self.compare_implied(ours, line);
        } else {
            self.compare_claimed(ours, line);
        }
    }

    /// Adds a difference if a line that is matched by its ref names another order than ours.
    pub(super) fn check_named_order(&mut self, line: &BookLine) {
        if let Some(theirs) = self.other_order(line) {
            self.outcome.differences.push(Difference {
                ours: "of this order".to_owned(),
                partners: format!("of order {theirs}"),
                other_order: Some(theirs.clone()),
                ..difference(Code::RefOnTwoOrders, "providerRef", line)
            });
        }
    }

    /// Compares a payment that both sides have.
    fn compare_paid(&mut self, ours: &OurRef, line: &BookLine) {
        let (rules, theirs) = (self.rules, time_of(line));
        let differing = |money: &Money| {
            let time = money.at.filter(|at| !rules.agree(*at, theirs));
            (money_differences(money, line), time)
        };
        // Notices and answers may state several amounts: the one nearest to the partner's line is
        // compared.
        let nearest = ours.paid.iter().map(differing).min_by_key(|(m, t)| (m.len(), t.is_some()));
        let Some((money, time)) = nearest else { return };
        let item = Item { known: ours, refund: None };
        if !money.is_empty() {
            self.outcome.differences.extend(money);
            return self.add_double(item, line, None);
        }
        self.outcome.matched += 1;
        let is_dated = ours.paid.iter().any(|money| money.at.is_some());
        let dated = self.time_of_item(item).filter(|_| is_dated);
        let position = dated.map(|at| rules.day_position(at));
        self.outcome.cut_off += u64::from(position == Some(DayPosition::Neighbour));
        let apart = dated.filter(|_| position == Some(DayPosition::OtherDay));
        let otherwise = apart.map(|at| other_day(ours, None, at, line));
        self.add_double(item, line, otherwise);
        if let Some(at) = time.filter(|_| apart.is_none()) {
            self.outcome.differences.push(time_difference(Code::TimeDiffers, at, line));
        }
    }

    /// Compares a payment that we know by its refunds only. A full refund implies the payment, but
    /// not when it was paid. A partial refund does not imply it: the order still waits for its
    /// payment.
    fn compare_implied(&mut self, ours: &OurRef, line: &BookLine) {
        let differing = implied_differences(ours, line);
        if !differing.is_empty() {
            self.outcome.differences.extend(differing);
        } else if ours.is_returned {
            self.outcome.matched += 1;
        } else {
            self.add_unmatched(line);
        }
    }

    /// Compares a payment that only has notices that don't count.
    fn compare_claimed(&mut self, ours: &OurRef, line: &BookLine) {
        if self.rules.is_young(line.at) {
            self.outcome.pending += 1;
            return;
        }
        let nearest = ours.claimed.iter().map(|money| money_differences(money, line));
        match nearest.min_by_key(Vec::len) {
            Some(differing) if !differing.is_empty() => {
                self.outcome.differences.extend(differing);
            }
            Some(_) | None => self.add_unmatched(line),
        }
    }

    /// Matches a line with an unknown ref. If the order has a payment with another ref, and no line
    /// names that ref, the line is about that payment.
    fn match_other_ref(&mut self, line: &BookLine, lines: &[&BookLine]) {
        let named = |known: &OurRef| lines.iter().any(|other| self.is_about(other, known));
        let paid = self.ours.and_then(|ours| {
            let unnamed = |known: &&OurRef| !known.paid.is_empty() && !named(known);
            ours.refs.iter().filter(unnamed).find(|known| {
                let item = Item { known, refund: None };
                let at = self.time_of_item(item);
                self.may_be_of_day(item, at, line) && !self.is_listed_on_other_day(item)
            })
        });
        let taken = |known: &&OurRef| self.is_listed(known, Status::Success);
        let Some(known) = paid.filter(|known| !taken(known)) else {
            return self.add_unmatched(line);
        };
        self.mark_listed(known, Status::Success, None);
        self.outcome.differences.push(Difference {
            ours: known.provider_ref.to_string(),
            partners: line.provider_ref.as_ref().map_or(NOTHING.to_owned(), ToString::to_string),
            ..difference(Code::RefDiffers, "providerRef", line)
        });
        let nearest =
            known.paid.iter().map(|money| money_differences(money, line)).min_by_key(Vec::len);
        self.outcome.differences.extend(nearest.unwrap_or_default());
    }

    /// Adds our payments that no line lists.
    pub(super) fn add_unlisted_payments(&mut self) {
        let Some(order) = self.ours else { return };
        for known in &order.refs {
            let listed = self.is_listed(known, Status::Success);
            let Some(money) = known.paid.first() else { continue };
            if listed || !self.rules.lists.has(Status::Success) {
                continue;
            }
            self.add_missing(Item { known, refund: None }, *money, known.paid_at(order));
        }
    }

    /// Adds a payment or refund of ours that no line lists: missing, pending, or left to another
    /// day's records, by when it happened and what these list.
    pub(super) fn add_missing(&mut self, item: Item<'_>, money: Money, at: Time) {
        let ListedItem { provider_ref, status, part } = listed_item(item);
        if self.rules.contains(at) {
            self.outcome.unlisted.push(listed_item(item));
        }
        let found = |code| Difference {
            code,
            field: "status",
            status,
            provider_ref: Some(provider_ref),
            part,
            ours: format!("{status} {} {}", money.amount, money.currency),
            partners: NOTHING.to_owned(),
            line: None,
            other_order: None,
            known: 1,
            at_risk: money.amount.minor(),
            currency: money.currency,
        };
        match self.fate_of_unlisted(item, at) {
            Fate::Nothing => {}
            Fate::Missing | Fate::WaitsForTomorrow if self.rules.is_young(at) => {
                self.outcome.pending += 1;
            }
            Fate::Missing => self.outcome.differences.push(found(Code::MissingThere)),
            Fate::WaitsForTomorrow => {
                let cut_off = Difference { at_risk: 0, ..found(Code::CutOff) };
                self.outcome.differences.push(cut_off);
            }
            Fate::MissingOn(_) if self.rules.is_young(at) => self.outcome.pending += 1,
            Fate::MissingOn(day) => self.outcome.left_over.push((day, found(Code::MissingThere))),
        }
    }
}

/// The differences of a line from the amount that notices state, else from the requested amount,
/// else from the refunds: a refund can't exceed the payment.
fn implied_differences(ours: &OurRef, line: &BookLine) -> Vec<Difference> {
    for amounts in [&ours.claimed, &ours.implied] {
        let nearest =
            amounts.iter().map(|money| money_differences(money, line)).min_by_key(Vec::len);
        let differing = nearest.unwrap_or_default();
        if !differing.is_empty() {
            return differing;
        }
    }
    let is_too_small =
        |refund: &Money| refund.currency != line.currency || refund.amount > line.amount;
    let refund = ours.largest_refund().filter(|_| ours.implied.is_empty());
    refund.filter(is_too_small).map_or_else(Vec::new, |refund| money_differences(&refund, line))
}

/// The difference of a line of this day about a payment or refund of another day. It names our ref,
/// whether or not the line does.
pub(super) fn other_day(
    ours: &OurRef,
    part: Option<String>,
    at: Time,
    line: &BookLine,
) -> Difference {
    let provider_ref = Some(ours.provider_ref.clone());
    Difference { provider_ref, part, ..time_difference(Code::OtherDay, at, line) }
}

/// A difference of the times, which puts no money at risk.
fn time_difference(code: Code, at: Time, line: &BookLine) -> Difference {
    Difference {
        ours: at.to_string(),
        partners: time_of(line).to_string(),
        at_risk: 0,
        ..difference(code, "paidAt", line)
    }
}
