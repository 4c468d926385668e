//! Owns the rules of IPNs (contract 2.3, 5, 6, 7). An IPN without a valid signature counts for the
//! rules of signatures and ids only: a stranger may have sent it.

mod content;
mod repeats;

use std::collections::BTreeMap;

use payfold_partners::profile::TimeKind;
use payfold_partners::remote::CreateOutcome;
use payfold_schemas::ipn::Status;

use self::content::{NO_IPN, admissible_ipns, describe_ipn};
pub(super) use self::repeats::{
    check_content, check_fresh_retries, check_retries, check_sent_once,
};
use super::super::observations::{
    IpnDelivery, IpnReading, ObservedPayment, PageAction, PaymentCase, RunObservations, SignedIpn,
};
use super::tally::{RuleResult, Tally, count_items};

/// Checks every signed IPN by itself. `check` returns `None` if the rule is not about the IPN.
fn check_each(
    observed: &RunObservations,
    not_tested_reason: &'static str,
    check: impl Fn(&ObservedPayment, &IpnDelivery, &SignedIpn) -> Option<Result<(), String>>,
) -> Tally {
    let mut tally = Tally::new("signed IPN", not_tested_reason);
    for payment in &observed.payments {
        for (delivery, ipn) in admissible_ipns(payment) {
            match check(payment, delivery, ipn) {
                Some(Ok(())) => tally.add_pass(),
                Some(Err(fault)) => {
                    tally.add_fault(format!("{} {fault}", describe_ipn(payment.case, ipn)));
                }
                None => {}
            }
        }
    }
    tally
}

fn check_result(fault: Option<String>) -> Option<Result<(), String>> {
    Some(fault.map_or(Ok(()), Err))
}

pub(super) fn check_sent(observed: &RunObservations) -> Tally {
    let mut tally = Tally::new("payment", "no payment of this run has ended");
    let scheme = observed.parameters.profile.scheme();
    let strangers = match observed.strangers {
        0 => String::new(),
        count => format!(" ({} of no payment of this run)", count_items(count, "notice")),
    };
    let reports_failure = scheme.reports(Status::Failed) || scheme.reports(Status::Expired);
    for payment in &observed.payments {
        let ipn: Vec<_> = admissible_ipns(payment).map(|(_, ipn)| ipn).collect();
        let has = |status| ipn.iter().any(|ipn| ipn.status == status);
        let others = payment.deliveries.len() > ipn.len();
        let missing = match payment.page.as_ref().map(|page| page.action) {
            Some(PageAction::Paid) if !has(Status::Success) => Some("SUCCESS"),
            Some(PageAction::Cancelled) if !has(Status::Failed) && !has(Status::Expired) => {
                Some("FAILED")
            }
            _ => None,
        };
        if ipn.is_empty() && others {
            // IPNs came that are not signed or not admissible. Other rules report them.
            continue;
        } else if ipn.is_empty() && payment.case == PaymentCase::Cancel && !reports_failure {
            // No IPN says that a payment failed.
            continue;
        } else if let (true, Some(missing)) = (ipn.is_empty(), missing) {
            tally.add_fault(format!(
                "{}: completed at the page, and no {missing} came{strangers}",
                payment.case
            ));
        } else if ipn.is_empty() && !payment.returns.is_empty() {
            tally.add_fault(format!("{}: the payer returned, and no IPN came", payment.case));
        } else if let Some(missing) = missing {
            tally.add_fault(format!("{}: IPNs came, but no {missing}", payment.case));
        } else if let Some(fault) = find_missing_success(payment.case, &ipn) {
            tally.add_fault(fault);
        } else if !ipn.is_empty() {
            tally.add_pass();
        }
    }
    tally
}

/// A refund requires a payment, and the payment is a status change that needs its own IPN.
fn find_missing_success(case: PaymentCase, ipn: &[&SignedIpn]) -> Option<String> {
    let refunded = ipn.iter().find(|one| one.status == Status::Refunded)?;
    let of_ref = |one: &&&SignedIpn| one.provider_ref == refunded.provider_ref;
    let other = ipn.iter().filter(of_ref).any(|one| one.status != Status::Refunded);
    (!other).then(|| format!("{}, but no SUCCESS of it came", describe_ipn(case, refunded)))
}

pub(super) fn check_signatures(observed: &RunObservations) -> Tally {
    if observed.parameters.profile.scheme().takes_unsigned() {
        let reason = "the profile takes notices that nothing signs";
        return Tally::Decided(RuleResult::NotApplicable, reason.to_owned());
    }
    let mut tally = Tally::new("IPN", "no IPN came");
    let ours = observed.parameters.merchant_code.as_str();
    for payment in &observed.payments {
        for delivery in &payment.deliveries {
            match &delivery.reading {
                IpnReading::Signed(_) | IpnReading::Inadmissible(_) => tally.add_pass(),
                IpnReading::Unsigned(merchant) if merchant.as_deref().is_none_or(|m| m == ours) => {
                    let at = delivery.at;
                    tally.add_fault(format!(
                        "{}: no key of the account signed the IPN of {at}",
                        payment.case
                    ));
                }
                // An IPN of another account, or not a notice: other rules report it.
                IpnReading::Unsigned(_) | IpnReading::Unread(_) => {}
            }
        }
    }
    tally
}

pub(super) fn check_fields(observed: &RunObservations) -> Tally {
    let mut tally = Tally::new("IPN", NO_IPN);
    for payment in &observed.payments {
        for IpnDelivery { at, reading, .. } in &payment.deliveries {
            let fault = match reading {
                IpnReading::Signed(_) => None,
                IpnReading::Inadmissible(why) => Some(why.as_str()),
                IpnReading::Unread(code) => Some(*code),
                IpnReading::Unsigned(_) => continue,
            };
            tally.add_check(fault.map(|fault| format!("{}: at {at} {fault}", payment.case)));
        }
    }
    tally
}

pub(super) fn check_ids(observed: &RunObservations) -> Tally {
    let is_session = observed.parameters.profile.policy("").ref_is_session;
    let mut tally = check_each(observed, NO_IPN, |payment, _, ipn| {
        let other_order = ipn.order_id != payment.order_id;
        let other_ref = match &payment.created {
            CreateOutcome::Opened(offer) => is_session && ipn.provider_ref != offer.provider_ref,
            CreateOutcome::Failed(_) | CreateOutcome::Unknown(_) => false,
        };
        let fault = if other_order {
            Some(format!("names order {} instead of {}", ipn.order_id, payment.order_id))
        } else {
            other_ref.then(|| "does not have the providerRef of the create response".to_owned())
        };
        check_result(fault)
    });
    let ours = observed.parameters.merchant_code.as_str();
    for payment in &observed.payments {
        for delivery in &payment.deliveries {
            if let IpnReading::Unsigned(Some(merchant)) = &delivery.reading
                && merchant != ours
            {
                tally.add_fault(format!(
                    "{}: names account {merchant} instead of {ours}",
                    payment.case
                ));
            }
        }
    }
    tally
}

pub(super) fn check_amounts(observed: &RunObservations) -> Tally {
    let requested = observed.parameters.amount;
    check_each(observed, NO_IPN, |_, _, ipn| {
        let amount = (ipn.status != Status::Refunded).then_some(ipn.amount)?;
        check_result(
            (amount != requested)
                .then(|| format!("has the amount {amount} instead of {requested}")),
        )
    })
}

pub(super) fn check_currencies(observed: &RunObservations) -> Tally {
    let requested = observed.parameters.currency;
    check_each(observed, NO_IPN, |_, _, ipn| {
        let said = ipn.currency;
        check_result(
            (said != requested).then(|| format!("has the currency {said} instead of {requested}")),
        )
    })
}

pub(super) fn check_paid_in_session(observed: &RunObservations) -> Tally {
    let successes = observed.payments.iter().flat_map(admissible_ipns).map(|(_, ipn)| ipn);
    let mut successes = successes.filter(|ipn| ipn.status == Status::Success).peekable();
    if successes.peek().is_some() && successes.all(|ipn| ipn.paid_at.is_none()) {
        let reason = "the profile reads no time of payment from a SUCCESS";
        return Tally::Decided(RuleResult::NotApplicable, reason.to_owned());
    }
    check_each(observed, "no SUCCESS of a known session came", |payment, _, ipn| {
        (ipn.status == Status::Success).then_some(())?;
        let CreateOutcome::Opened(offer) = &payment.created else { return None };
        let (paid_at, ends) = (ipn.paid_at?, offer.expires_at);
        check_result(
            (paid_at > ends).then(|| format!("was paid at {paid_at}, after expiresAt {ends}")),
        )
    })
}

pub(super) fn check_timestamps(observed: &RunObservations) -> Tally {
    let rule = observed.parameters.profile.time();
    let has_window = match rule.kind {
        TimeKind::Delivery => true,
        TimeKind::Event => rule.max_age_ms.is_some(),
        TimeKind::None => false,
    };
    if !has_window {
        let reason = "the profile has no rule for the time of a notice";
        return Tally::Decided(RuleResult::NotApplicable, reason.to_owned());
    }
    let mut tally = check_each(observed, NO_IPN, |_, delivery, ipn| {
        let (at, time) = (delivery.at, ipn.time?);
        let off = rule.judge(time, at).is_err();
        let seconds = at.nanos_since(time) / 1_000_000_000;
        let side = if seconds < 0 { "after" } else { "before" };
        let apart = seconds.unsigned_abs();
        check_result(off.then(|| format!("has a timestamp {apart} s {side} its arrival")))
    });
    let off_ms = |(delivery, ipn): (&IpnDelivery, &SignedIpn)| {
        ipn.time.map(|time| delivery.at.nanos_since(time).unsigned_abs() / 1_000_000)
    };
    if let Some(most) = observed.payments.iter().flat_map(admissible_ipns).filter_map(off_ms).max()
    {
        tally.add_note(format!("at most {most} ms off"));
    }
    tally
}

/// The statuses of a payment's transactions, by providerRef.
fn statuses_by_ref(payment: &ObservedPayment) -> BTreeMap<&str, Vec<Status>> {
    let mut refs: BTreeMap<&str, Vec<Status>> = BTreeMap::new();
    for (_, ipn) in admissible_ipns(payment) {
        refs.entry(ipn.provider_ref.as_str()).or_default().push(ipn.status);
    }
    refs
}

pub(super) fn check_one_outcome(observed: &RunObservations) -> Tally {
    use Status::{Expired, Failed, Refunded, Success};
    let mut tally = Tally::new("transaction", NO_IPN);
    for payment in &observed.payments {
        for (provider_ref, statuses) in statuses_by_ref(payment) {
            let has = |status| statuses.contains(&status);
            let pair = match (has(Success), has(Failed), has(Expired), has(Refunded)) {
                (true, true, _, _) => Some("SUCCESS and FAILED"),
                (true, _, true, _) => Some("SUCCESS and EXPIRED"),
                (_, true, true, _) => Some("FAILED and EXPIRED"),
                (_, true, _, true) => Some("FAILED and REFUNDED"),
                (_, _, true, true) => Some("EXPIRED and REFUNDED"),
                _ => None,
            };
            tally.add_check(
                pair.map(|pair| {
                    format!("{}: {provider_ref} has the statuses {pair}", payment.case)
                }),
            );
        }
    }
    tally
}

pub(super) fn check_paid_once(observed: &RunObservations) -> Tally {
    let mut tally = Tally::new("payment", "no SUCCESS came");
    for payment in &observed.payments {
        let refs = statuses_by_ref(payment);
        let paid = refs.iter().filter(|(_, statuses)| statuses.contains(&Status::Success));
        let paid: Vec<_> = paid.map(|(provider_ref, _)| *provider_ref).collect();
        if !paid.is_empty() {
            let twice = paid.len() > 1;
            let fault = || format!("{}: paid by {}", payment.case, paid.join(" and by "));
            tally.add_check(twice.then(fault));
        }
    }
    tally
}

const NO_REFUND: &str = "nothing was refunded in this run; checked only if a refund is reported";

pub(super) fn check_refund_amounts(observed: &RunObservations) -> Tally {
    if !observed.parameters.profile.is_default_scheme() {
        let reason = "parts may be refunded by other rules than the contract's";
        return Tally::Decided(RuleResult::NotApplicable, reason.to_owned());
    }
    let requested = observed.parameters.amount;
    check_each(observed, NO_REFUND, |_, _, ipn| {
        let amount = (ipn.status == Status::Refunded).then_some(ipn.amount)?;
        check_result(
            (amount != requested)
                .then(|| format!("has the amount {amount} instead of {requested}")),
        )
    })
}

/// Two refunds of one event, or with the same time and amount, count as one refund that is reported
/// twice. Where a refund states the total so far, the largest counts.
pub(super) fn check_refund_sums(observed: &RunObservations) -> Tally {
    let requested = observed.parameters.amount.minor();
    let mut tally = Tally::new("refund", NO_REFUND);
    for payment in &observed.payments {
        let mut refunds: BTreeMap<&str, Vec<&SignedIpn>> = BTreeMap::new();
        for (_, ipn) in admissible_ipns(payment).filter(|(_, t)| t.status == Status::Refunded) {
            let of_ref = refunds.entry(ipn.provider_ref.as_str()).or_default();
            let is_same = |known: &&SignedIpn| match (&known.event_ref, &ipn.event_ref) {
                (Some(known), Some(event)) => known == event,
                _ => (known.amount, known.paid_at) == (ipn.amount, ipn.paid_at),
            };
            if !of_ref.iter().any(is_same) {
                of_ref.push(ipn);
            }
        }
        for (provider_ref, refunds) in refunds {
            let sum = refunds.iter().fold(0_i64, |sum, one| match one.refund_so_far {
                true => sum.max(one.amount.minor()),
                false => sum.saturating_add(one.amount.minor()),
            });
            let fault =
                || format!("{}: {sum} of {requested} refunded for {provider_ref}", payment.case);
            tally.add_check((sum > requested).then(fault));
        }
    }
    tally
}
