//! A clean run passes. Each fault fails exactly one rule.

mod schemes;
mod visits;

use std::sync::Arc;

use payfold_partners::create::{CreateViolation, SessionOffer};
use payfold_partners::profile::{DEFAULT_PROFILE, Profile, Stage};
use payfold_partners::remote::{CreateFailure, CreateOutcome};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Presentation;
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;

use super::super::observations::*;
use super::super::report::ReportSubject;
use super::tally::count_items;
use super::*;

const NOW: Time = Time::from_unix_ms(1_769_853_600_000);

/// The default profile, with these replacements in its text.
fn profile(changes: &[(&str, &str)]) -> Arc<Profile> {
    let mut text = DEFAULT_PROFILE.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    Arc::new(Profile::parse(&PartnerCode::parse("sandbox").unwrap(), &text).unwrap())
}

const REF_IS_SESSION: (&str, &str) = ("ref_is_session = false", "ref_is_session = true");

pub(crate) fn subject() -> ReportSubject {
    ReportSubject {
        profile: profile(&[]).stamp().clone(),
        stage: Stage::Sandbox,
        merchant_code: MerchantCode::parse("DEMO").unwrap(),
        api_url: "https://api.partner.example".to_owned(),
        started_at: NOW,
        finished_at: NOW.plus_ms(5_000),
    }
}

fn signed_ipn(case: PaymentCase, status: Status, ms: i64) -> SignedIpn {
    let paid = status == Status::Success || status == Status::Refunded;
    SignedIpn {
        order_id: order_id(&case.to_string()),
        provider_ref: provider_ref(&format!("ref-{case}")),
        status,
        amount: amount(150_000),
        currency: Currency::parse("VND").unwrap(),
        paid_at: paid.then_some(NOW.plus_ms(10)),
        time: Some(NOW.plus_ms(ms)),
        event_ref: None,
        refund_so_far: false,
        signed: Some(Digest::of_bytes(format!("{case} {status:?} {ms}").as_bytes())),
        is_signed_anew: true,
    }
}

fn order_id(case: &str) -> OrderId {
    OrderId::parse(&format!("ord-{case}")).unwrap()
}

fn provider_ref(text: &str) -> ProviderRef {
    ProviderRef::parse(text).unwrap()
}

fn amount(minor: i64) -> Amount {
    Amount::from_minor(minor).unwrap()
}

fn deliver(ipn: SignedIpn, ms: i64, answer: IpnAnswer) -> IpnDelivery {
    let digest = Digest::of_bytes(format!("{ipn:?}").as_bytes());
    IpnDelivery { at: NOW.plus_ms(ms), digest, reading: IpnReading::Signed(ipn), answer }
}

fn back(case: PaymentCase, status: Status) -> ReceivedReturn {
    let order = order_id(&case.to_string()).to_string();
    let parameters = [
        ("merchantCode", "DEMO"),
        ("orderId", &order),
        ("providerRef", "r"),
        ("status", status.as_str()),
        ("amount", "150000"),
        ("currency", "VND"),
        ("paidAt", "2026-01-31T10:00:00Z"),
        ("timestamp", "2026-01-31T10:00:00Z"),
    ];
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    ReceivedReturn {
        at: NOW,
        signed_for: Some(order.clone()),
        parameters: parameters.map(owned).into(),
    }
}

fn payment(case: PaymentCase) -> ObservedPayment {
    let presentation = match case {
        PaymentCase::Qr => Presentation::QrPayload("code".to_owned()),
        _ => Presentation::RedirectUrl(format!("https://pay.partner.example/{case}")),
    };
    let provider_ref = provider_ref(&format!("ref-{case}"));
    let offer = SessionOffer { provider_ref, presentation, expires_at: NOW.plus_ms(900_000) };
    let status = if case == PaymentCase::Cancel { Status::Failed } else { Status::Success };
    let hop = |status| Hop {
        address: format!("https://pay.partner.example/{case}"),
        status,
        frame_options: Vec::new(),
        policies: vec!["frame-ancestors *".to_owned()],
    };
    let page = VisitedPage {
        hops: vec![hop(200), hop(303)],
        action: if case == PaymentCase::Cancel { PageAction::Cancelled } else { PageAction::Paid },
        cookies: CookieNeed::NotNeeded,
        ..VisitedPage::default()
    };
    let first = match case {
        PaymentCase::Busy => IpnAnswer::Unavailable,
        PaymentCase::Silent => IpnAnswer::NoAnswer,
        PaymentCase::Pay | PaymentCase::Cancel | PaymentCase::Qr => IpnAnswer::Acknowledged,
    };
    let mut deliveries = vec![deliver(signed_ipn(case, status, 20), 21, first)];
    if first != IpnAnswer::Acknowledged {
        deliveries.push(deliver(signed_ipn(case, status, 300), 301, IpnAnswer::Acknowledged));
    }
    let driven = case != PaymentCase::Qr;
    ObservedPayment {
        case,
        order_id: order_id(&case.to_string()),
        created: CreateOutcome::Opened(offer),
        took_ms: 12,
        page: driven.then_some(page),
        deliveries: if driven { deliveries } else { Vec::new() },
        returns: if driven { vec![back(case, status)] } else { Vec::new() },
    }
}

/// A run without faults.
pub(crate) fn clean_run() -> RunObservations {
    let attest = |item| Attestation { item, by: "Ana".to_owned(), at: NOW };
    RunObservations {
        parameters: RunParameters {
            merchant_code: MerchantCode::parse("DEMO").unwrap(),
            amount: amount(150_000),
            currency: Currency::parse("VND").unwrap(),
            profile: profile(&[REF_IS_SESSION]),
            platforms: vec!["https://shop.example".parse().unwrap()],
        },
        payments: PaymentCase::ALL.map(payment).into(),
        strangers: 0,
        attested: vec![attest(AttestedItem::Width), attest(AttestedItem::WebView)],
    }
}

fn failed_rules(observed: &RunObservations) -> String {
    let findings = evaluate_rules(observed);
    let failed = findings.iter().filter(|finding| finding.outcome == RuleResult::Failed);
    failed.map(|finding| finding.rule.id()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_clean_run_passes_whole() {
    let findings = evaluate_rules(&clean_run());
    for finding in &findings {
        let expected = match finding.rule {
            rule if rule.is_incidental() => RuleResult::NotTested,
            Rule::PageWidth | Rule::PageWebView => RuleResult::Attested,
            _ => RuleResult::Passed,
        };
        assert_eq!(finding.outcome, expected, "{finding:?}");
    }
    assert_eq!(Verdict::from_findings(&findings), Verdict::Passed);
}

#[test]
fn unattested_items_are_open_and_missing_events_not_tested() {
    let open = RunObservations { attested: Vec::new(), ..clean_run() };
    assert_eq!(Verdict::from_findings(&evaluate_rules(&open)), Verdict::Incomplete);
    let nothing = RunObservations { payments: Vec::new(), ..clean_run() };
    let findings = evaluate_rules(&nothing);
    assert!(
        findings.iter().all(|finding| finding.outcome == RuleResult::NotTested),
        "{findings:?}"
    );
    assert_eq!(Verdict::from_findings(&findings), Verdict::Incomplete);
}

/// The failed rules after a change to the payment `pay` of a clean run.
fn failed_after(change: impl Fn(&mut ObservedPayment)) -> String {
    let mut observed = clean_run();
    change(&mut observed.payments[0]);
    failed_rules(&observed)
}

/// The failed rules after a change to the first IPN of `pay`.
fn failed_after_ipn(change: impl Fn(&mut SignedIpn)) -> String {
    failed_after(|payment| {
        if let IpnReading::Signed(ipn) = &mut payment.deliveries[0].reading {
            change(ipn);
        }
    })
}

#[test]
fn a_fault_of_an_ipn_fails_its_rule_alone() {
    assert_eq!(failed_after_ipn(|ipn| ipn.amount = amount(1)), "ipn.amount");
    assert_eq!(
        failed_after_ipn(|ipn| ipn.currency = Currency::parse("EUR").unwrap()),
        "ipn.currency"
    );
    assert_eq!(failed_after_ipn(|ipn| ipn.order_id = order_id("other")), "ipn.ids");
    assert_eq!(failed_after_ipn(|ipn| ipn.provider_ref = provider_ref("other")), "ipn.ids");
    assert_eq!(failed_after_ipn(|ipn| ipn.time = Some(NOW.plus_ms(-299_979))), "");
    assert_eq!(failed_after_ipn(|ipn| ipn.time = Some(NOW.plus_ms(-299_980))), "ipn.timestamp");
    assert_eq!(failed_after_ipn(|ipn| ipn.time = Some(NOW.plus_ms(300_022))), "ipn.timestamp");
    assert_eq!(failed_after_ipn(|ipn| ipn.paid_at = Some(NOW.plus_ms(900_000))), "");
    assert_eq!(
        failed_after_ipn(|ipn| ipn.paid_at = Some(NOW.plus_ms(900_001))),
        "ipn.paid_in_session"
    );
    assert_eq!(failed_after_ipn(|ipn| ipn.status = Status::Failed), "ipn.sent");
    assert_eq!(failed_after(|payment| payment.deliveries.clear()), "ipn.sent");
    for reading in [
        IpnReading::Unread("malformed_json"),
        IpnReading::Inadmissible("paidAt is required".to_owned()),
    ] {
        let failed = failed_after(|payment| payment.deliveries[0].reading = reading.clone());
        assert_eq!(failed, "ipn.fields");
    }
    let forged = IpnReading::Unsigned(Some("DEMO".to_owned()));
    assert_eq!(
        failed_after(|payment| payment.deliveries[0].reading = forged.clone()),
        "ipn.signature"
    );
    let other_account = IpnReading::Unsigned(Some("OTHER".to_owned()));
    assert_eq!(
        failed_after(|payment| payment.deliveries[0].reading = other_account.clone()),
        "ipn.ids"
    );
}

/// The failed rules after one more IPN of a case.
fn failed_after_repeat(case: PaymentCase, change: impl Fn(&mut SignedIpn)) -> String {
    let mut observed = clean_run();
    let payment = observed.payments.iter_mut().find(|payment| payment.case == case).unwrap();
    let mut ipn = signed_ipn(case, Status::Success, 400);
    change(&mut ipn);
    payment.deliveries.push(deliver(ipn, 401, IpnAnswer::Acknowledged));
    failed_rules(&observed)
}

#[test]
fn a_repeated_ipn_fails_one_rule() {
    assert_eq!(failed_after_repeat(PaymentCase::Pay, |_| {}), "ipn.once");
    assert_eq!(failed_after_repeat(PaymentCase::Busy, |_| {}), "ipn.once");
    assert_eq!(failed_after_repeat(PaymentCase::Pay, |ipn| ipn.paid_at = Some(NOW)), "ipn.content");
    assert_eq!(failed_after_repeat(PaymentCase::Pay, |ipn| ipn.amount = amount(1)), "ipn.amount");
    assert_eq!(
        failed_after_repeat(PaymentCase::Pay, |ipn| ipn.status = Status::Failed),
        "ipn.one_outcome"
    );
    assert_eq!(
        failed_after_repeat(PaymentCase::Pay, |ipn| ipn.status = Status::Expired),
        "ipn.one_outcome"
    );
    assert_eq!(
        failed_after_repeat(PaymentCase::Cancel, |ipn| ipn.status = Status::Refunded),
        "ipn.one_outcome"
    );
    assert_eq!(failed_after_repeat(PaymentCase::Pay, |ipn| ipn.status = Status::Refunded), "");
    let part = |ipn: &mut SignedIpn| (ipn.status, ipn.amount) = (Status::Refunded, amount(1));
    assert_eq!(failed_after_repeat(PaymentCase::Pay, part), "ipn.refund_amount");
    let mut observed = clean_run();
    observed.parameters.profile = profile(&[]);
    let second = SignedIpn {
        provider_ref: provider_ref("second"),
        ..signed_ipn(PaymentCase::Pay, Status::Success, 400)
    };
    observed.payments[0].deliveries.push(deliver(second, 401, IpnAnswer::Acknowledged));
    assert_eq!(failed_rules(&observed), "ipn.paid_once");
    let mut observed = clean_run();
    for paid_at in [NOW, NOW.plus_ms(1)] {
        let refund = SignedIpn {
            paid_at: Some(paid_at),
            ..signed_ipn(PaymentCase::Pay, Status::Refunded, 400)
        };
        observed.payments[0].deliveries.push(deliver(refund, 401, IpnAnswer::Acknowledged));
    }
    assert_eq!(failed_rules(&observed), "ipn.refund_once");
}

#[test]
fn a_missing_or_stale_retry_fails_one_rule() {
    for (case, rule) in
        [(PaymentCase::Busy, "ipn.retry_503"), (PaymentCase::Silent, "ipn.retry_timeout")]
    {
        let mut observed = clean_run();
        let payment = observed.payments.iter_mut().find(|payment| payment.case == case).unwrap();
        let (first, last) = (payment.deliveries[0].clone(), payment.deliveries[1].clone());
        payment.deliveries.pop();
        assert_eq!(failed_rules(&observed), rule);
        let payment = observed.payments.iter_mut().find(|payment| payment.case == case).unwrap();
        payment.deliveries.push(IpnDelivery { at: last.at, answer: last.answer, ..first.clone() });
        assert_eq!(failed_rules(&observed), "ipn.retry_fresh", "the same signature");
        let mut failed_at = |ms| {
            let mut payments = observed.payments.iter_mut();
            let payment = payments.find(|payment| payment.case == case).unwrap();
            for (delivery, signed) in payment.deliveries.iter_mut().zip(["one", "other"]) {
                let IpnReading::Signed(ipn) = &mut delivery.reading else { continue };
                ipn.signed = Some(Digest::of_bytes(signed.as_bytes()));
                ipn.time = Some(NOW.plus_ms(ms));
            }
            failed_rules(&observed)
        };
        assert_eq!(failed_at(20), "ipn.retry_fresh", "the same time");
        assert_eq!(failed_at(0), "", "the same second");
    }
}

#[test]
fn a_create_response_fails_the_rule_it_breaks() {
    for violation in CreateViolation::ALL {
        let broken = CreateOutcome::Failed(CreateFailure::Violation(violation));
        let failed = failed_after(|payment| {
            payment.created = broken.clone();
            (payment.page, payment.deliveries, payment.returns) = (None, Vec::new(), Vec::new());
        });
        assert_eq!(failed, format!("create.{}", violation.name()));
    }
    for created in [
        CreateOutcome::Unknown("slow".to_owned()),
        CreateOutcome::Failed(CreateFailure::Refused(401)),
    ] {
        let failed = failed_after(|payment| {
            payment.created = created.clone();
            (payment.page, payment.deliveries, payment.returns) = (None, Vec::new(), Vec::new());
        });
        assert_eq!(failed, "create.answered");
    }
    let shared = |payment: &mut ObservedPayment| {
        let CreateOutcome::Opened(offer) = &mut payment.created else { return };
        offer.provider_ref = provider_ref("ref-cancel");
        if let IpnReading::Signed(ipn) = &mut payment.deliveries[0].reading {
            ipn.provider_ref = provider_ref("ref-cancel");
        }
    };
    assert_eq!(failed_after(shared), "create.ref_unique");
}

#[test]
fn evidence_counts_in_singular_and_plural() {
    assert_eq!([count_items(1, "retry"), count_items(2, "retry")], ["1 retry", "2 retries"]);
    assert_eq!(
        [count_items(0, "status"), count_items(3, "signed IPN")],
        ["0 statuses", "3 signed IPNs"]
    );
}
