//! Owns the rules of the browser return (contract 2.4, 4.4.4, 5.3).

use payfold_partners::profile::Field;
use payfold_schemas::ipn::Status;

use super::super::observations::{
    ObservedPayment, PageAction, PaymentCase, ReceivedReturn, RunObservations,
};
use super::super::rule::Rule;
use super::tally::{RuleResult, Tally};

const NO_RETURN_URL: &str = "the profile's create call names no address to return to";
const NOT_SIGNED: &str = "the profile reads nothing from a browser return";

/// The required fields of a return besides its signature (contract 2.3, 2.4).
const REQUIRED_FIELDS: [Field; 7] = [
    Field::MerchantCode,
    Field::OrderId,
    Field::ProviderRef,
    Field::Status,
    Field::Amount,
    Field::Currency,
    Field::Timestamp,
];

/// Whether a payment ended with this status: by the certifier's action, by an IPN, or by a return.
fn has_ended(payment: &ObservedPayment, status: Status) -> bool {
    let action = if status == Status::Success { PageAction::Paid } else { PageAction::Cancelled };
    let by_certifier = payment.page.as_ref().is_some_and(|page| page.action == action);
    let mut ipns = payment.deliveries.iter().filter_map(|delivery| delivery.reading.admissible());
    let by_ipn = ipns.any(|ipn| match status {
        Status::Failed => matches!(ipn.status, Status::Failed | Status::Expired),
        status => ipn.status == status,
    });
    // A person gave up if the browser came back: some partners report nothing of it.
    let given_up = status == Status::Failed && payment.case == PaymentCase::Cancel;
    let by_person = given_up && !payment.returns.is_empty();
    let by_return = payment.returns.iter().any(|back| back.text("status") == Some(status.as_str()));
    by_certifier || by_ipn || by_return || by_person
}

pub(super) fn check_returned(observed: &RunObservations, rule: Rule) -> Tally {
    let (status, not_tested_reason) = match rule {
        Rule::ReturnSuccess => (Status::Success, "no payment with a page was paid"),
        _ => (Status::Failed, "no payment with a page was cancelled"),
    };
    if !observed.parameters.profile.scheme().sends_return_url() {
        return Tally::Decided(RuleResult::NotApplicable, NO_RETURN_URL.to_owned());
    }
    let mut tally = Tally::new("payer", not_tested_reason);
    for payment in &observed.payments {
        let shown = payment.page.as_ref().is_some_and(|page| page.is_shown());
        if shown && has_ended(payment, status) {
            let no_return = payment.returns.is_empty();
            let fault = || format!("{}: no browser came to returnUrl", payment.case);
            tally.add_check(no_return.then(fault));
        }
    }
    tally.or_qr_only(observed)
}

/// Checks every return by itself. `check` returns a fault, or `None`.
fn check_each(
    observed: &RunObservations,
    check: impl Fn(&ObservedPayment, &ReceivedReturn) -> Option<String>,
) -> Tally {
    if !observed.parameters.profile.is_default_scheme() {
        return Tally::Decided(RuleResult::NotApplicable, NOT_SIGNED.to_owned());
    }
    let mut tally = Tally::new("return", "no payer came back");
    for payment in &observed.payments {
        for back in &payment.returns {
            let fault = check(payment, back);
            tally.add_check(fault.map(|fault| format!("{}: {fault}", payment.case)));
        }
    }
    tally.or_qr_only(observed)
}

pub(super) fn check_signatures(observed: &RunObservations) -> Tally {
    check_each(observed, |payment, back| match &back.signed_for {
        None => Some("no key of the account signed it".to_owned()),
        Some(order) if order != payment.order_id.as_str() => {
            Some(format!("it is signed for order {order}"))
        }
        Some(_) => None,
    })
}

pub(super) fn check_fields(observed: &RunObservations) -> Tally {
    check_each(observed, |payment, back| {
        let missing: Vec<_> = REQUIRED_FIELDS
            .iter()
            .map(|field| field.name())
            .filter(|name| back.text(name).is_none())
            .collect();
        if !missing.is_empty() {
            return Some(format!("{} missing", missing.join(", ")));
        }
        if back.text("status") == Some("SUCCESS") && back.text("paidAt").is_none() {
            return Some("paidAt missing".to_owned());
        }
        let requested = &observed.parameters;
        let other = [
            ("merchantCode", requested.merchant_code.as_str()),
            ("orderId", payment.order_id.as_str()),
        ];
        if let Some((name, _)) =
            other.iter().find(|(name, requested)| back.text(name) != Some(requested))
        {
            return Some(format!("{name} is {}", back.text(name).unwrap_or_default()));
        }
        find_money_fault(observed, payment, back)
    })
}

/// Checks the amount and currency of a return: those of an IPN of the payment, or those requested.
fn find_money_fault(
    observed: &RunObservations,
    payment: &ObservedPayment,
    back: &ReceivedReturn,
) -> Option<String> {
    let (amount, currency) = (back.text("amount")?, back.text("currency")?);
    let requested = amount == observed.parameters.amount.to_string()
        && currency == observed.parameters.currency.code();
    let mut ipns = payment.deliveries.iter().filter_map(|delivery| delivery.reading.admissible());
    let matches_ipn =
        ipns.any(|ipn| ipn.amount.to_string() == amount && ipn.currency.code() == currency);
    (!requested && !matches_ipn).then(|| format!("it has the amount {amount} {currency}"))
}
