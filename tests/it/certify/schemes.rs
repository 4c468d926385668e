//! Partners with a scheme of their own are certified, too: the sandbox plays each shipped profile.

use std::collections::BTreeSet;

use payfold_certify::judge::{RuleResult, Verdict};
use payfold_sandbox::trouble::Trouble;
use payfold_sandbox::troubles::Troubles;

use super::findings_with;
use super::partner::Partner;

/// The rules that no shipped profile has a use for, and those of https: the sandbox has http.
const NOT_APPLICABLE: [&str; 13] = [
    "create.provider_ref",
    "create.two_presentations",
    "create.redirect_url_not_https",
    "create.redirect_url_private",
    "create.expires_at",
    "create.expires_at_past",
    "create.ref_unique",
    "ipn.retry_fresh",
    "ipn.content",
    "ipn.refund_amount",
    "return.signature",
    "return.fields",
    "page.https",
];

/// A report without faults, in which these rules don't apply, too; and one of forged IPNs.
async fn certifies(shipped: &str, money: (i64, &'static str), not_applicable: &[&str]) {
    let partner = Partner::play(shipped, money);
    let report = partner.certify(None).await;
    for outcome in [RuleResult::Failed, RuleResult::Open] {
        assert_eq!(findings_with(&report, outcome), "", "{shipped}: {outcome:?}");
    }
    let found = findings_with(&report, RuleResult::NotApplicable);
    let found: BTreeSet<_> = found.lines().filter_map(|line| line.split(':').next()).collect();
    let expected: BTreeSet<_> = [&NOT_APPLICABLE, not_applicable].concat().into_iter().collect();
    assert_eq!(found, expected, "{shipped}");
    let not_tested = findings_with(&report, RuleResult::NotTested);
    assert_eq!(report.verdict, Verdict::Passed, "{shipped}: {not_tested}");

    let forged = Troubles::new([Trouble::WrongKey]).expect("one goes with itself");
    let report = partner.certify(Some(forged)).await;
    let failed = findings_with(&report, RuleResult::Failed);
    assert_eq!(report.failed_rules(), ["ipn.signature"], "{shipped}: {failed}");
}

#[actix_web::test]
async fn razorpay_is_certified() {
    certifies("razorpay", (50_000, "INR"), &["create.qr_payload"]).await;
}

#[actix_web::test]
async fn zalopay_is_certified() {
    certifies("zalopay", (150_000, "VND"), &[]).await;
}

#[actix_web::test]
async fn momo_is_certified() {
    certifies("momo", (150_000, "VND"), &[]).await;
}

#[actix_web::test]
async fn midtrans_is_certified() {
    let no_times = ["create.qr_payload", "ipn.timestamp", "ipn.paid_in_session"];
    certifies("midtrans", (15_000_000, "IDR"), &no_times).await;
}

#[actix_web::test]
async fn square_is_certified() {
    certifies("square", (1_050, "USD"), &["create.qr_payload"]).await;
}
