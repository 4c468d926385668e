//! A profile with a scheme of its own is judged by what it reads: rules about values that it does
//! not read do not apply.

use payfold_partners::profile::SHIPPED;
use payfold_schemas::ids::EventRef;

use super::*;

/// A clean run of a shipped profile, with payments that were opened and paid at pages.
fn run_of(name: &str) -> RunObservations {
    let shipped = SHIPPED.iter().find(|shipped| shipped.name == name).unwrap();
    let profile = Profile::parse(&PartnerCode::parse(name).unwrap(), shipped.profile).unwrap();
    let mut observed = clean_run();
    observed.parameters.profile = Arc::new(profile);
    observed
}

fn result_of(observed: &RunObservations, id: &str) -> RuleResult {
    let findings = evaluate_rules(observed);
    findings.iter().find(|finding| finding.rule.id() == id).unwrap().outcome
}

#[test]
fn rules_about_values_that_a_profile_does_not_read_do_not_apply() {
    for (name, id, expected) in [
        ("razorpay", "create.provider_ref", RuleResult::NotApplicable),
        ("razorpay", "create.expires_at", RuleResult::NotApplicable),
        ("razorpay", "create.redirect_url", RuleResult::Passed),
        ("razorpay", "create.qr_payload", RuleResult::NotApplicable),
        ("momo", "create.qr_payload", RuleResult::Passed),
        ("momo", "create.two_presentations", RuleResult::NotApplicable),
        ("momo", "ipn.retry_fresh", RuleResult::NotApplicable),
        ("momo", "ipn.content", RuleResult::NotApplicable),
        ("momo", "return.success", RuleResult::Passed),
        ("momo", "return.signature", RuleResult::NotApplicable),
        ("momo", "return.fields", RuleResult::NotApplicable),
    ] {
        assert_eq!(result_of(&run_of(name), id), expected, "{name} {id}");
    }
}

/// ZaloPay calls back for a success only.
#[test]
fn a_failure_is_expected_only_of_a_partner_that_reports_failures() {
    for (name, expected) in [("zalopay", RuleResult::Passed), ("momo", RuleResult::Failed)] {
        let mut observed = run_of(name);
        observed.payments[1].deliveries.clear();
        assert_eq!(result_of(&observed, "ipn.sent"), expected, "{name}");
    }
}

/// The run with these notices of a payment: each with its signed text, and as it was answered.
fn run_with(case: PaymentCase, notices: &[(&str, Status, i64, IpnAnswer)]) -> RunObservations {
    let mut observed = run_of("momo");
    let payment = observed.payments.iter_mut().find(|payment| payment.case == case).unwrap();
    let notices = notices.iter().zip(1..).map(|((signed, status, minor, answer), ms)| {
        let ipn = SignedIpn {
            amount: amount(*minor),
            event_ref: (*status == Status::Refunded).then(|| EventRef::parse(signed).unwrap()),
            signed: Some(Digest::of_bytes(signed.as_bytes())),
            is_signed_anew: false,
            ..signed_ipn(case, *status, ms)
        };
        deliver(ipn, 500 + ms, *answer)
    });
    payment.deliveries = notices.collect();
    observed
}

/// A transaction has several events with one status at some partners. Only what is signed alike is
/// the same notice again.
#[test]
fn another_event_of_a_status_is_no_retry_and_no_repeat() {
    use IpnAnswer::{Acknowledged, Unavailable};
    use Status::Success;
    let captured = ("captured", Success, 150_000, Unavailable);
    let paid = ("paid", Success, 150_000, Acknowledged);
    let retried = ("captured", Success, 150_000, Acknowledged);
    for (notices, retry) in [
        (vec![captured, paid], RuleResult::Failed),
        (vec![captured, paid, retried], RuleResult::Passed),
    ] {
        let observed = run_with(PaymentCase::Busy, &notices);
        assert_eq!(result_of(&observed, "ipn.retry_503"), retry, "{notices:?}");
        assert_eq!(result_of(&observed, "ipn.once"), RuleResult::Passed, "{notices:?}");
        assert_eq!(result_of(&observed, "ipn.content"), RuleResult::NotApplicable);
    }
    let observed = run_with(PaymentCase::Pay, &[paid, paid]);
    assert_eq!(result_of(&observed, "ipn.once"), RuleResult::Failed);
}

#[test]
fn refunds_are_counted_by_their_events_and_totals_are_not_added_up() {
    use IpnAnswer::Acknowledged;
    use Status::Refunded;
    let part = |name, minor| (name, Refunded, minor, Acknowledged);
    for (notices, expected) in [
        ([part("r1", 75_000), part("r2", 75_000)], RuleResult::Passed),
        ([part("r1", 75_000), part("r2", 75_001)], RuleResult::Failed),
        ([part("r1", 90_000), part("r1", 90_000)], RuleResult::Passed),
    ] {
        let observed = run_with(PaymentCase::Pay, &notices);
        assert_eq!(result_of(&observed, "ipn.refund_once"), expected, "{notices:?}");
        assert_eq!(result_of(&observed, "ipn.refund_amount"), RuleResult::NotApplicable);
    }
    let mut totals = run_with(PaymentCase::Pay, &[part("r1", 90_000), part("r2", 150_000)]);
    for delivery in &mut totals.payments[0].deliveries {
        let IpnReading::Signed(ipn) = &mut delivery.reading else { continue };
        (ipn.event_ref, ipn.refund_so_far) = (None, true);
    }
    assert_eq!(result_of(&totals, "ipn.refund_once"), RuleResult::Passed);
}

/// The person who gave up came back, and no notice says so.
#[test]
fn a_payer_who_gave_up_is_known_by_the_return() {
    let mut observed = run_of("zalopay");
    let payment = &mut observed.payments[1];
    payment.deliveries.clear();
    payment.page.as_mut().unwrap().action = PageAction::LeftToPerson;
    payment.returns[0].parameters.clear();
    assert_eq!(result_of(&observed, "return.cancel"), RuleResult::Passed);
    observed.payments[1].returns.clear();
    assert_eq!(result_of(&observed, "return.cancel"), RuleResult::NotTested);
}

#[test]
fn notices_of_no_payment_are_named_where_an_ipn_is_missing() {
    let mut observed = clean_run();
    observed.strangers = 2;
    observed.payments[0].deliveries.clear();
    let findings = evaluate_rules(&observed);
    let finding = findings.iter().find(|finding| finding.rule == Rule::IpnSent).unwrap();
    assert!(finding.evidence.contains("2 notices of no payment"), "{}", finding.evidence);
}
