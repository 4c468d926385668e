//! Owns the control totals: how often and how much, by day, currency and status, ours beside theirs. Pure.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use chrono_tz::Tz;
use payfold_schemas::finding::BookLine;
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::run::{ControlTotal, Sum};

use super::compare::Outcome;
use super::ours::{Money, OurOrder};
use super::rules::{Lies, Rules, day_of};

/// Sums on their way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals(BTreeMap<(NaiveDate, Currency, Status), (Sum, Sum)>);

impl Totals {
    /// A line of the partner's, under the day they booked it on.
    pub(crate) fn add_line(&mut self, line: &BookLine, rules: &Rules, zone: Tz) {
        if matches!(line.status, Status::Success | Status::Refunded) {
            // Nearly all are of the day; to look one up in the zone costs more than all the rest here.
            let is_of_day = (rules.from..rules.until).contains(&line.at);
            let day = if is_of_day { rules.day } else { day_of(line.at, zone) };
            let (_, theirs) = self.of((day, line.currency, line.status));
            add(theirs, line.amount);
        }
    }

    /// What an order has of the day; refunds that nobody dated are of it if its records list them.
    pub(crate) fn add_order(&mut self, order: &OurOrder, outcome: &Outcome, rules: &Rules) {
        for known in &order.refs {
            let is_listed = |status| outcome.is_listed(&known.provider_ref, status);
            let at = known.paid_at(order);
            // What nobody dated is of the day that lists it.
            let is_dated = known.paid.iter().any(|money| money.at.is_some());
            let of_day = matches!(rules.lies(at), Lies::Inside | Lies::NearEnd)
                || (!is_dated && is_listed(Status::Success));
            let payment = match known.paid.is_empty() {
                false => known.payment().filter(|_| of_day),
                true => known.payment().filter(|_| is_listed(Status::Success)),
            };
            if let Some(money) = payment {
                self.add_ours(rules.day, Status::Success, money);
            }
            for refund in &known.refunds {
                let of_day = match refund.money.at {
                    Some(at) => matches!(rules.lies(at), Lies::Inside | Lies::NearEnd),
                    None => is_listed(Status::Refunded),
                };
                if of_day {
                    self.add_ours(rules.day, Status::Refunded, refund.money);
                }
            }
        }
    }

    fn add_ours(&mut self, day: NaiveDate, status: Status, money: Money) {
        let (ours, _) = self.of((day, money.currency, status));
        add(ours, money.amount);
    }

    fn of(&mut self, kind: (NaiveDate, Currency, Status)) -> &mut (Sum, Sum) {
        self.0.entry(kind).or_default()
    }

    /// Both together.
    pub(crate) fn merge(&mut self, other: Self) {
        for (kind, (ours, theirs)) in other.0 {
            let (our_sum, their_sum) = self.of(kind);
            for (sum, more) in [(our_sum, ours), (their_sum, theirs)] {
                sum.count = sum.count.saturating_add(more.count);
                sum.amount = sum.amount.saturating_add(more.amount);
            }
        }
    }

    /// As they are told, by day, currency and status.
    pub(crate) fn told(self) -> Vec<ControlTotal> {
        let told =
            |((day, currency, status), (ours, partners)): (
                (NaiveDate, Currency, Status),
                (Sum, Sum),
            )| ControlTotal { day: day.to_string(), currency, status, ours, partners };
        self.0.into_iter().map(told).collect()
    }
}

fn add(sum: &mut Sum, amount: Amount) {
    sum.count = sum.count.saturating_add(1);
    sum.amount = sum.amount.saturating_add(amount.minor());
}
