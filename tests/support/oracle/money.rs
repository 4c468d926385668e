//! Owns the oracle's money: which refunds a ref has, whether they give it back, and the sums.

use std::collections::BTreeSet;

use payfold_schemas::ids::{EventRef, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;

use super::{By, Oracle, Saying};

impl Oracle {
    /// Each currency asked for, with C in it.
    fn asked(&self) -> BTreeSet<(Currency, i64)> {
        (self.creates.iter())
            .filter_map(|create| Some((create.currency, self.create_amount(create.currency)?)))
            .collect()
    }

    /// The R of a ref that are some C's own amount.
    fn full_refunds(&self, name: &ProviderRef) -> Vec<&Saying> {
        let mut refunds = self.said(name, Status::Refunded);
        refunds.retain(|saying| self.counts(saying));
        refunds
    }

    /// The R of a ref that are below C, in one currency.
    fn partials(&self, name: &ProviderRef, currency: Currency) -> Vec<&Saying> {
        let mut refunds = self.said(name, Status::Refunded);
        refunds.retain(|saying| {
            saying.currency == currency && self.is_partial(saying) && !self.is_unconfirmed(saying)
        });
        refunds
    }

    /// The sum of the refunds that have a name of the partner: each name is one refund.
    fn named_sum(&self, name: &ProviderRef, currency: Currency) -> i64 {
        let partials = self.partials(name, currency);
        let largest = |event: &EventRef| -> i64 {
            (partials.iter())
                .filter(|saying| saying.event_ref() == Some(event))
                .map(|saying| saying.amount)
                .max()
                .unwrap_or(0)
        };
        let events: BTreeSet<_> = partials.iter().filter_map(|saying| saying.event_ref()).collect();
        events.into_iter().map(largest).sum()
    }

    /// The amounts of refunds without an event ref. An answer with the amount of an IPN is that
    /// IPN's refund.
    fn nameless(&self, name: &ProviderRef, currency: Currency) -> BTreeSet<i64> {
        let partials = self.partials(name, currency);
        let by_ipn =
            |amount: i64| partials.iter().any(|other| other.is_ipn() && other.amount == amount);
        (partials.iter())
            .filter(|saying| saying.event_ref().is_none() && !self.is_total(saying))
            .filter(|saying| saying.is_ipn() || !by_ipn(saying.amount))
            .map(|saying| saying.amount)
            .collect()
    }

    /// Whether it states all that went back so far: an IPN with a profile that says so, and an
    /// answer for a ref that such an IPN, if it is confirmed, names.
    fn is_total(&self, saying: &Saying) -> bool {
        let says_all = |saying: &Saying| match &saying.by {
            By::Ipn { event_ref: None, policy, .. } => policy.refund_so_far,
            By::Ipn { .. } | By::Query => false,
        };
        let refunds = self.said(&saying.provider_ref, Status::Refunded);
        says_all(saying)
            || (!saying.is_ipn()
                && refunds.into_iter().any(|one| says_all(one) && !self.is_unconfirmed(one)))
    }

    /// The largest R below C that says all that went back so far; 0 without one.
    fn total(&self, name: &ProviderRef, currency: Currency) -> i64 {
        let partials = self.partials(name, currency).into_iter();
        partials.filter(|saying| self.is_total(saying)).map(|total| total.amount).max().unwrap_or(0)
    }

    pub(super) fn is_refunded(&self, name: &ProviderRef) -> bool {
        !self.full_refunds(name).is_empty()
            || (self.asked().into_iter())
                .any(|(currency, amount)| self.named_sum(name, currency) >= amount)
    }

    /// Whether more may have gone back than is known: refunds without names, on a ref that is not
    /// refunded.
    pub(super) fn is_at_least(&self, name: &ProviderRef) -> bool {
        let nameless = self.asked().into_iter().any(|(of, _)| !self.nameless(name, of).is_empty());
        nameless && !self.is_refunded(name)
    }

    /// Whether the R below C that IPNs state would come to C, were they all different ones. Not on
    /// a ref that is refunded.
    pub(super) fn may_all_have_gone(&self, name: &ProviderRef) -> bool {
        let stated = |currency: Currency| -> i64 {
            let by_ipn = self.partials(name, currency).into_iter().filter(|saying| saying.is_ipn());
            let nameless: BTreeSet<i64> = by_ipn
                .filter(|saying| saying.event_ref().is_none() && !self.is_total(saying))
                .map(|saying| saying.amount)
                .collect();
            self.named_sum(name, currency) + nameless.iter().sum::<i64>()
        };
        !self.is_refunded(name) && self.asked().into_iter().any(|(of, asked)| stated(of) >= asked)
    }

    /// What is said of the refunds of a ref with an R below C, unless these alone, all named, come
    /// to C, or all of them are totals that a full R in their currency outgrew.
    pub(super) fn open_partials(&self, name: &ProviderRef) -> Vec<&Saying> {
        let full = self.full_refunds(name);
        let full_in = |currency: Currency| -> i64 {
            let full = full.iter().filter(|saying| saying.currency == currency);
            full.map(|saying| saying.amount).max().unwrap_or(0)
        };
        let open = self.asked().into_iter().any(|(currency, amount)| {
            let (parts, total) = (self.partials(name, currency), self.total(name, currency));
            let (sum, nameless) = (self.named_sum(name, currency), self.nameless(name, currency));
            let has_parts =
                parts.iter().any(|part| part.event_ref().is_some()) || !nameless.is_empty();
            let come_to_it = sum == amount && nameless.is_empty();
            let settled = come_to_it && (full.is_empty() || !has_parts);
            (has_parts || total > full_in(currency)) && !settled
        });
        let asked = self.asked().into_iter();
        let partials = asked.flat_map(|(currency, _)| self.partials(name, currency));
        if open { partials.chain(full.iter().copied()).collect() } else { Vec::new() }
    }

    /// The refunded amount of a ref, in the currency in which it is largest.
    fn went_back(&self, name: &ProviderRef) -> i64 {
        let of = |currency: Currency, amount: i64| {
            let full = self.full_refunds(name).into_iter();
            let full =
                full.filter(|saying| saying.currency == currency).map(|saying| saying.amount);
            let nameless: i64 = self.nameless(name, currency).iter().sum();
            let parts = full.max().unwrap_or(0) + self.named_sum(name, currency) + nameless;
            amount.min(parts.max(self.total(name, currency)))
        };
        let all = self.asked().into_iter();
        all.map(|(currency, amount)| of(currency, amount)).max().unwrap_or(0)
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
        self.refs().into_iter().map(|name| self.went_back(name)).sum()
    }

    pub(super) fn overpaid(&self) -> i64 {
        if self.succeeded().len() < 2 {
            return 0;
        }
        (self.paid_amount() - self.refunded_amount() - self.largest_create()).max(0)
    }
}
