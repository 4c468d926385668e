//! A fault of a page or of a return fails the rule it breaks. These rules do not apply to a payment
//! without a page.

use super::*;

fn failed_after_page(change: impl Fn(&mut VisitedPage)) -> String {
    failed_after(|payment| change(payment.page.as_mut().unwrap()))
}

#[test]
fn a_fault_of_the_page_fails_its_rule() {
    assert_eq!(
        failed_after_page(|page| page.hops[0].frame_options.push("DENY".into())),
        "page.x_frame_options"
    );
    let closed = "frame-ancestors 'self'".to_owned();
    assert_eq!(
        failed_after_page(|page| page.hops[0].policies.push(closed.clone())),
        "page.frame_ancestors"
    );
    assert_eq!(failed_after_page(|page| page.cookies = CookieNeed::Needed), "page.cookies");
    let tls = PageProblem::Tls("UnknownIssuer".to_owned());
    assert_eq!(failed_after_page(|page| page.problem = Some(tls.clone())), "page.https");
    let gone = PageProblem::Unreachable("refused".to_owned());
    assert_eq!(failed_after_page(|page| page.problem = Some(gone.clone())), "page.shown");
    assert_eq!(
        failed_after_page(|page| page.hops = vec![Hop { status: 500, ..page.hops[0].clone() }]),
        "page.shown"
    );
    // Only a person can decide about cookies that the certifier could not test.
    let mut observed = clean_run();
    for payment in &mut observed.payments {
        if let Some(page) = &mut payment.page {
            (page.cookies, page.cookies_set, page.action) =
                (CookieNeed::Unknown, 1, PageAction::LeftToPerson);
        }
    }
    let outcome = |observed: &RunObservations| {
        let findings = evaluate_rules(observed);
        findings.iter().find(|finding| finding.rule == Rule::PageCookies).unwrap().outcome
    };
    assert_eq!(outcome(&observed), RuleResult::Open);
    observed.attested.push(Attestation {
        item: AttestedItem::Cookies,
        by: "Bo".to_owned(),
        at: NOW,
    });
    assert_eq!(outcome(&observed), RuleResult::Attested);
}

fn failed_after_return(change: impl Fn(&mut ReceivedReturn)) -> String {
    failed_after(|payment| change(&mut payment.returns[0]))
}

#[test]
fn a_fault_of_the_return_fails_its_rule() {
    assert_eq!(failed_after_return(|back| back.signed_for = None), "return.signature");
    assert_eq!(
        failed_after_return(|back| back.signed_for = Some("ord-other".into())),
        "return.signature"
    );
    for (name, value) in [
        ("amount", "1"),
        ("currency", "EUR"),
        ("merchantCode", "X"),
        ("orderId", "x"),
        ("status", ""),
    ] {
        let failed = failed_after_return(|back| {
            let parameter = back.parameters.iter_mut().find(|(known, _)| known == name).unwrap();
            value.clone_into(&mut parameter.1);
        });
        assert_eq!(failed, "return.fields", "{name}");
    }
    assert_eq!(failed_after(|payment| payment.returns.clear()), "return.success");
    let mut observed = clean_run();
    observed.payments[1].returns.clear();
    assert_eq!(failed_rules(&observed), "return.cancel");
}

/// A sandbox's pages on this machine use http, so the https rules do not apply to them. QR codes
/// have no pages.
#[test]
fn rules_without_an_object_do_not_apply() {
    let outcomes = |observed: &RunObservations, prefix: &str| {
        let findings = evaluate_rules(observed)
            .into_iter()
            .filter(|finding| finding.rule.id().starts_with(prefix));
        findings.map(|finding| (finding.rule.id(), finding.outcome)).collect::<Vec<_>>()
    };
    let mut local = clean_run();
    local.parameters.profile = profile(&[("stage = \"draft\"", "stage = \"sandbox\"")]);
    for payment in &mut local.payments {
        let CreateOutcome::Opened(offer) = &mut payment.created else { continue };
        if let Presentation::RedirectUrl(url) = &mut offer.presentation {
            *url = "http://127.0.0.1:1/pay".to_owned();
        }
        for hop in payment.page.iter_mut().flat_map(|page| &mut page.hops) {
            hop.address = "http://127.0.0.1:1/pay".to_owned();
        }
    }
    for rule in ["create.redirect_url_not_https", "create.redirect_url_private", "page.https"] {
        assert_eq!(outcomes(&local, rule), [(rule.to_owned(), RuleResult::NotApplicable)]);
    }
    assert_eq!(failed_rules(&local), "");
    let mut codes = clean_run();
    for payment in &mut codes.payments {
        let CreateOutcome::Opened(offer) = &mut payment.created else { continue };
        offer.presentation = Presentation::QrPayload("code".to_owned());
        (payment.page, payment.returns) = (None, Vec::new());
    }
    for prefix in ["page.", "return.", "create.redirect_url"] {
        for (rule, outcome) in outcomes(&codes, prefix) {
            assert_eq!(outcome, RuleResult::NotApplicable, "{rule}");
        }
    }
    assert_eq!(Verdict::from_findings(&evaluate_rules(&codes)), Verdict::Passed);
}
