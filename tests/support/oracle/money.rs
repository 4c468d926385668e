//! Owns the oracle's money: which refunds a ref has, whether they give it back, and the sums.

use std::collections::BTreeSet;

use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;

use super::{Oracle, Saying};

impl Oracle {
    /// The refunds of a ref in one currency that count, in full or in part; an answer that says what an IPN
    /// says is the same refund.
    pub(super) fn refunds(&self, name: &ProviderRef, currency: Currency) -> Vec<&Saying> {
        let all: Vec<_> = (self.said(name, Status::Refunded).into_iter())
            .filter(|saying| saying.currency == currency && !self.is_unconfirmed(saying))
            .filter(|saying| self.equals_a_create(saying) || self.is_partial(saying))
            .collect();
        let told_by_ipn = |answer: &Saying| {
            all.iter().any(|other| other.is_ipn() && other.amount == answer.amount)
        };
        all.iter().filter(|saying| saying.is_ipn() || !told_by_ipn(saying)).copied().collect()
    }

    pub(super) fn create_currencies(&self) -> BTreeSet<Currency> {
        self.creates.iter().map(|create| create.currency).collect()
    }

    /// The sum of a ref's refunds in one currency if all that are partial have names, and some is.
    pub(super) fn named_sum(&self, name: &ProviderRef, currency: Currency) -> Option<i64> {
        let refunds = self.refunds(name, currency);
        let partial: Vec<_> = refunds.iter().filter(|saying| self.is_partial(saying)).collect();
        let named =
            !partial.is_empty() && partial.iter().all(|saying| saying.event_ref().is_some());
        named.then(|| refunds.iter().map(|saying| saying.amount).sum())
    }

    pub(super) fn has_nameless_partial(&self, name: &ProviderRef) -> bool {
        self.create_currencies().into_iter().any(|currency| {
            (self.refunds(name, currency).into_iter())
                .any(|saying| self.is_partial(saying) && saying.event_ref().is_none())
        })
    }

    pub(super) fn is_refunded(&self, name: &ProviderRef) -> bool {
        self.counting(Status::Refunded).any(|saying| saying.provider_ref == *name)
            || self.create_currencies().into_iter().any(|currency| {
                let sum = self.named_sum(name, currency);
                sum.is_some() && sum >= self.create_amount(currency)
            })
    }

    /// The partial refunds of a ref, unless they come to C exactly.
    pub(super) fn open_partials(&self, name: &ProviderRef) -> Vec<&Saying> {
        (self.create_currencies().into_iter())
            .filter(|currency| {
                let sum = self.named_sum(name, *currency);
                sum.is_none() || sum != self.create_amount(*currency)
            })
            .flat_map(|currency| self.refunds(name, currency))
            .filter(|saying| self.is_partial(saying))
            .collect()
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
            (self.create_currencies().into_iter())
                .map(|currency| {
                    let sum: i64 =
                        self.refunds(name, currency).iter().map(|saying| saying.amount).sum();
                    sum.min(self.create_amount(currency).unwrap_or(0))
                })
                .sum()
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
