//! Owns the rules of repeated IPNs (contract 6): which must be sent again, with which content, and
//! which must not.

use std::collections::BTreeMap;

use payfold_partners::profile::TimeKind;
use payfold_schemas::digest::Digest;
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;

use super::super::super::observations::{
    IpnAnswer, IpnDelivery, ObservedPayment, PaymentCase, RunObservations, SignedIpn,
};
use super::super::super::rule::Rule;
use super::super::tally::{RuleResult, Tally};
use super::content::{NO_IPN, admissible_ipns, describe_ipn};

/// The content by which a repeated IPN is recognised: transaction, status, amount, currency,
/// paidAt, and what is signed, unless each delivery is signed anew.
type ContentKey<'p> = (&'p str, &'static str, i64, &'static str, Option<Time>, Option<Digest>);

fn content_key(ipn: &SignedIpn) -> ContentKey<'_> {
    let (amount, currency) = (ipn.amount.minor(), ipn.currency.code());
    let signed = ipn.signed.filter(|_| !ipn.is_signed_anew);
    (ipn.provider_ref.as_str(), ipn.status.as_str(), amount, currency, ipn.paid_at, signed)
}

/// The deliveries of a payment's IPNs, grouped by content, in order of arrival.
fn group_by_content(
    payment: &ObservedPayment,
) -> BTreeMap<ContentKey<'_>, Vec<(&IpnDelivery, &SignedIpn)>> {
    let mut contents: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (delivery, ipn) in admissible_ipns(payment) {
        contents.entry(content_key(ipn)).or_default().push((delivery, ipn));
    }
    contents
}

/// The deliveries after the first acknowledged one.
fn deliveries_after_ack<'d>(deliveries: &[(&'d IpnDelivery, &SignedIpn)]) -> Vec<&'d IpnDelivery> {
    let acknowledged = deliveries.iter().position(|(one, _)| one.answer == IpnAnswer::Acknowledged);
    let after = deliveries.iter().skip(acknowledged.map_or(deliveries.len(), |index| index + 1));
    after.map(|(one, _)| *one).collect()
}

pub(in super::super) fn check_retries(observed: &RunObservations, rule: Rule) -> Tally {
    let (case, answer, not_tested_reason) = match rule {
        Rule::IpnRetryBusy => (
            PaymentCase::Busy,
            IpnAnswer::Unavailable,
            "no IPN came that could be answered as unavailable",
        ),
        _ => (
            PaymentCase::Silent,
            IpnAnswer::NoAnswer,
            "no IPN came that could be left without an answer",
        ),
    };
    let mut tally = Tally::new("IPN", not_tested_reason);
    for payment in observed.payments.iter().filter(|payment| payment.case == case) {
        let all: Vec<_> = admissible_ipns(payment).collect();
        for (index, (first, ipn)) in all.iter().enumerate() {
            if first.answer != answer {
                continue;
            }
            let again = |(_, later): &&(&IpnDelivery, &SignedIpn)| later.is_repeat_of(ipn);
            let Some((later, _)) = all[index + 1..].iter().find(again) else {
                tally.add_fault(format!(
                    "{}, {answer}, was not sent again",
                    describe_ipn(case, ipn)
                ));
                continue;
            };
            tally.add_pass();
            tally.add_note(format!(
                "sent again after {} ms",
                later.at.nanos_since(first.at) / 1_000_000
            ));
        }
    }
    tally
}

/// Whether a retry has not the time of its own sending. Times in whole seconds are equal within one
/// second.
fn is_old_time(
    (before, after): (Option<Time>, Option<Time>),
    (first, again): (Time, Time),
) -> bool {
    let is_whole_second = after.is_some_and(|time| time.unix_nanos() % 1_000_000_000 == 0);
    let is_within_second = is_whole_second && again.nanos_since(first) < 1_000_000_000;
    if is_within_second { after < before } else { after <= before }
}

pub(in super::super) fn check_fresh_retries(observed: &RunObservations) -> Tally {
    if observed.parameters.profile.time().kind != TimeKind::Delivery {
        let reason = "the profile's time is not the time of delivery";
        return Tally::Decided(RuleResult::NotApplicable, reason.to_owned());
    }
    let mut tally =
        Tally::new("retry", "no retry came that can be distinguished from a repeated IPN");
    for payment in &observed.payments {
        for deliveries in group_by_content(payment).values() {
            // If the partner also repeats acknowledged IPNs, a retry can't be distinguished from a
            // repetition.
            if !deliveries_after_ack(deliveries).is_empty() {
                continue;
            }
            for pair in deliveries.windows(2) {
                let [(first, before), (again, after)] = pair else { continue };
                let fault = if before.signed == after.signed {
                    Some("was sent again with the same signature")
                } else {
                    let is_old = is_old_time((before.time, after.time), (first.at, again.at));
                    is_old.then_some("was sent again with an old timestamp")
                };
                let description = || describe_ipn(payment.case, after);
                tally.add_check(fault.map(|fault| format!("{} {fault}", description())));
            }
        }
    }
    tally
}

/// Checks that IPNs of one status have one content. Wrong amounts and currencies are left out,
/// because their own rules report them. Refunds are left out, because there may be several.
pub(in super::super) fn check_content(observed: &RunObservations) -> Tally {
    if observed.parameters.profile.time().kind != TimeKind::Delivery {
        let reason = "another content is another event: the profile's time is not that of delivery";
        return Tally::Decided(RuleResult::NotApplicable, reason.to_owned());
    }
    let mut tally = Tally::new("status", NO_IPN);
    let (mut same, mut signed_again) = (0, 0);
    for payment in &observed.payments {
        for deliveries in group_by_content(payment).values() {
            let first = deliveries.first().map(|(one, _)| one.digest);
            let again = deliveries.len().saturating_sub(1);
            let bytes =
                deliveries.iter().skip(1).filter(|(one, _)| Some(one.digest) == first).count();
            (same, signed_again) = (same + bytes, signed_again + again - bytes);
        }
        let mut contents: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (provider_ref, status, amount, currency, paid_at, _) in
            group_by_content(payment).into_keys()
        {
            let requested = amount == observed.parameters.amount.minor();
            let requested = requested && currency == observed.parameters.currency.code();
            if requested && status != Status::Refunded.as_str() {
                contents.entry((provider_ref, status)).or_default().push(paid_at);
            }
        }
        for ((provider_ref, status), times) in contents {
            let fault = || {
                let times: Vec<_> = times
                    .iter()
                    .map(|at| at.map_or("none".to_owned(), |at| at.to_string()))
                    .collect();
                let (case, times) = (payment.case, times.join(" and "));
                format!("{case}: {status} of {provider_ref} with paidAt {times}")
            };
            tally.add_check((times.len() > 1).then(fault));
        }
    }
    tally.add_note(format!(
        "{} sent again, {same} byte for byte, {signed_again} signed again",
        same + signed_again
    ));
    tally
}

pub(in super::super) fn check_sent_once(observed: &RunObservations) -> Tally {
    let mut tally = Tally::new("IPN", "no IPN was acknowledged");
    for payment in &observed.payments {
        for deliveries in group_by_content(payment).values() {
            let is_acknowledged =
                deliveries.iter().any(|(one, _)| one.answer == IpnAnswer::Acknowledged);
            let Some((_, ipn)) = deliveries.first().filter(|_| is_acknowledged) else { continue };
            let again = deliveries_after_ack(deliveries).len();
            let fault = || {
                format!("{} was sent {again} times after its 200", describe_ipn(payment.case, ipn))
            };
            tally.add_check((again > 0).then(fault));
        }
    }
    tally
}
