//! Owns what went back on one ref: whether in full, in part, how much, and how sure that is.
//!
//! A counting R of a C's own amount refunds the ref by itself. R below C are partial refunds: if every
//! such notice has an event reference they are different refunds and their sum counts; the ref is refunded
//! once it reaches C. Without, two may be one refund told twice: the ref stays paid and the sum is a lower
//! bound. A query answer has no event reference: it raises PARTIAL_REFUND and is shown in the amount, but
//! neither adds to that sum nor spoils it, and one equal to a notice is the same refund.

use payfold_schemas::fact::Create;
use payfold_schemas::ipn::Status;

use super::refs::{RefView, Statement};
use super::terms::{Standing, Terms};

/// What went back on one ref.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Refunds {
    /// All of it: the ref is refunded.
    pub(super) whole: bool,
    /// PARTIAL_REFUND holds here.
    pub(super) partial: bool,
    /// Sum of the distinct R, at most the largest C, minor units.
    pub(super) amount: i64,
    /// `amount` may be more than is known.
    pub(super) at_least: bool,
}

impl Refunds {
    pub(super) fn of<'a>(view: &RefView<'a>, terms: Terms<'a>) -> Self {
        if !view.says(Status::Refunded) {
            return Self::default();
        }
        let mut refunds = Self { amount: returned(view, terms), ..Self::default() };
        let (mut parts, mut unnamed_notices, mut unnamed) = (false, false, false);
        for (said, standing) in view.counting(terms).filter(|(said, _)| is_refund(said)) {
            match standing {
                Standing::Whole => refunds.whole = true,
                Standing::Part => {
                    parts = true;
                    let nameless = said.event_ref().is_none() && !repeats_notice(view, &said);
                    unnamed |= nameless;
                    unnamed_notices |= nameless && said.notice().is_some();
                }
                Standing::Foreign => {}
            }
        }
        if !parts {
            return refunds;
        }
        let mut exact = false;
        if !unnamed_notices {
            for create in terms.iter() {
                let sum = sum_of_parts(view, terms, create);
                refunds.whole |= sum >= create.amount.minor();
                exact |= sum == create.amount.minor();
            }
        }
        refunds.partial = !exact;
        refunds.at_least = unnamed && !refunds.whole;
        refunds
    }
}

fn is_refund(said: &Statement<'_>) -> bool {
    said.status == Status::Refunded
}

/// Whether this is an answer that says what a notice says.
fn repeats_notice(view: &RefView<'_>, said: &Statement<'_>) -> bool {
    said.notice().is_none() && view.notices().any(|notice| notice.says_as(said))
}

/// The sum of the partial refunds told by notices in the currency of a C.
fn sum_of_parts<'a>(view: &RefView<'a>, terms: Terms<'a>, create: &Create) -> i64 {
    view.counting(terms)
        .filter(|(said, standing)| {
            let part = is_refund(said) && *standing == Standing::Part;
            part && said.notice().is_some() && said.currency == create.currency
        })
        .fold(0, |sum, (said, _)| sum.saturating_add(said.amount.minor()))
}

/// The sum of the distinct confirmed R in a C's currency, also of those above C, at most the largest C.
fn returned(view: &RefView<'_>, terms: Terms<'_>) -> i64 {
    view.statements()
        .filter(|said| is_refund(said) && terms.ask_in(said.currency))
        .filter(|said| view.is_confirmed(said) && !repeats_notice(view, said))
        .fold(0_i64, |sum, said| sum.saturating_add(said.amount.minor()))
        .min(terms.largest())
}
