//! Owns the oracle's money: which refunds a ref has, whether they give it back, and the sums.

use std::collections::BTreeSet;

use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;

use super::{Oracle, Saying};

impl Oracle {
    /// What is said of a ref's refunds in a C's currency, as far as it is confirmed.
    fn told_refunds(&self, name: &ProviderRef) -> Vec<&Saying> {
        (self.said(name, Status::Refunded).into_iter())
            .filter(|saying| self.create_currencies().contains(&saying.currency))
            .filter(|saying| !self.is_unconfirmed(saying))
            .collect()
    }

    /// The refunds themselves: an answer that says what an IPN says is the same refund.
    pub(super) fn refunds(&self, name: &ProviderRef) -> Vec<&Saying> {
        let all = self.told_refunds(name);
        let told_by_ipn = |answer: &Saying| {
            all.iter().any(|other| {
                other.is_ipn() && (other.amount, other.currency) == (answer.amount, answer.currency)
            })
        };
        all.iter().filter(|saying| saying.is_ipn() || !told_by_ipn(saying)).copied().collect()
    }

    fn partials(&self, name: &ProviderRef) -> Vec<&Saying> {
        self.refunds(name).into_iter().filter(|saying| self.is_partial(saying)).collect()
    }

    pub(super) fn create_currencies(&self) -> BTreeSet<Currency> {
        self.creates.iter().map(|create| create.currency).collect()
    }

    /// The sum of a ref's partial refunds in one currency if all of them have names, and there is one.
    pub(super) fn named_sum(&self, name: &ProviderRef, currency: Currency) -> Option<i64> {
        let mut partials = self.partials(name);
        partials.retain(|saying| saying.currency == currency);
        let named =
            !partials.is_empty() && partials.iter().all(|saying| saying.event_ref().is_some());
        named.then(|| partials.iter().map(|saying| saying.amount).sum())
    }

    /// What went back is more than can be told: parts without names, and no refund in full.
    pub(super) fn has_nameless_partial(&self, name: &ProviderRef) -> bool {
        let mut full = self.counting(Status::Refunded).map(|saying| &saying.provider_ref);
        let nameless = self.partials(name).iter().any(|saying| saying.event_ref().is_none());
        nameless && !full.any(|refunded| refunded == name)
    }

    pub(super) fn is_refunded(&self, name: &ProviderRef) -> bool {
        self.counting(Status::Refunded).any(|saying| saying.provider_ref == *name)
            || self.create_currencies().into_iter().any(|currency| {
                let sum = self.named_sum(name, currency);
                sum.is_some() && sum >= self.create_amount(currency)
            })
    }

    /// What is said of the refunds of a ref that has partial ones, unless these come to C exactly.
    pub(super) fn open_partials(&self, name: &ProviderRef) -> Vec<&Saying> {
        let open = self.partials(name).iter().any(|saying| {
            let sum = self.named_sum(name, saying.currency);
            sum.is_none() || sum != self.create_amount(saying.currency)
        });
        let mut told = self.told_refunds(name);
        told.retain(|saying| open && (self.is_partial(saying) || self.equals_a_create(saying)));
        told
    }

    pub(super) fn succeeded(&self) -> BTreeSet<&ProviderRef> {
        self.counting(Status::Success).map(|saying| &saying.provider_ref).collect()
    }

    pub(super) fn paid_refs(&self) -> BTreeSet<&ProviderRef> {
        self.succeeded().into_iter().filter(|name| !self.is_refunded(name)).collect()
    }

    pub(super) fn refunded_refs(&self) -> BTreeSet<&ProviderRef> {
        self.refs().into_iter().filter(|name| self.is_refunded(name)).collect()
    }

    pub(super) fn paid_amount(&self) -> i64 {
        (self.succeeded().into_iter())
            .filter_map(|name| {
                self.counting(Status::Success)
                    .filter(|saying| saying.provider_ref == *name)
                    .map(|saying| saying.amount)
                    .max()
            })
            .sum()
    }

    pub(super) fn refunded_amount(&self) -> i64 {
        let of_ref = |name: &ProviderRef| -> i64 {
            let sum: i64 = self.refunds(name).iter().map(|saying| saying.amount).sum();
            sum.min(self.largest_create())
        };
        self.refs().into_iter().map(of_ref).sum()
    }

    pub(super) fn overpaid(&self) -> i64 {
        if self.succeeded().len() < 2 {
            return 0;
        }
        (self.paid_amount() - self.refunded_amount() - self.largest_create()).max(0)
    }
}
