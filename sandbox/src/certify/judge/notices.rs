//! Owns the rules of IPNs (contract 2.3, 5, 6, 7). What nobody signed counts for nothing but the rule of signatures:
//! it may be a stranger's, and says nothing of the partner.

mod repeats;

use std::collections::BTreeMap;

use payfold_partners::profile::TimeKind;
use payfold_partners::remote::Created;
use payfold_schemas::ipn::Status;

use super::super::seen::{Case, Delivery, Done, Payment, Reading, Seen, SessionRef, Told};
use super::{Outcome, Tally};

pub(super) use repeats::{content, once, retried, retry_fresh};

const NO_IPN: &str = "no signed IPN came";

/// The signed IPNs of a payment, in the order they came.
fn signed(payment: &Payment) -> impl Iterator<Item = (&Delivery, &Told)> {
    payment.deliveries.iter().filter_map(|delivery| match &delivery.reading {
        Reading::Signed(told) => Some((delivery, told)),
        Reading::Unread(_) | Reading::Unsigned(_) => None,
    })
}

/// `pay: SUCCESS of sbx-1` in evidence.
fn named(case: Case, told: &Told) -> String {
    let status = told.status.map_or("an IPN", Status::as_str);
    format!("{case}: {status} of {}", told.provider_ref)
}

/// Judges every signed IPN by itself: `None` is not about it, else whether it holds or the fault.
fn each(
    seen: &Seen,
    or_else: &'static str,
    judge: impl Fn(&Payment, &Delivery, &Told) -> Option<Result<(), String>>,
) -> Tally {
    let mut tally = Tally::new("signed IPN", or_else);
    for payment in &seen.payments {
        for (delivery, told) in signed(payment) {
            match judge(payment, delivery, told) {
                Some(Ok(())) => tally.keep(),
                Some(Err(fault)) => {
                    tally.fault(format!("{} {fault}", named(payment.case, told)));
                }
                None => {}
            }
        }
    }
    tally
}

fn holds(fault: Option<String>) -> Option<Result<(), String>> {
    Some(fault.map_or(Ok(()), Err))
}

pub(super) fn sent(seen: &Seen) -> Tally {
    let mut tally = Tally::new("payment", "no payment of this run has ended");
    for payment in &seen.payments {
        let told: Vec<_> = signed(payment).map(|(_, told)| told).collect();
        let has = |status| told.iter().any(|told| told.status == Some(status));
        let unsigned = payment.deliveries.len() > told.len();
        let missing = match payment.page.as_ref().map(|page| page.done) {
            Some(Done::Paid) if !has(Status::Success) => Some("SUCCESS"),
            Some(Done::Cancelled) if !has(Status::Failed) && !has(Status::Expired) => {
                Some("FAILED")
            }
            _ => None,
        };
        if told.is_empty() && unsigned {
            // Something came; why it counts for nothing is told by another rule.
            continue;
        } else if let (true, Some(missing)) = (told.is_empty(), missing) {
            tally.fault(format!("{}: done at the page, and no {missing} came", payment.case));
        } else if told.is_empty() && !payment.returns.is_empty() {
            tally.fault(format!("{}: the payer is back, and no IPN came", payment.case));
        } else if let Some(missing) = missing {
            tally.fault(format!("{}: IPNs came, and no {missing} among them", payment.case));
        } else if let Some(fault) = untold_success(payment.case, &told) {
            tally.fault(fault);
        } else if !told.is_empty() {
            tally.keep();
        }
    }
    tally
}

/// A refund gives something back: that it was paid is a status change of its own.
fn untold_success(case: Case, told: &[&Told]) -> Option<String> {
    let refunded = told.iter().find(|one| one.status == Some(Status::Refunded))?;
    let of_ref = |one: &&&Told| one.provider_ref == refunded.provider_ref;
    let other = told.iter().filter(of_ref).any(|one| one.status != Some(Status::Refunded));
    (!other).then(|| format!("{}, and no SUCCESS of it came", named(case, refunded)))
}

pub(super) fn signature(seen: &Seen) -> Tally {
    let mut tally = Tally::new("IPN", "no IPN came");
    let ours = seen.asked.merchant_code.as_str();
    for payment in &seen.payments {
        for delivery in &payment.deliveries {
            match &delivery.reading {
                Reading::Signed(_) => tally.keep(),
                Reading::Unsigned(merchant) if merchant.as_deref().is_none_or(|m| m == ours) => {
                    let at = delivery.at;
                    tally.fault(format!("{}: at {at} no key of ours had signed it", payment.case));
                }
                // Another account's, or no notice at all: other rules.
                Reading::Unsigned(_) | Reading::Unread(_) => {}
            }
        }
    }
    tally
}

pub(super) fn fields(seen: &Seen) -> Tally {
    let mut tally = each(seen, NO_IPN, |_, _, told| {
        holds((!told.problems.is_empty()).then(|| told.problems.join(", ")))
    });
    for payment in &seen.payments {
        for delivery in &payment.deliveries {
            if let Reading::Unread(code) = &delivery.reading {
                tally.fault(format!("{}: at {} {code}", payment.case, delivery.at));
            }
        }
    }
    tally
}

pub(super) fn ids(seen: &Seen) -> Tally {
    let mut tally = each(seen, NO_IPN, |payment, _, told| {
        let other_order = told.order_id != payment.order_id.as_str();
        let other_ref = match (&payment.created, seen.asked.session_ref) {
            (Created::Opened(offer), SessionRef::Same) => {
                told.provider_ref != offer.provider_ref.as_str()
            }
            _ => false,
        };
        let fault = if other_order {
            Some(format!("names order {}, asked was {}", told.order_id, payment.order_id))
        } else {
            other_ref.then(|| "is not the ref of the create answer".to_owned())
        };
        holds(fault)
    });
    let ours = seen.asked.merchant_code.as_str();
    for payment in &seen.payments {
        for delivery in &payment.deliveries {
            if let Reading::Unsigned(Some(merchant)) = &delivery.reading
                && merchant != ours
            {
                tally.fault(format!("{}: names account {merchant}, not {ours}", payment.case));
            }
        }
    }
    tally
}

pub(super) fn amount(seen: &Seen) -> Tally {
    let asked = seen.asked.amount.minor();
    each(seen, NO_IPN, |_, _, told| {
        let amount = told.amount.filter(|_| told.status != Some(Status::Refunded))?;
        holds((amount != asked).then(|| format!("says {amount}, asked was {asked}")))
    })
}

pub(super) fn currency(seen: &Seen) -> Tally {
    let asked = seen.asked.currency.code();
    each(seen, NO_IPN, |_, _, told| {
        let said = &told.currency;
        holds((said != asked).then(|| format!("says {said}, asked was {asked}")))
    })
}

pub(super) fn paid_at(seen: &Seen) -> Tally {
    each(seen, "no SUCCESS came", |_, _, told| {
        (told.status == Some(Status::Success)).then_some(())?;
        holds(told.paid_at.is_none().then(|| "does not say when it was paid".to_owned()))
    })
}

pub(super) fn paid_in_session(seen: &Seen) -> Tally {
    each(seen, "no SUCCESS of a known session came", |payment, _, told| {
        (told.status == Some(Status::Success)).then_some(())?;
        let Created::Opened(offer) = &payment.created else { return None };
        let (paid_at, ends) = (told.paid_at?, offer.expires_at);
        holds((paid_at > ends).then(|| format!("was paid at {paid_at}, expiresAt was {ends}")))
    })
}

pub(super) fn timestamp(seen: &Seen) -> Tally {
    let rule = &seen.asked.time;
    let behind_ms_max = match (rule.kind, rule.max_age_ms) {
        (TimeKind::Delivery, _) => rule.skew_ms,
        (TimeKind::Event, Some(max_age_ms)) => max_age_ms,
        (TimeKind::Event | TimeKind::None, _) => {
            let reason = "the profile's notices carry no time that is judged";
            return Tally::Said(Outcome::NotApplicable, reason.to_owned());
        }
    };
    let mut tally = each(seen, NO_IPN, |_, delivery, told| {
        let (at, time) = (delivery.at, told.time?);
        let off = at > time.plus_ms(behind_ms_max) || time > at.plus_ms(rule.skew_ms);
        let seconds = at.nanos_since(time) / 1_000_000_000;
        holds(off.then(|| format!("was stamped {seconds} s before it came")))
    });
    let off_ms = |(delivery, told): (&Delivery, &Told)| {
        told.time.map(|time| delivery.at.nanos_since(time).unsigned_abs() / 1_000_000)
    };
    if let Some(most) = seen.payments.iter().flat_map(signed).filter_map(off_ms).max() {
        tally.note(format!("{most} ms off at most"));
    }
    tally
}

/// The statuses a payment's transactions were told with.
fn by_ref(payment: &Payment) -> BTreeMap<&str, Vec<Status>> {
    let mut refs: BTreeMap<&str, Vec<Status>> = BTreeMap::new();
    for (_, told) in signed(payment) {
        let statuses = refs.entry(told.provider_ref.as_str()).or_default();
        statuses.extend(told.status);
    }
    refs
}

pub(super) fn one_outcome(seen: &Seen) -> Tally {
    use Status::{Expired, Failed, Refunded, Success};
    let mut tally = Tally::new("transaction", NO_IPN);
    for payment in &seen.payments {
        for (provider_ref, statuses) in by_ref(payment) {
            let has = |status| statuses.contains(&status);
            let pair = match (has(Success), has(Failed), has(Expired), has(Refunded)) {
                (true, true, _, _) => Some("SUCCESS and FAILED"),
                (true, _, true, _) => Some("SUCCESS and EXPIRED"),
                (_, true, true, _) => Some("FAILED and EXPIRED"),
                (_, true, _, true) => Some("FAILED and REFUNDED"),
                (_, _, true, true) => Some("EXPIRED and REFUNDED"),
                _ => None,
            };
            tally.hold_or(pair.map(|pair| format!("{}: {provider_ref} is {pair}", payment.case)));
        }
    }
    tally
}

pub(super) fn paid_once(seen: &Seen) -> Tally {
    let mut tally = Tally::new("payment", "no SUCCESS came");
    for payment in &seen.payments {
        let refs = by_ref(payment);
        let paid = refs.iter().filter(|(_, statuses)| statuses.contains(&Status::Success));
        let paid: Vec<_> = paid.map(|(provider_ref, _)| *provider_ref).collect();
        if !paid.is_empty() {
            let twice = paid.len() > 1;
            let fault = || format!("{}: paid by {}", payment.case, paid.join(" and by "));
            tally.hold_or(twice.then(fault));
        }
    }
    tally
}

const NO_REFUND: &str = "nothing was refunded in this run; judged where a refund is told";

pub(super) fn refund_amount(seen: &Seen) -> Tally {
    let asked = seen.asked.amount.minor();
    each(seen, NO_REFUND, |_, _, told| {
        let amount = told.amount.filter(|_| told.status == Some(Status::Refunded))?;
        holds((amount != asked).then(|| format!("says {amount}, asked was {asked}")))
    })
}

/// Two refunds of one time and amount are one that is told twice.
pub(super) fn refund_once(seen: &Seen) -> Tally {
    let asked = seen.asked.amount.minor();
    let mut tally = Tally::new("refund", NO_REFUND);
    for payment in &seen.payments {
        let mut refunds: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (_, told) in signed(payment).filter(|(_, t)| t.status == Some(Status::Refunded)) {
            let (of_ref, refund) =
                (refunds.entry(&told.provider_ref).or_default(), (told.amount, told.paid_at));
            if !of_ref.contains(&refund) {
                of_ref.push(refund);
            }
        }
        for (provider_ref, refunds) in refunds {
            let sum = refunds.iter().fold(0_i64, |sum, one| sum.saturating_add(one.0.unwrap_or(0)));
            let fault = || format!("{}: {sum} of {asked} of {provider_ref}", payment.case);
            tally.hold_or((sum > asked).then(fault));
        }
    }
    tally
}
