//! Owns the refunds of one ref: whether it is refunded in full or in part, how much went back, and
//! whether that amount is exact.
//!
//! An R equal to a C is full and refunds the ref. An R notice below C (the largest of its currency)
//! is a partial refund. All notices with one event reference are one refund, and the largest of
//! their amounts counts; the ref is refunded once these refunds add up to C. Two notices without an
//! event reference may report one refund twice, so they never add to that sum, and the amount is a
//! lower bound then. But if all of them would come to C, everything may have gone back, and nothing
//! is delivered before a person has looked. A query answer below C has no event reference either;
//! an answer equal to a notice is the same refund. Amounts of two currencies are never added.
//!
//! Some partners report *the total that went back so far* (`IpnPolicy::refund_so_far`). Such totals
//! are never added: the amount of the ref is the largest of them, and at least the amount of the
//! other R. Answers about that ref are totals, too. A total of C is full; smaller totals add
//! nothing to it.
//!
//! Invariant: with one C, a refunded ref stays refunded, whatever else becomes known.

use std::collections::{BTreeMap, BTreeSet};

use payfold_schemas::ids::EventRef;
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::order::Severity;

use super::statement::{RefView, Statement};
use super::terms::{Terms, TermsMatch};

/// The refunds of one ref.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Refunds {
    /// Whether everything went back: the ref is refunded.
    pub(super) whole: bool,
    /// The severity of the PARTIAL_REFUND that this ref raises: critical if what the notices state
    /// comes to C although the ref is not refunded.
    pub(super) partial: Option<Severity>,
    /// The amount that went back, at most C, minor units; of several currencies the largest.
    pub(super) amount: i64,
    /// Whether more than `amount` may have gone back.
    pub(super) at_least: bool,
}

impl Refunds {
    pub(super) fn of<'a>(view: &RefView<'a>, terms: Terms<'a>) -> Self {
        if !view.has_status(Status::Refunded) {
            return Self::default();
        }
        let terms_by_currency = terms.largest_by_currency().into_iter();
        let reported: Vec<_> = terms_by_currency
            .map(|(currency, asked)| CurrencyRefunds::of(view, terms, currency, asked))
            .collect();
        let whole = reported.iter().any(CurrencyRefunds::is_whole);
        let full = reported.iter().any(|refunds| refunds.full.is_some());
        let at_least = !whole && reported.iter().any(|refunds| !refunds.unnamed.is_empty());
        assert!(!whole || !at_least, "of a whole refund nothing is left to go back");
        let is_partial = reported.iter().any(|refunds| {
            refunds.is_short() || (refunds.has_parts() && (full || !refunds.is_exact()))
        });
        let is_spent = !whole && reported.iter().any(CurrencyRefunds::is_spent);
        Self {
            whole,
            partial: is_partial.then_some(match is_spent {
                true => Severity::Critical,
                false => Severity::High,
            }),
            amount: reported.iter().map(CurrencyRefunds::amount).max().unwrap_or(0),
            at_least,
        }
    }
}

/// The counting R of one ref in one currency, amounts in minor units.
struct CurrencyRefunds<'a> {
    /// C: the largest amount asked for in this currency.
    asked: i64,
    /// The largest full R.
    full: Option<i64>,
    /// The partial refunds with an event reference, each with its largest amount.
    named: BTreeMap<&'a EventRef, i64>,
    /// The different amounts of partial refunds without an event reference.
    unnamed: BTreeSet<i64>,
    /// Those of them that notices state.
    noticed: BTreeSet<i64>,
    /// The largest total below C.
    so_far: Option<i64>,
}

impl<'a> CurrencyRefunds<'a> {
    fn of(view: &RefView<'a>, terms: Terms<'a>, currency: Currency, asked: i64) -> Self {
        let (named, unnamed, noticed) = Default::default();
        let mut reported = Self { asked, full: None, named, unnamed, noticed, so_far: None };
        let counting = view.counting(terms).filter(|(statement, _)| {
            statement.status == Status::Refunded && statement.currency == currency
        });
        let are_totals = view.confirmed_notices().any(|statement| is_total(&statement));
        for (statement, terms_match) in counting {
            let amount = statement.amount.minor();
            match (terms_match, statement.event_ref()) {
                (TermsMatch::Full, _) => reported.full = reported.full.max(Some(amount)),
                (TermsMatch::Part, Some(event_ref)) => {
                    let largest = reported.named.entry(event_ref).or_default();
                    *largest = amount.max(*largest);
                }
                (TermsMatch::Part, None) if repeats_notice(view, &statement) => {}
                (TermsMatch::Part, None)
                    if is_total(&statement) || (are_totals && statement.notice().is_none()) =>
                {
                    reported.so_far = reported.so_far.max(Some(amount));
                }
                (TermsMatch::Part, None) => {
                    reported.unnamed.insert(amount);
                    reported.noticed.extend(statement.notice().map(|_| amount));
                }
                (TermsMatch::Foreign, _) => {}
            }
        }
        reported
    }

    fn named_sum(&self) -> i64 {
        sum(self.named.values())
    }

    fn is_whole(&self) -> bool {
        self.full.is_some() || self.named_sum() >= self.asked
    }

    /// Whether the parts that notices state come to C, if each is another one.
    fn is_spent(&self) -> bool {
        self.named_sum().saturating_add(sum(&self.noticed)) >= self.asked
    }

    fn has_parts(&self) -> bool {
        !self.named.is_empty() || !self.unnamed.is_empty()
    }

    /// Whether there is a total below C that exceeds every full R.
    fn is_short(&self) -> bool {
        self.so_far > self.full && !self.is_exact()
    }

    /// Whether the parts all have event references and add up to exactly C.
    fn is_exact(&self) -> bool {
        self.unnamed.is_empty() && self.named_sum() == self.asked
    }

    fn amount(&self) -> i64 {
        let parts = self.named_sum().saturating_add(sum(&self.unnamed));
        let added = self.full.unwrap_or(0).saturating_add(parts);
        let amount = added.max(self.so_far.unwrap_or(0)).min(self.asked);
        assert!((0..=self.asked).contains(&amount), "no more went back than was asked for");
        amount
    }
}

/// Whether this notice reports the total that went back so far.
fn is_total(statement: &Statement<'_>) -> bool {
    let is_refund = statement.status == Status::Refunded && statement.event_ref().is_none();
    is_refund && statement.notice().is_some_and(|ipn| ipn.policy.refund_so_far)
}

/// Whether this is a query answer with the status and money of a notice.
fn repeats_notice(view: &RefView<'_>, statement: &Statement<'_>) -> bool {
    statement.notice().is_none() && view.notices().any(|notice| notice.equals(statement))
}

fn sum<'n>(amounts: impl IntoIterator<Item = &'n i64>) -> i64 {
    amounts.into_iter().fold(0, |sum, amount| sum.saturating_add(*amount))
}
