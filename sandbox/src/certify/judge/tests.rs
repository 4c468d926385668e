//! A clean run passes; each thing that can be wrong with one fails one rule and no other.

use payfold_partners::create::{Offer, Violation};
use payfold_partners::outbound::Reach;
use payfold_partners::profile::{Profile, Stage};
use payfold_partners::remote::{Created, Failure};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Presentation;
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;

use super::super::report::Subject;
use super::super::seen::*;
use super::*;

const NOW: Time = Time::from_unix_ms(1_769_853_600_000);

fn profile() -> Profile {
    Profile::sandbox_for(&PartnerCode::parse("sandbox").unwrap())
}

pub(in crate::certify) fn subject() -> Subject {
    Subject {
        profile: profile().stamp().clone(),
        stage: Stage::Sandbox,
        merchant_code: MerchantCode::parse("DEMO").unwrap(),
        api_url: "https://api.partner.example".to_owned(),
        started_at: NOW,
        finished_at: NOW.plus_ms(5_000),
    }
}

fn told(case: Case, status: Status, ms: i64) -> Told {
    let paid = status == Status::Success || status == Status::Refunded;
    Told {
        order_id: format!("cert-{case}"),
        provider_ref: format!("ref-{case}"),
        status: Some(status),
        amount: Some(150_000),
        currency: "VND".to_owned(),
        paid_at: paid.then_some(NOW.plus_ms(10)),
        time: Some(NOW.plus_ms(ms)),
        problems: Vec::new(),
    }
}

fn came(told: Told, ms: i64, answered: Answered) -> Delivery {
    let digest = Digest::of_bytes(format!("{told:?}").as_bytes());
    Delivery { at: NOW.plus_ms(ms), digest, reading: Reading::Signed(told), answered }
}

fn back(case: Case, status: Status) -> Return {
    let order = format!("cert-{case}");
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
    Return { at: NOW, signed_for: Some(order.clone()), parameters: parameters.map(owned).into() }
}

fn payment(case: Case) -> Payment {
    let presentation = match case {
        Case::Qr => Presentation::QrPayload("code".to_owned()),
        _ => Presentation::RedirectUrl(format!("https://pay.partner.example/{case}")),
    };
    let provider_ref = ProviderRef::parse(&format!("ref-{case}")).unwrap();
    let offer = Offer { provider_ref, presentation, expires_at: NOW.plus_ms(900_000) };
    let status = if case == Case::Cancel { Status::Failed } else { Status::Success };
    let hop = |status| Hop {
        address: format!("https://pay.partner.example/{case}"),
        status,
        frame_options: Vec::new(),
        policies: vec!["frame-ancestors *".to_owned()],
    };
    let page = Page {
        hops: vec![hop(200), hop(303)],
        done: if case == Case::Cancel { Done::Cancelled } else { Done::Paid },
        cookies: Cookies::NotNeeded,
        ..Page::default()
    };
    let first = match case {
        Case::Busy => Answered::Busy,
        Case::Silent => Answered::Silent,
        Case::Pay | Case::Cancel | Case::Qr => Answered::Taken,
    };
    let mut deliveries = vec![came(told(case, status, 20), 21, first)];
    if first != Answered::Taken {
        deliveries.push(came(told(case, status, 300), 301, Answered::Taken));
    }
    let driven = case != Case::Qr;
    Payment {
        case,
        order_id: OrderId::parse(&format!("cert-{case}")).unwrap(),
        created: Created::Opened(offer),
        took_ms: 12,
        page: driven.then_some(page),
        deliveries: if driven { deliveries } else { Vec::new() },
        returns: if driven { vec![back(case, status)] } else { Vec::new() },
    }
}

/// A run in which everything is right.
pub(in crate::certify) fn clean() -> Seen {
    let attest = |item| Attestation { item, by: "Ana".to_owned(), at: NOW };
    Seen {
        asked: Asked {
            merchant_code: MerchantCode::parse("DEMO").unwrap(),
            amount: Amount::from_minor(150_000).unwrap(),
            currency: Currency::parse("VND").unwrap(),
            time: *profile().time(),
            session_ref: SessionRef::Same,
            reach: Reach::Public,
            platforms: vec!["https://shop.example".parse().unwrap()],
        },
        payments: Case::ALL.map(payment).into(),
        attested: vec![attest(Item::Width), attest(Item::WebView)],
    }
}

fn failed(seen: &Seen) -> String {
    let findings = judge(seen);
    let failed = findings.iter().filter(|finding| finding.outcome == Outcome::Failed);
    failed.map(|finding| finding.rule.id()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_clean_run_passes_whole() {
    let findings = judge(&clean());
    for finding in &findings {
        let expected = match finding.rule {
            rule if rule.is_incidental() => Outcome::NotTested,
            Rule::PageWidth | Rule::PageWebView => Outcome::Attested,
            _ => Outcome::Passed,
        };
        assert_eq!(finding.outcome, expected, "{finding:?}");
    }
    assert_eq!(Verdict::of(&findings), Verdict::Passed);
}

#[test]
fn what_nobody_looked_at_is_open_and_what_did_not_happen_not_tested() {
    let open = Seen { attested: Vec::new(), ..clean() };
    assert_eq!(Verdict::of(&judge(&open)), Verdict::Incomplete);
    let nothing = Seen { payments: Vec::new(), ..clean() };
    let findings = judge(&nothing);
    assert!(findings.iter().all(|finding| finding.outcome == Outcome::NotTested), "{findings:?}");
    assert_eq!(Verdict::of(&findings), Verdict::Incomplete);
}

/// One change of a clean run's `pay` and what fails then.
fn changed(change: impl Fn(&mut Payment)) -> String {
    let mut seen = clean();
    change(&mut seen.payments[0]);
    failed(&seen)
}

/// The same of what the first IPN of `pay` says.
fn said(change: impl Fn(&mut Told)) -> String {
    changed(|payment| {
        if let Reading::Signed(told) = &mut payment.deliveries[0].reading {
            change(told);
        }
    })
}

#[test]
fn a_fault_of_an_ipn_fails_its_rule_alone() {
    assert_eq!(said(|told| told.amount = Some(1)), "ipn.amount");
    assert_eq!(said(|told| told.currency = "EUR".to_owned()), "ipn.currency");
    assert_eq!(said(|told| told.paid_at = None), "ipn.paid_at");
    assert_eq!(said(|told| told.order_id = "cert-other".to_owned()), "ipn.ids");
    assert_eq!(said(|told| told.provider_ref = "other".to_owned()), "ipn.ids");
    assert_eq!(said(|told| told.problems.push("nonce is missing".to_owned())), "ipn.fields");
    assert_eq!(said(|told| told.time = Some(NOW.plus_ms(-299_979))), "");
    assert_eq!(said(|told| told.time = Some(NOW.plus_ms(-299_980))), "ipn.timestamp");
    assert_eq!(said(|told| told.time = Some(NOW.plus_ms(300_022))), "ipn.timestamp");
    assert_eq!(said(|told| told.paid_at = Some(NOW.plus_ms(900_000))), "");
    assert_eq!(said(|told| told.paid_at = Some(NOW.plus_ms(900_001))), "ipn.paid_in_session");
    assert_eq!(said(|told| told.status = Some(Status::Failed)), "ipn.sent");
    assert_eq!(changed(|payment| payment.deliveries.clear()), "ipn.sent");
    let unread = Reading::Unread("malformed_json");
    assert_eq!(changed(|payment| payment.deliveries[0].reading = unread.clone()), "ipn.fields");
    let forged = Reading::Unsigned(Some("DEMO".to_owned()));
    assert_eq!(changed(|payment| payment.deliveries[0].reading = forged.clone()), "ipn.signature");
    let of_nobody = Reading::Unsigned(Some("OTHER".to_owned()));
    assert_eq!(changed(|payment| payment.deliveries[0].reading = of_nobody.clone()), "ipn.ids");
}

/// One more IPN of `pay`, or of another case, after the others.
fn more(case: Case, change: impl Fn(&mut Told)) -> String {
    let mut seen = clean();
    let payment = seen.payments.iter_mut().find(|payment| payment.case == case).unwrap();
    let mut told = told(case, Status::Success, 400);
    change(&mut told);
    payment.deliveries.push(came(told, 401, Answered::Taken));
    failed(&seen)
}

#[test]
fn what_comes_again_fails_one_rule() {
    assert_eq!(more(Case::Pay, |_| {}), "ipn.once");
    assert_eq!(more(Case::Busy, |_| {}), "ipn.once");
    assert_eq!(more(Case::Pay, |told| told.paid_at = Some(NOW)), "ipn.content");
    assert_eq!(more(Case::Pay, |told| told.amount = Some(1)), "ipn.amount");
    assert_eq!(more(Case::Pay, |told| told.status = Some(Status::Failed)), "ipn.one_outcome");
    assert_eq!(more(Case::Pay, |told| told.status = Some(Status::Expired)), "ipn.one_outcome");
    assert_eq!(more(Case::Cancel, |told| told.status = Some(Status::Refunded)), "ipn.one_outcome");
    assert_eq!(more(Case::Pay, |told| told.status = Some(Status::Refunded)), "");
    let part = |told: &mut Told| (told.status, told.amount) = (Some(Status::Refunded), Some(1));
    assert_eq!(more(Case::Pay, part), "ipn.refund_amount");
    let mut seen = clean();
    seen.asked.session_ref = SessionRef::Any;
    let second =
        Told { provider_ref: "second".to_owned(), ..told(Case::Pay, Status::Success, 400) };
    seen.payments[0].deliveries.push(came(second, 401, Answered::Taken));
    assert_eq!(failed(&seen), "ipn.paid_once");
    let mut seen = clean();
    for paid_at in [NOW, NOW.plus_ms(1)] {
        let refund = Told { paid_at: Some(paid_at), ..told(Case::Pay, Status::Refunded, 400) };
        seen.payments[0].deliveries.push(came(refund, 401, Answered::Taken));
    }
    assert_eq!(failed(&seen), "ipn.refund_once");
}

#[test]
fn what_does_not_come_again_or_comes_stale_fails_one_rule() {
    for (case, rule) in [(Case::Busy, "ipn.retry_503"), (Case::Silent, "ipn.retry_timeout")] {
        let mut seen = clean();
        let payment = seen.payments.iter_mut().find(|payment| payment.case == case).unwrap();
        let (first, last) = (payment.deliveries[0].clone(), payment.deliveries[1].clone());
        payment.deliveries.pop();
        assert_eq!(failed(&seen), rule);
        let payment = seen.payments.iter_mut().find(|payment| payment.case == case).unwrap();
        payment.deliveries.push(Delivery { at: last.at, answered: last.answered, ..first.clone() });
        assert_eq!(failed(&seen), "ipn.retry_fresh", "the same bytes");
        let payment = seen.payments.iter_mut().find(|payment| payment.case == case).unwrap();
        payment.deliveries[1].digest = Digest::of_bytes(b"other bytes");
        assert_eq!(failed(&seen), "ipn.retry_fresh", "the same time");
    }
}

#[test]
fn a_create_answer_fails_the_rule_it_breaks() {
    for violation in Violation::ALL {
        let broken = Created::Failed(Failure::Violation(violation));
        let failed = changed(|payment| {
            payment.created = broken.clone();
            (payment.page, payment.deliveries, payment.returns) = (None, Vec::new(), Vec::new());
        });
        assert_eq!(failed, format!("create.{}", violation.name()));
    }
    for created in [Created::Unknown("slow".to_owned()), Created::Failed(Failure::Refused(401))] {
        let failed = changed(|payment| {
            payment.created = created.clone();
            (payment.page, payment.deliveries, payment.returns) = (None, Vec::new(), Vec::new());
        });
        assert_eq!(failed, "create.answered");
    }
    let shared = |payment: &mut Payment| {
        let Created::Opened(offer) = &mut payment.created else { return };
        offer.provider_ref = ProviderRef::parse("ref-cancel").unwrap();
        if let Reading::Signed(told) = &mut payment.deliveries[0].reading {
            told.provider_ref = "ref-cancel".to_owned();
        }
    };
    assert_eq!(changed(shared), "create.ref_unique");
}

fn page(change: impl Fn(&mut Page)) -> String {
    changed(|payment| change(payment.page.as_mut().unwrap()))
}

#[test]
fn a_fault_of_the_page_fails_its_rule() {
    assert_eq!(page(|page| page.hops[0].frame_options.push("DENY".into())), "page.x_frame_options");
    let closed = "frame-ancestors 'self'".to_owned();
    assert_eq!(page(|page| page.hops[0].policies.push(closed.clone())), "page.frame_ancestors");
    assert_eq!(page(|page| page.cookies = Cookies::Needed), "page.cookies");
    let tls = PageProblem::Tls("UnknownIssuer".to_owned());
    assert_eq!(page(|page| page.problem = Some(tls.clone())), "page.https");
    let gone = PageProblem::Unreachable("refused".to_owned());
    assert_eq!(page(|page| page.problem = Some(gone.clone())), "page.shown");
    assert_eq!(
        page(|page| page.hops = vec![Hop { status: 500, ..page.hops[0].clone() }]),
        "page.shown"
    );
    // Cookies that nobody could do without trying: a person's word.
    let mut seen = clean();
    for payment in &mut seen.payments {
        if let Some(page) = &mut payment.page {
            (page.cookies, page.cookies_set, page.done) = (Cookies::Unknown, 1, Done::LeftToPerson);
        }
    }
    let outcome = |seen: &Seen| {
        let findings = judge(seen);
        findings.iter().find(|finding| finding.rule == Rule::PageCookies).unwrap().outcome
    };
    assert_eq!(outcome(&seen), Outcome::Open);
    seen.attested.push(Attestation { item: Item::Cookies, by: "Bo".to_owned(), at: NOW });
    assert_eq!(outcome(&seen), Outcome::Attested);
}

fn returned(change: impl Fn(&mut Return)) -> String {
    changed(|payment| change(&mut payment.returns[0]))
}

#[test]
fn a_fault_of_the_return_fails_its_rule() {
    assert_eq!(returned(|back| back.signed_for = None), "return.signature");
    assert_eq!(returned(|back| back.signed_for = Some("cert-other".into())), "return.signature");
    for (name, value) in [
        ("amount", "1"),
        ("currency", "EUR"),
        ("merchantCode", "X"),
        ("orderId", "x"),
        ("status", ""),
    ] {
        let failed = returned(|back| {
            let parameter = back.parameters.iter_mut().find(|(known, _)| known == name).unwrap();
            value.clone_into(&mut parameter.1);
        });
        assert_eq!(failed, "return.fields", "{name}");
    }
    assert_eq!(changed(|payment| payment.returns.clear()), "return.success");
    let mut seen = clean();
    seen.payments[1].returns.clear();
    assert_eq!(failed(&seen), "return.cancel");
}

/// Addresses of a sandbox's pages on this machine are http, and that is no rule kept; codes have no pages at all.
#[test]
fn what_there_is_not_does_not_apply() {
    let outcomes = |seen: &Seen, prefix: &str| {
        let findings =
            judge(seen).into_iter().filter(|finding| finding.rule.id().starts_with(prefix));
        findings.map(|finding| (finding.rule.id(), finding.outcome)).collect::<Vec<_>>()
    };
    let mut local = clean();
    local.asked.reach = Reach::Sandbox;
    for payment in &mut local.payments {
        let Created::Opened(offer) = &mut payment.created else { continue };
        if let Presentation::RedirectUrl(url) = &mut offer.presentation {
            *url = "http://127.0.0.1:1/pay".to_owned();
        }
        for hop in payment.page.iter_mut().flat_map(|page| &mut page.hops) {
            hop.address = "http://127.0.0.1:1/pay".to_owned();
        }
    }
    for rule in ["create.redirect_url_not_https", "create.redirect_url_private", "page.https"] {
        assert_eq!(outcomes(&local, rule), [(rule.to_owned(), Outcome::NotApplicable)]);
    }
    assert_eq!(failed(&local), "");
    let mut codes = clean();
    for payment in &mut codes.payments {
        let Created::Opened(offer) = &mut payment.created else { continue };
        offer.presentation = Presentation::QrPayload("code".to_owned());
        (payment.page, payment.returns) = (None, Vec::new());
    }
    for prefix in ["page.", "return.", "create.redirect_url"] {
        for (rule, outcome) in outcomes(&codes, prefix) {
            assert_eq!(outcome, Outcome::NotApplicable, "{rule}");
        }
    }
    assert_eq!(Verdict::of(&judge(&codes)), Verdict::Passed);
}

#[test]
fn evidence_counts_in_words() {
    assert_eq!([counted(1, "retry"), counted(2, "retry")], ["1 retry", "2 retries"]);
    assert_eq!([counted(0, "status"), counted(3, "signed IPN")], ["0 statuses", "3 signed IPNs"]);
}
