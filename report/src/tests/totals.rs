//! The explanations of differences in totals: exact to the minor unit, and nothing but what
//! findings contribute.

use payfold_schemas::finding::{Code, FindingStatus};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Amount;
use payfold_schemas::time::Time;

use super::super::explanation;
use super::assert_in_order;
use super::markup::elements;
use super::worlds::{self, TestDay};

#[test]
fn totals_are_explained_by_findings_and_the_rest_is_shown() {
    let found = elements(&TestDay::sample().page());
    let why: Vec<&str> =
        found.iter().filter(|e| e.has_class("why")).map(|e| e.text.as_str()).collect();
    let [refunded, usd, vnd] = why.as_slice() else { panic!("{why:?}") };
    assert_eq!(*refunded, "Findings: 1 × Missing here −50.00. The whole sum is explained.");
    assert_eq!(*usd, "Findings: 1 × Amount differs +0.50. The whole sum is explained.");
    for part in [
        "1 × Missing here −1,250,000",
        "2 × Missing at the partner +3,230,000",
        "1 × Status differs −890,000",
        "1 × Amount differs −1,350,000",
        "1 × Twice at the partner −320,000",
        "1 × Near midnight, next day's records +210,000",
        "No finding explains −75,000: look among the payments without a finding; the whole run has \
         1 within the grace period",
    ] {
        assert!(vnd.contains(part), "{part}: {vnd}");
    }
}

#[test]
fn amounts_in_two_currencies_are_each_written_in_their_own() {
    let mut world = TestDay::sample();
    world.findings.retain(|finding| finding.code == Code::AmountDiffers);
    world.findings.truncate(1);
    world.ended.totals.clear();
    let mut currency = world.findings[0].clone();
    currency.code = Code::CurrencyDiffers;
    currency.field = Some("currency".to_owned());
    currency.finding_id = "c".repeat(32);
    currency.ours.value = "KWD".to_owned();
    world.findings.push(currency);
    let page = world.page();
    assert_in_order(
        &page,
        &["AMOUNT_DIFFERS", "150.000 KWD", "1,500,000 VND", "CURRENCY_DIFFERS", "KWD"],
    );
    let report = world.report();
    let contributions = explanation::contributions(&report);
    let minor = |code: &str| {
        let key = ("2026-01-31".to_owned(), worlds::currency(code), Status::Success);
        contributions[&key][&Code::CurrencyDiffers].minor
    };
    assert_eq!((minor("KWD"), minor("VND")), (150_000, -1_500_000));
}

/// Findings about the line `SUCCESS 1500 USD` of the following day, with our value => their
/// contribution to a total.
const SHARES: &[(Code, &str, &str)] = &[
    (Code::MissingHere, "nothing", "2026-02-01 SUCCESS -1500"),
    (Code::StatusDiffers, "PENDING", "2026-02-01 SUCCESS -1500"),
    (Code::DuplicatedThere, "one", "2026-02-01 SUCCESS -1500"),
    (Code::OtherDay, "2026-01-20T10:00:00Z", "2026-02-01 SUCCESS -1500"),
    (Code::RefOnTwoOrders, "of order o2", "2026-02-01 SUCCESS -1500"),
    (Code::RefOnTwoOrders, "also of order o2", ""),
    (Code::AmountDiffers, "2000", "2026-01-31 SUCCESS +2000, 2026-02-01 SUCCESS -1500"),
    (Code::MissingThere, "REFUNDED 700 USD", "2026-01-31 REFUNDED +700"),
    (Code::CutOff, "SUCCESS 700 USD", "2026-01-31 SUCCESS +700"),
    (Code::MissingThere, "not known", ""),
    (Code::RefDiffers, "r2", ""),
    (Code::TimeDiffers, "2026-01-31T10:00:00Z", ""),
    (Code::ReferencePaidTwice, "paid as a, b", ""),
    (Code::NonceReused, "two contents", ""),
    (Code::PartnerSilent, "no notice", ""),
    (Code::OpenFlag, "DOUBLE_PAYMENT", ""),
];

#[test]
fn each_code_contributes_what_one_side_lacks() {
    let sample = TestDay::sample();
    let on_line = sample.findings.iter().find(|finding| finding.code == Code::MissingHere).unwrap();
    for (code, ours, expected) in SHARES {
        let mut world = TestDay::empty();
        let mut finding = on_line.clone();
        finding.code = *code;
        (*ours).clone_into(&mut finding.ours.value);
        finding.lines[0].currency = worlds::currency("USD");
        finding.lines[0].amount = Amount::from_minor(1_500).unwrap();
        finding.lines[0].at = Time::parse("2026-01-31T17:00:00Z").unwrap();
        world.findings = vec![finding];
        let mut lines: Vec<String> = explanation::contributions(&world.report())
            .into_iter()
            .map(|((day, _, status), contributions)| {
                format!("{day} {status} {:+}", contributions[code].minor)
            })
            .collect();
        lines.sort_unstable();
        assert_eq!(lines.join(", "), *expected, "{code} {ours}");
    }
}

#[test]
fn an_end_at_the_partner_of_a_payment_here_contributes_ours() {
    let mut world = TestDay::sample();
    world.findings.retain(|finding| finding.code == Code::StatusDiffers);
    world.findings.truncate(1);
    world.findings[0].lines[0].status = Status::Failed;
    let contributions = explanation::contributions(&world.report());
    let key = ("2026-01-31".to_owned(), worlds::currency("VND"), Status::Success);
    assert_eq!(contributions[&key][&Code::StatusDiffers].minor, 890_000);
    world.findings[0].status = FindingStatus::Cleared;
    assert!(
        explanation::contributions(&world.report()).is_empty(),
        "a cleared finding explains nothing"
    );
}
