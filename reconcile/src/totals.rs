//! Owns the control totals: number and sum of payments by day, currency and status, ours beside the
//! partner's. Pure.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use payfold_schemas::finding::BookLine;
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::run::{ControlTotal, Sum};

use super::compare::ComparisonOutcome;
use super::day_rules::{DayRules, day_of};
use super::ours::{Money, OurOrder};

/// The key of one total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TotalKey {
    day: NaiveDate,
    currency: Currency,
    status: Status,
}

/// The totals so far: our sum and the partner's.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControlTotals(BTreeMap<TotalKey, (Sum, Sum)>);

impl ControlTotals {
    /// Adds a line to the partner's sums, under the day it is booked on.
    pub(crate) fn add_line(&mut self, line: &BookLine, rules: &DayRules) {
        if matches!(line.status, Status::Success | Status::Refunded) {
            // Nearly all lines are of the day, and converting a time to the zone costs more than
            // everything else here.
            let is_of_day = rules.contains(line.at);
            let day = if is_of_day { rules.day } else { day_of(line.at, rules.zone) };
            let (_, theirs) =
                self.sums_of(TotalKey { day, currency: line.currency, status: line.status });
            add(theirs, line.amount);
        }
    }

    /// Adds the payments and refunds that an order has of the day. An undated payment or
    /// refund is of the day with the records that list it.
    pub(crate) fn add_order(
        &mut self,
        order: &OurOrder,
        outcome: &ComparisonOutcome,
        rules: &DayRules,
    ) {
        for known in &order.refs {
            let is_listed = |status| outcome.is_listed(&known.provider_ref, status);
            let at = known.paid_at(order);
            // An undated payment is of the day that lists it.
            let is_dated = known.paid.iter().any(|money| money.at.is_some());
            let of_day = rules.contains(at) || (!is_dated && is_listed(Status::Success));
            let payment = match known.paid.is_empty() {
                false => known.payment().filter(|_| of_day),
                true => known.payment().filter(|_| is_listed(Status::Success)),
            };
            if let Some(money) = payment {
                self.add_ours(rules.day, Status::Success, money);
            }
            for refund in &known.refunds {
                let of_day = match refund.money.at {
                    Some(at) => rules.contains(at),
                    None => is_listed(Status::Refunded),
                };
                if of_day {
                    self.add_ours(rules.day, Status::Refunded, refund.money);
                }
            }
        }
    }

    fn add_ours(&mut self, day: NaiveDate, status: Status, money: Money) {
        let (ours, _) = self.sums_of(TotalKey { day, currency: money.currency, status });
        add(ours, money.amount);
    }

    fn sums_of(&mut self, key: TotalKey) -> &mut (Sum, Sum) {
        self.0.entry(key).or_default()
    }

    /// Adds other totals.
    pub(crate) fn merge(&mut self, other: Self) {
        for (key, (ours, theirs)) in other.0 {
            let (our_sum, their_sum) = self.sums_of(key);
            for (sum, more) in [(our_sum, ours), (their_sum, theirs)] {
                sum.count = sum.count.saturating_add(more.count);
                sum.amount = sum.amount.saturating_add(more.amount);
            }
        }
    }

    /// The totals of a run's event, by day, currency and status.
    pub(crate) fn into_list(self) -> Vec<ControlTotal> {
        let totals = self.0.into_iter().map(|(key, (ours, partners))| {
            let TotalKey { day, currency, status } = key;
            ControlTotal { day: day.to_string(), currency, status, ours, partners }
        });
        totals.collect()
    }
}

/// Adds an amount to a sum.
pub(crate) fn add(sum: &mut Sum, amount: Amount) {
    sum.count = sum.count.saturating_add(1);
    sum.amount = sum.amount.saturating_add(amount.minor());
}
