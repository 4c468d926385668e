//! Owns the rules of the browser's way back (contract 2.4, 4.4.4, 5.3).

use payfold_partners::profile::Field;
use payfold_schemas::ipn::Status;

use super::super::rule::Rule;
use super::super::seen::{Done, Payment, Reading, Return, Seen};
use super::{NO_PAGES, Outcome, Tally};

/// What a return must carry beside its signature (contract 2.3, 2.4).
const FIELDS: [Field; 7] = [
    Field::MerchantCode,
    Field::OrderId,
    Field::ProviderRef,
    Field::Status,
    Field::Amount,
    Field::Currency,
    Field::Timestamp,
];

/// Whether a payment is known to have ended so: by the certifier's own hand, by an IPN, or by what a return says.
fn ended(payment: &Payment, status: Status) -> bool {
    let done = if status == Status::Success { Done::Paid } else { Done::Cancelled };
    let by_hand = payment.page.as_ref().is_some_and(|page| page.done == done);
    let told = payment.deliveries.iter().any(|delivery| match &delivery.reading {
        Reading::Signed(told) => told.status == Some(status),
        Reading::Unsigned(_) | Reading::Unread(_) => false,
    });
    let says = payment.returns.iter().any(|back| back.text("status") == Some(status.as_str()));
    by_hand || told || says
}

pub(super) fn led_back(seen: &Seen, rule: Rule) -> Tally {
    let (status, or_else) = match rule {
        Rule::ReturnSuccess => (Status::Success, "no payment with a page was paid"),
        _ => (Status::Failed, "no payment with a page was given up"),
    };
    let mut tally = Tally::new("payer", or_else);
    for payment in &seen.payments {
        let shown = payment.page.as_ref().is_some_and(|page| page.is_shown());
        if shown && ended(payment, status) {
            let nobody = payment.returns.is_empty();
            let fault = || format!("{}: nobody came to returnUrl", payment.case);
            tally.hold_or(nobody.then(fault));
        }
    }
    or_none(seen, tally)
}

/// Nobody comes back from a code: where there is nothing else, there is nothing to judge.
fn or_none(seen: &Seen, tally: Tally) -> Tally {
    let pages = seen.payments.iter().any(|payment| payment.page.is_some());
    let codes = seen.payments.iter().any(Payment::is_code);
    match tally {
        Tally::Looked { kept: 0, ref broken, .. } if broken.is_empty() && codes && !pages => {
            Tally::Said(Outcome::NotApplicable, NO_PAGES.to_owned())
        }
        looked => looked,
    }
}

fn each(seen: &Seen, judge: impl Fn(&Payment, &Return) -> Option<String>) -> Tally {
    let mut tally = Tally::new("return", "no payer came back");
    for payment in &seen.payments {
        for back in &payment.returns {
            let fault = judge(payment, back);
            tally.hold_or(fault.map(|fault| format!("{}: {fault}", payment.case)));
        }
    }
    or_none(seen, tally)
}

pub(super) fn signature(seen: &Seen) -> Tally {
    each(seen, |payment, back| match &back.signed_for {
        None => Some("no key of ours has signed it".to_owned()),
        Some(order) if order != payment.order_id.as_str() => {
            Some(format!("it is signed for order {order}"))
        }
        Some(_) => None,
    })
}

pub(super) fn fields(seen: &Seen) -> Tally {
    each(seen, |payment, back| {
        let missing: Vec<_> = FIELDS
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
        let asked = &seen.asked;
        let other = [
            ("merchantCode", asked.merchant_code.as_str()),
            ("orderId", payment.order_id.as_str()),
        ];
        if let Some((name, _)) = other.iter().find(|(name, asked)| back.text(name) != Some(asked)) {
            return Some(format!("{name} is {}", back.text(name).unwrap_or_default()));
        }
        says_otherwise(seen, payment, back)
    })
}

/// A return says what an IPN of the payment says, or if there is none, what was asked for.
fn says_otherwise(seen: &Seen, payment: &Payment, back: &Return) -> Option<String> {
    let (amount, currency) = (back.text("amount")?, back.text("currency")?);
    let asked = amount == seen.asked.amount.to_string() && currency == seen.asked.currency.code();
    let as_told = payment.deliveries.iter().any(|delivery| match &delivery.reading {
        Reading::Signed(told) => {
            told.amount.is_some_and(|told| told.to_string() == amount) && told.currency == currency
        }
        Reading::Unsigned(_) | Reading::Unread(_) => false,
    });
    (!asked && !as_told).then(|| format!("it says {amount} {currency}"))
}
