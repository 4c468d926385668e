//! A profile with a scheme of its own is judged by what it reads: rules about values that it does
//! not read do not apply.

use payfold_partners::profile::SHIPPED;

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

#[test]
fn requests_of_strangers_are_named_where_no_ipn_came() {
    let mut observed = clean_run();
    observed.strangers = 2;
    assert_eq!(result_of(&observed, "ipn.signature"), RuleResult::Passed);
    observed.payments.iter_mut().for_each(|payment| payment.deliveries.clear());
    let findings = evaluate_rules(&observed);
    let finding = findings.iter().find(|finding| finding.rule == Rule::IpnSignature).unwrap();
    assert_eq!(finding.outcome, RuleResult::NotTested);
    assert!(finding.evidence.starts_with("2 requests came"), "{}", finding.evidence);
}
