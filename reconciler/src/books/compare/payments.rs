//! Owns the payments of the comparison: each SUCCESS line against the ref it names, and ours that no line names.

use std::collections::BTreeSet;

use payfold_schemas::finding::{BookLine, Code};
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;

use super::super::ours::{Money, OurRef};
use super::super::rules::Lies;
use super::{Comparison, Difference, NOTHING, difference, money_differs};

impl Comparison<'_> {
    pub(super) fn payments(&mut self, lines: &[&BookLine]) {
        let mut settled: BTreeSet<Option<ProviderRef>> = BTreeSet::new();
        for line in self.best_first(lines) {
            // A line that names none may be about one that another line names.
            let about = self.counterpart(line).map(|ours| ours.provider_ref.clone());
            if !settled.insert(about.or_else(|| line.provider_ref.clone())) {
                // A transaction is paid once.
                self.outcome.differences.push(Difference {
                    ours: "once".to_owned(),
                    ..difference(Code::DuplicatedThere, "providerRef", line)
                });
                continue;
            }
            self.notice(line);
            self.payment(line, lines);
        }
    }

    /// Counts a payment of an order that is known, and whether a notice told anything of it.
    fn notice(&mut self, line: &BookLine) {
        let Some(ours) = self.ours.filter(|_| !self.rules.is_young(line.at)) else { return };
        self.outcome.payments += 1;
        self.outcome.unnoticed += u64::from(!ours.refs.iter().any(|known| known.noticed));
    }

    /// SUCCESS lines, of one ref that first which agrees with ours in amount and currency.
    fn best_first<'l>(&self, lines: &[&'l BookLine]) -> Vec<&'l BookLine> {
        let mut payments: Vec<&BookLine> =
            lines.iter().filter(|line| line.status == Status::Success).copied().collect();
        let agrees = |line: &BookLine| {
            let ours = self.counterpart(line).map_or(&[][..], |ours| &ours.paid);
            ours.iter().any(|money| money_differs(money, line).is_empty())
        };
        payments.sort_by_key(|line| !agrees(line));
        payments
    }

    fn payment(&mut self, line: &BookLine, lines: &[&BookLine]) {
        let Some(ours) = self.counterpart(line) else {
            return self.other_ref(line, lines);
        };
        self.listed(ours, Status::Success, None);
        self.of_other_order(line);
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
            self.paid(ours, line);
        } else if ours.is_known_by_refunds() {
            self.implied(ours, line);
        } else {
            self.claimed(ours, line);
        }
    }

    /// Lines that are matched by their ref may name an order, and then it has to be ours.
    fn of_other_order(&mut self, line: &BookLine) {
        let named = line.order_id.as_ref().zip(self.ours.map(|ours| &ours.order_id));
        if let Some((theirs, ours)) = named
            && theirs != ours
        {
            self.outcome.differences.push(Difference {
                ours: "of this order".to_owned(),
                partners: format!("of order {theirs}"),
                other_order: Some(theirs.clone()),
                ..difference(Code::RefOnTwoOrders, "providerRef", line)
            });
        }
    }

    /// Both say it is paid.
    fn paid(&mut self, ours: &OurRef, line: &BookLine) {
        let (rules, theirs) = (self.rules, line.paid_at.unwrap_or(line.at));
        let differing = |money: &Money| {
            let time = money.at.filter(|at| !rules.agree(*at, theirs));
            (money_differs(money, line), time)
        };
        // Of several tellings the one that is nearest to the partner's.
        let nearest = ours.paid.iter().map(differing).min_by_key(|(m, t)| (m.len(), t.is_some()));
        let Some((money, time)) = nearest else { return };
        if !money.is_empty() {
            self.outcome.differences.extend(money);
            return;
        }
        self.outcome.matched += 1;
        let dated = ours.paid.iter().find_map(|money| money.at);
        match dated.map(|at| (at, rules.lies(at))) {
            Some((at, Lies::Elsewhere)) => {
                self.time_differs(Code::OtherDay, at, line);
                return;
            }
            Some((_, Lies::Neighbour)) => self.outcome.cut_off += 1,
            Some((_, Lies::Inside | Lies::NearEnd)) | None => {}
        }
        if let Some(at) = time {
            self.time_differs(Code::TimeDiffers, at, line);
        }
    }

    pub(super) fn time_differs(&mut self, code: Code, at: Time, line: &BookLine) {
        self.outcome.differences.push(Difference {
            ours: at.to_string(),
            partners: line.paid_at.unwrap_or(line.at).to_string(),
            at_risk: 0,
            ..difference(code, "paidAt", line)
        });
    }

    /// They say it is paid; here it is known by refunds alone. A refund in full implies the payment, and when it was paid is
    /// not known. A refund of a part does not imply it: the order still waits for its payment.
    fn implied(&mut self, ours: &OurRef, line: &BookLine) {
        let differing = implied_differs(ours, line);
        if !differing.is_empty() {
            self.outcome.differences.extend(differing);
        } else if ours.is_returned {
            self.outcome.matched += 1;
        } else {
            self.unanswered(line);
        }
    }

    /// They say it is paid; what was told here does not count.
    fn claimed(&mut self, ours: &OurRef, line: &BookLine) {
        if self.rules.is_young(line.at) {
            self.outcome.pending += 1;
            return;
        }
        let told = ours.claimed.iter().map(|money| money_differs(money, line));
        match told.min_by_key(Vec::len) {
            Some(differing) if !differing.is_empty() => {
                self.outcome.differences.extend(differing);
            }
            Some(_) | None => self.unanswered(line),
        }
    }

    /// A ref that is not known here. If the order is paid on another that no line names, that is the one.
    fn other_ref(&mut self, line: &BookLine, lines: &[&BookLine]) {
        let named = |known: &OurRef| lines.iter().any(|other| self.speaks_of(other, known));
        let paid = self.ours.and_then(|ours| {
            let unnamed = |known: &&OurRef| !known.paid.is_empty() && !named(known);
            ours.refs.iter().find(unnamed)
        });
        let taken = |known: &&OurRef| self.is_listed(known, Status::Success);
        let Some(known) = paid.filter(|known| !taken(known)) else {
            return self.unanswered(line);
        };
        self.listed(known, Status::Success, None);
        self.outcome.differences.push(Difference {
            ours: known.provider_ref.to_string(),
            partners: line.provider_ref.as_ref().map_or(NOTHING.to_owned(), ToString::to_string),
            ..difference(Code::RefDiffers, "providerRef", line)
        });
        let nearest =
            known.paid.iter().map(|money| money_differs(money, line)).min_by_key(Vec::len);
        self.outcome.differences.extend(nearest.unwrap_or_default());
    }

    /// Ours that no line speaks of.
    pub(super) fn unlisted(&mut self) {
        let Some(order) = self.ours else { return };
        for known in &order.refs {
            let listed = self.is_listed(known, Status::Success);
            let Some(money) = known.paid.first() else { continue };
            if listed || !self.rules.lists.has(Status::Success) {
                continue;
            }
            let at = known.paid_at(order);
            self.missing_there((known, Status::Success, None), *money, at);
        }
    }

    pub(super) fn missing_there(
        &mut self,
        (known, status, part): (&OurRef, Status, Option<String>),
        money: Money,
        at: Time,
    ) {
        let found = |code| Difference {
            code,
            field: "status",
            status,
            provider_ref: Some(known.provider_ref.clone()),
            part: part.clone(),
            ours: format!("{status} {} {}", money.amount, money.currency),
            partners: NOTHING.to_owned(),
            line: None,
            other_order: None,
            at_risk: money.amount.minor(),
            currency: money.currency,
        };
        match self.rules.lies(at) {
            Lies::Inside | Lies::NearEnd if self.rules.is_young(at) => self.outcome.pending += 1,
            Lies::Inside => self.outcome.differences.push(found(Code::MissingThere)),
            Lies::NearEnd => {
                let cut_off = Difference { at_risk: 0, ..found(Code::CutOff) };
                self.outcome.differences.push(cut_off);
            }
            Lies::Neighbour if self.rules.is_tail_of_yesterday(at) => {
                self.outcome.left_over.push(found(Code::MissingThere));
            }
            Lies::Neighbour | Lies::Elsewhere => {}
        }
    }
}

/// How a line differs from what notices say was paid, else from what was asked for, else from what went back: more can't
/// go back than was paid.
fn implied_differs(ours: &OurRef, line: &BookLine) -> Vec<Difference> {
    for amounts in [&ours.claimed, &ours.implied] {
        let nearest = amounts.iter().map(|money| money_differs(money, line)).min_by_key(Vec::len);
        let differing = nearest.unwrap_or_default();
        if !differing.is_empty() {
            return differing;
        }
    }
    let is_too_small =
        |refund: &Money| refund.currency != line.currency || refund.amount > line.amount;
    let refund = ours.largest_refund().filter(|_| ours.implied.is_empty());
    refund.filter(is_too_small).map_or_else(Vec::new, |refund| money_differs(&refund, line))
}
