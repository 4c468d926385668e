//! Owns the refunds of the comparison. A transaction may be refunded in parts on several days, so each line is matched with
//! one refund of ours: by the partner's name of it where both have one, else by its amount.

use payfold_schemas::finding::{BookLine, Code};
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Status;

use super::super::ours::{OurRef, Refund};
use super::super::rules::Lies;
use super::{Comparison, Difference, difference, money_differs, part_of_ours};

impl Comparison<'_> {
    pub(super) fn refunds(&mut self, lines: &[&BookLine]) {
        let refunds = || lines.iter().filter(|line| line.status == Status::Refunded);
        // A line that names none may be about one that another line names.
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
            self.refunds_of(&of_ref);
        }
        self.unlisted_refunds();
    }

    /// All refund lines of one ref.
    fn refunds_of(&mut self, lines: &[&BookLine]) {
        let Some(ours) = lines.first().and_then(|line| self.counterpart(line)) else {
            lines.iter().for_each(|line| self.unanswered(line));
            return;
        };
        let mut left: Vec<&Refund> = ours.refunds.iter().collect();
        let mut unmatched: Vec<&BookLine> = Vec::new();
        for line in lines {
            let place = left
                .iter()
                .position(|refund| is_named_alike(refund, line))
                .or_else(|| left.iter().position(|refund| is_same_money(refund, line)));
            match place {
                Some(place) => {
                    let refund = left.remove(place);
                    self.listed(ours, Status::Refunded, Some(refund));
                    self.refund(refund, line);
                }
                None => unmatched.push(line),
            }
        }
        self.unmatched_refunds(ours, &left, &unmatched);
    }

    fn refund(&mut self, ours: &Refund, line: &BookLine) {
        let differing = money_differs(&ours.money, line);
        if differing.is_empty() {
            self.outcome.matched += 1;
            self.day_of_refund(ours, line);
        }
        self.outcome.differences.extend(differing);
    }

    /// Records that list refunds when they are made list each on its day.
    fn day_of_refund(&mut self, ours: &Refund, line: &BookLine) {
        match ours.money.at.map(|at| (at, self.rules.lies(at))) {
            Some((at, Lies::Elsewhere)) if self.rules.lists.refunds => {
                self.time_differs(Code::OtherDay, at, line);
            }
            Some((_, Lies::Neighbour)) => self.outcome.cut_off += 1,
            Some((_, Lies::Elsewhere | Lies::Inside | Lies::NearEnd)) | None => {}
        }
    }

    fn unmatched_refunds(&mut self, ours: &OurRef, left: &[&Refund], unmatched: &[&BookLine]) {
        if let ([refund], [line]) = (left, unmatched)
            && ours.refunds.len() == 1
        {
            self.listed(ours, Status::Refunded, Some(refund));
            self.outcome.differences.extend(money_differs(&refund.money, line));
            return;
        }
        self.missing_refunds(ours, left);
        for line in unmatched {
            self.listed(ours, Status::Refunded, None);
            if self.rules.is_young(line.at) {
                self.outcome.pending += 1;
                continue;
            }
            // An order that knows of no refund stands elsewhere; one that knows another lacks this one.
            let code = match ours.refunds.is_empty() {
                true => Code::StatusDiffers,
                false => Code::MissingHere,
            };
            let told: Vec<_> = ours.refunds.iter().map(|r| r.money.amount.to_string()).collect();
            let found = Difference {
                ours: match ours.refunds.is_empty() {
                    true => self.state(),
                    false => format!("{} {}", Status::Refunded, told.join(" + ")),
                },
                partners: format!("{} {}", line.status, line.amount),
                ..difference(code, "status", line)
            };
            self.outcome.differences.push(found);
        }
    }

    /// Refunds of refs that no refund line speaks of.
    fn unlisted_refunds(&mut self) {
        let Some(order) = self.ours else { return };
        for known in &order.refs {
            if !self.is_listed(known, Status::Refunded) {
                self.missing_refunds(known, &known.refunds.iter().collect::<Vec<_>>());
            }
        }
    }

    /// Refunds of ours that no line speaks of, as far as they are dated.
    fn missing_refunds(&mut self, known: &OurRef, left: &[&Refund]) {
        if !self.rules.lists.has(Status::Refunded) {
            return;
        }
        for refund in left {
            let Some(at) = refund.money.at else { continue };
            let part = Some(part_of_ours(refund));
            self.missing_there((known, Status::Refunded, part), refund.money, at);
        }
    }
}

fn is_named_alike(ours: &Refund, line: &BookLine) -> bool {
    ours.event_ref.is_some() && ours.event_ref == line.event_ref
}

fn is_same_money(ours: &Refund, line: &BookLine) -> bool {
    let other_names = ours.event_ref.is_some() && line.event_ref.is_some();
    !other_names && money_differs(&ours.money, line).is_empty()
}
