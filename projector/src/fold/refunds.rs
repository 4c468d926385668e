//! Owns what went back on one ref: whether in full, in part, how much, and how sure that is.
//!
//! An R equal to a C is full and refunds the ref. An R notice below C (the largest of its currency) is a
//! partial refund: with an event reference it is one refund however often it is told, the largest amount
//! stands, and the ref is refunded once these come to C. Without, two may be one refund told twice, so they
//! never add to that sum: what went back is a lower bound then. An answer below C names no event either; one
//! equal to a notice is the same refund. Money of two currencies never adds up.
//!
//! Where a partner tells *all that went back so far* (`IpnPolicy::refund_so_far`), nothing adds up: what went back on
//! the ref is the largest such total, and no less than what the other R come to. Answers about that ref are totals too.
//! A total that comes to C is full; smaller ones say nothing beside it.
//!
//! Invariant: with one C, a ref that is refunded stays so, whatever else becomes known.

use std::collections::{BTreeMap, BTreeSet};

use payfold_schemas::ids::EventRef;
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;

use super::refs::{RefView, Statement};
use super::terms::{Standing, Terms};

/// What went back on one ref.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Refunds {
    /// All of it: the ref is refunded.
    pub(super) whole: bool,
    /// PARTIAL_REFUND holds here.
    pub(super) partial: bool,
    /// What went back, at most C, minor units; of several currencies the largest.
    pub(super) amount: i64,
    /// More than `amount` may have gone back.
    pub(super) at_least: bool,
}

impl Refunds {
    pub(super) fn of<'a>(view: &RefView<'a>, terms: Terms<'a>) -> Self {
        if !view.says(Status::Refunded) {
            return Self::default();
        }
        let terms_by_currency = terms.largest_by_currency().into_iter();
        let told: Vec<_> = terms_by_currency
            .map(|(currency, asked)| Told::of(view, terms, currency, asked))
            .collect();
        let whole = told.iter().any(Told::is_whole);
        let full = told.iter().any(|told| told.full.is_some());
        Self {
            whole,
            partial: told
                .iter()
                .any(|told| told.is_short() || (told.has_parts() && (full || !told.is_exact()))),
            amount: told.iter().map(Told::amount).max().unwrap_or(0),
            at_least: !whole && told.iter().any(|told| !told.unnamed.is_empty()),
        }
    }
}

/// The counting R of one ref in one currency, amounts in minor units.
struct Told<'a> {
    /// C: the largest amount asked for in this currency.
    asked: i64,
    /// The largest full R.
    full: Option<i64>,
    /// The partial refunds with an event reference, each with its largest amount.
    named: BTreeMap<&'a EventRef, i64>,
    /// The different amounts of those without.
    unnamed: BTreeSet<i64>,
    /// The largest total below C.
    so_far: Option<i64>,
}

impl<'a> Told<'a> {
    fn of(view: &RefView<'a>, terms: Terms<'a>, currency: Currency, asked: i64) -> Self {
        let (named, unnamed) = (BTreeMap::new(), BTreeSet::new());
        let mut told = Self { asked, full: None, named, unnamed, so_far: None };
        let refunds = view
            .counting(terms)
            .filter(|(said, _)| said.status == Status::Refunded && said.currency == currency);
        let are_totals = view.notices().any(|said| is_total(&said));
        for (said, standing) in refunds {
            let amount = said.amount.minor();
            match (standing, said.event_ref()) {
                (Standing::Whole, _) => told.full = told.full.max(Some(amount)),
                (Standing::Part, Some(event_ref)) => {
                    let largest = told.named.entry(event_ref).or_default();
                    *largest = amount.max(*largest);
                }
                (Standing::Part, None) if repeats_notice(view, &said) => {}
                (Standing::Part, None)
                    if is_total(&said) || (are_totals && said.notice().is_none()) =>
                {
                    told.so_far = told.so_far.max(Some(amount));
                }
                (Standing::Part, None) => {
                    told.unnamed.insert(amount);
                }
                (Standing::Foreign, _) => {}
            }
        }
        told
    }

    fn named_sum(&self) -> i64 {
        sum(self.named.values())
    }

    fn is_whole(&self) -> bool {
        self.full.is_some() || self.named_sum() >= self.asked
    }

    fn has_parts(&self) -> bool {
        !self.named.is_empty() || !self.unnamed.is_empty()
    }

    /// Whether a total is there that no full R outgrew.
    fn is_short(&self) -> bool {
        self.so_far > self.full && !self.is_exact()
    }

    /// Whether the parts are all known and come to C, no more and no less.
    fn is_exact(&self) -> bool {
        self.unnamed.is_empty() && self.named_sum() == self.asked
    }

    fn amount(&self) -> i64 {
        let parts = self.named_sum().saturating_add(sum(&self.unnamed));
        let told = self.full.unwrap_or(0).saturating_add(parts);
        told.max(self.so_far.unwrap_or(0)).min(self.asked)
    }
}

/// Whether this notice tells all that went back so far.
fn is_total(said: &Statement<'_>) -> bool {
    let is_refund = said.status == Status::Refunded && said.event_ref().is_none();
    is_refund && said.notice().is_some_and(|ipn| ipn.policy.refund_so_far)
}

/// Whether this is an answer that says what a notice says.
fn repeats_notice(view: &RefView<'_>, said: &Statement<'_>) -> bool {
    said.notice().is_none() && view.notices().any(|notice| notice.says_as(said))
}

fn sum<'n>(amounts: impl IntoIterator<Item = &'n i64>) -> i64 {
    amounts.into_iter().fold(0, |sum, amount| sum.saturating_add(*amount))
}
