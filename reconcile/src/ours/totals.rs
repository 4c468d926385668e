//! Owns cumulative refunds: their amount is the total refunded so far. The partner's records list
//! the single refunds. A single refund is the step from one total of a transaction and currency to
//! the next larger total. Pure.

use std::collections::{BTreeMap, BTreeSet};

use payfold_schemas::ids::ProviderRef;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::KnownIpn;
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

use super::money::{Money, Refund};

/// The first time and record of each total, by its minor units.
type FirstStatements = BTreeMap<i64, (Option<Time>, Position)>;

/// The cumulative totals of an order's refs.
#[derive(Default)]
pub(super) struct RefundTotals(BTreeMap<(ProviderRef, Currency), FirstStatements>);

/// Whether a refund's amount is the total refunded so far.
pub(super) fn is_cumulative(ipn: &KnownIpn) -> bool {
    ipn.policy.refund_so_far && ipn.money.event_ref.is_none()
}

impl RefundTotals {
    /// Adds a stated total.
    pub(super) fn add(&mut self, provider_ref: &ProviderRef, money: Money, position: Position) {
        let of_ref = self.0.entry((provider_ref.clone(), money.currency)).or_default();
        let first = of_ref.entry(money.amount.minor()).or_insert((money.at, position));
        // A statement with a time dates the total; of two the earlier one.
        first.0 = [first.0, money.at].into_iter().flatten().min();
        first.1 = first.1.min(position);
    }

    /// Whether this ref has cumulative refunds.
    pub(super) fn has_ref(&self, provider_ref: &ProviderRef) -> bool {
        self.0.keys().any(|(known, _)| known == provider_ref)
    }

    /// The refs with cumulative refunds.
    pub(super) fn refs(&self) -> BTreeSet<ProviderRef> {
        self.0.keys().map(|(known, _)| known.clone()).collect()
    }

    /// The single refunds, by ref.
    pub(super) fn steps(self) -> Vec<(ProviderRef, Refund)> {
        let mut steps = Vec::new();
        for ((provider_ref, currency), totals) in self.0 {
            let mut before = 0_i64;
            for (total, (at, position)) in totals {
                let step = total.checked_sub(before).and_then(|step| Amount::from_minor(step).ok());
                before = total;
                let Some(amount) = step else { continue };
                let money = Money { amount, currency, at };
                steps.push((provider_ref.clone(), Refund { money, event_ref: None, position }));
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps_of(totals: &[(&str, i64, &str, Option<i64>)]) -> String {
        let mut all = RefundTotals::default();
        for (n, (name, amount, currency, at)) in totals.iter().enumerate() {
            let money = Money {
                amount: Amount::from_minor(*amount).unwrap(),
                currency: Currency::parse(currency).unwrap(),
                at: at.map(Time::from_unix_ms),
            };
            let position = Position { partition: 0, offset: u64::try_from(n).unwrap() };
            all.add(&ProviderRef::parse(name).unwrap(), money, position);
        }
        let step = |(name, refund): (ProviderRef, Refund)| {
            let Refund { money, position, .. } = refund;
            let at = money.at.map_or("-".to_owned(), |at| at.unix_ms().to_string());
            format!("{name} {} {} {at} {}", money.amount, money.currency, position.offset)
        };
        all.steps().into_iter().map(step).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn single_refunds_are_the_steps_between_totals_in_any_order() {
        let steps = "r 1000 VND 5 0; r 1500 VND 7 2; r 500 VND - 1";
        let (one, two, three) =
            (("r", 1000, "VND", Some(5)), ("r", 3000, "VND", None), ("r", 2500, "VND", Some(7)));
        assert_eq!(steps_of(&[one, two, three]), steps);
        let repeated = [one, two, three, ("r", 1000, "VND", Some(9)), ("r", 2500, "VND", None)];
        assert_eq!(steps_of(&repeated), steps, "a repeated total is no other refund");
        let apart = [("r", 10, "VND", None), ("q", 30, "VND", None), ("r", 20, "USD", None)];
        assert_eq!(steps_of(&apart), "q 30 VND - 1; r 20 USD - 2; r 10 VND - 0");
    }
}
