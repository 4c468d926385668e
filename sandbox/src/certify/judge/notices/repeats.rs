//! Owns the rules of what is sent more than once (contract 6): what must come again, how, and what must not.

use std::collections::BTreeMap;

use payfold_partners::profile::TimeKind;
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;

use super::super::super::rule::Rule;
use super::super::super::seen::{Answered, Case, Delivery, Payment, Seen, Told};
use super::super::{Outcome, Tally};
use super::{NO_IPN, named, signed};

/// What an IPN says, by which a repeat is known: transaction, status and money.
type Said<'p> = (&'p str, Option<&'static str>, Option<i64>, &'p str, Option<Time>);

fn said(told: &Told) -> Said<'_> {
    let status = told.status.map(Status::as_str);
    (&told.provider_ref, status, told.amount, &told.currency, told.paid_at)
}

/// The deliveries of each thing that was said of a payment, in the order they came.
fn by_content(payment: &Payment) -> BTreeMap<Said<'_>, Vec<(&Delivery, &Told)>> {
    let mut contents: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (delivery, told) in signed(payment) {
        contents.entry(said(told)).or_default().push((delivery, told));
    }
    contents
}

/// Those that came after one that was acknowledged.
fn after_ack<'d>(deliveries: &[(&'d Delivery, &Told)]) -> Vec<&'d Delivery> {
    let taken = deliveries.iter().position(|(one, _)| one.answered == Answered::Taken);
    let after = deliveries.iter().skip(taken.map_or(deliveries.len(), |place| place + 1));
    after.map(|(one, _)| *one).collect()
}

pub(in super::super) fn retried(seen: &Seen, rule: Rule) -> Tally {
    let (case, answer, or_else) = match rule {
        Rule::IpnRetryBusy => {
            (Case::Busy, Answered::Busy, "no IPN came that could be answered with 503")
        }
        _ => (Case::Silent, Answered::Silent, "no IPN came that could be left without an answer"),
    };
    let mut tally = Tally::new("IPN", or_else);
    for payment in seen.payments.iter().filter(|payment| payment.case == case) {
        let all: Vec<_> = signed(payment).collect();
        for (place, (first, told)) in all.iter().enumerate() {
            if first.answered != answer {
                continue;
            }
            let again = |(_, later): &&(&Delivery, &Told)| {
                later.provider_ref == told.provider_ref && later.status == told.status
            };
            let Some((later, _)) = all[place + 1..].iter().find(again) else {
                tally.fault(format!("{}, {answer}, did not come again", named(case, told)));
                continue;
            };
            tally.keep();
            tally.note(format!(
                "came again after {} ms",
                later.at.nanos_since(first.at) / 1_000_000
            ));
        }
    }
    tally
}

pub(in super::super) fn retry_fresh(seen: &Seen) -> Tally {
    if seen.asked.time.kind != TimeKind::Delivery {
        let reason = "the profile's time is not that of the delivery";
        return Tally::Said(Outcome::NotApplicable, reason.to_owned());
    }
    let mut tally = Tally::new("retry", "no retry came that was no repetition as well");
    for payment in &seen.payments {
        for deliveries in by_content(payment).values() {
            // Where what was acknowledged is sent again, too, retries can't be told from repetitions.
            if !after_ack(deliveries).is_empty() {
                continue;
            }
            for pair in deliveries.windows(2) {
                let [(first, before), (again, after)] = pair else { continue };
                let fault = if first.digest == again.digest {
                    Some("came again byte for byte")
                } else {
                    (after.time <= before.time).then_some("came again with an old timestamp")
                };
                let named = || named(payment.case, after);
                tally.hold_or(fault.map(|fault| format!("{} {fault}", named())));
            }
        }
    }
    tally
}

/// What differs in amount or currency from what was asked is told by those rules, and a refund may be one of several.
pub(in super::super) fn content(seen: &Seen) -> Tally {
    let mut tally = Tally::new("status", NO_IPN);
    let (mut same, mut anew) = (0, 0);
    for payment in &seen.payments {
        for deliveries in by_content(payment).values() {
            let first = deliveries.first().map(|(one, _)| one.digest);
            let again = deliveries.len().saturating_sub(1);
            let bytes =
                deliveries.iter().skip(1).filter(|(one, _)| Some(one.digest) == first).count();
            (same, anew) = (same + bytes, anew + again - bytes);
        }
        let mut contents: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (provider_ref, status, amount, currency, paid_at) in by_content(payment).into_keys() {
            let asked = amount == Some(seen.asked.amount.minor());
            let asked = asked && currency == seen.asked.currency.code();
            if asked && status != Some(Status::Refunded.as_str()) {
                contents.entry((provider_ref, status)).or_default().push(paid_at);
            }
        }
        for ((provider_ref, status), times) in contents {
            let status = status.unwrap_or("an unknown status");
            let fault = || {
                let times: Vec<_> = times
                    .iter()
                    .map(|at| at.map_or("none".to_owned(), |at| at.to_string()))
                    .collect();
                let (case, times) = (payment.case, times.join(" and "));
                format!("{case}: {status} of {provider_ref} with paidAt {times}")
            };
            tally.hold_or((times.len() > 1).then(fault));
        }
    }
    tally.note(format!("{} came again, {same} byte for byte, {anew} signed anew", same + anew));
    tally
}

pub(in super::super) fn once(seen: &Seen) -> Tally {
    let mut tally = Tally::new("IPN", "no IPN was acknowledged");
    for payment in &seen.payments {
        for deliveries in by_content(payment).values() {
            let acked = deliveries.iter().any(|(one, _)| one.answered == Answered::Taken);
            let Some((_, told)) = deliveries.first().filter(|_| acked) else { continue };
            let again = after_ack(deliveries).len();
            let fault =
                || format!("{} came {again} times after its 200", named(payment.case, told));
            tally.hold_or((again > 0).then(fault));
        }
    }
    tally
}
