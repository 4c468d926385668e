//! The certification of a partner, tried on the real sandbox partner over loopback: without trouble
//! its report is clean, and with each trouble the named rule fails and no other. And the command as
//! a person runs it.

mod partner;
mod schemes;

use futures_util::{StreamExt, stream};
use partner::Partner;
use payfold_certify::judge::{RuleResult, Verdict};
use payfold_certify::report::Report;
use payfold_certify::rule::Rule;
use payfold_partners::profile::{DEFAULT_PROFILE, SANDBOX_PROFILE};
use payfold_sandbox::trouble::Trouble;
use payfold_sandbox::troubles::Troubles;
use serde_json::Value;

use crate::support::system::{Home, System};

/// How many partners are certified at the same time.
const AT_ONCE: usize = 16;

/// A trouble => the rule it breaks, or `clean` and the reason why it breaks none.
const BREAKS: &str = "
    pay                    => clean: it is no trouble
    fail                   => clean: a payment may fail
    cancel                 => clean: a payer may give up
    expire                 => clean: the partner may enforce an expiry of its own (2.1)
    late                   => clean: the contract sets no time for an IPN; it is paid in the session
    paid-late              => ipn.paid_in_session
    never                  => ipn.sent
    wrong-amount           => ipn.amount
    wrong-currency         => ipn.currency
    content-variant        => ipn.content
    content-variant-amount => ipn.amount
    second-ref             => ipn.paid_once
    reused-ref             => create.ref_unique
    refund-first           => clean: the contract orders no IPNs
    refund-only            => ipn.sent
    refund-twice           => ipn.refund_once
    refund-part            => ipn.refund_amount
    refund-parts           => ipn.refund_amount
    refund-after-fail      => ipn.one_outcome
    fail-after-success     => ipn.one_outcome
    expire-after-success   => ipn.one_outcome
    no-paid-at             => ipn.fields
    amount-text            => ipn.fields
    other-merchant         => ipn.ids
    duplicates             => ipn.once
    disorder               => ipn.once
    stale                  => ipn.timestamp
    wrong-key              => ipn.signature
    before-create          => clean: the contract orders no IPN after the create answer
    same-bytes             => ipn.retry_fresh
    give-up-refused        => ipn.retry_503
    give-up-silent         => ipn.retry_timeout
    frame-denied           => page.x_frame_options
    frame-ancestors        => page.frame_ancestors
    cookie-wall            => page.cookies
    page-http              => page.https
    page-error             => page.shown
    no-return              => return.success
    no-return-cancel       => return.cancel
    return-unsigned        => return.signature
    return-amount          => return.fields
    create-delayed         => clean: the answer comes within the profile's time
    create-500             => create.answered
    create-slow            => create.answered
    create-cut             => create.answered
    create-huge            => create.answered
    create-refused         => create.answered
    create-redirect        => create.redirect
    create-not-json        => create.not_json
    create-no-ref          => create.provider_ref
    create-both            => create.two_presentations
    create-neither         => create.no_presentation
    create-bad-url         => create.redirect_url
    create-http-url        => create.redirect_url_not_https
    create-userinfo        => create.redirect_url_userinfo
    create-bad-qr          => create.qr_payload
    create-no-expiry       => create.expires_at
    create-past-expiry     => create.expires_at_past
";

/// Rules that no trouble here can break: tests allow private addresses, and people check the two
/// rules about pages. Unit tests of the judgement break them.
const UNIT_TESTED: [&str; 3] = ["create.redirect_url_private", "page.width_360", "page.webview"];

/// The rows of `BREAKS`: a trouble, and the rule that it breaks or `clean`.
fn table() -> Vec<(Trouble, &'static str)> {
    let row = |line: &'static str| {
        let (word, breaks) = line.split_once("=>").expect("a row");
        let word = Trouble::parse(word.trim()).expect("a word");
        let breaks = breaks.trim();
        let (rule, reason) = breaks.split_once(": ").unwrap_or((breaks, ""));
        assert_eq!(rule == "clean", !reason.is_empty(), "{word}: clean needs a reason");
        (word, rule)
    };
    BREAKS.lines().map(str::trim).filter(|line| !line.is_empty()).map(row).collect()
}

#[test]
fn each_trouble_has_a_row_and_each_rule_a_way_to_fail() {
    let table = table();
    assert_eq!(table.iter().map(|(word, _)| *word).collect::<Vec<_>>(), Trouble::ALL);
    let ids: Vec<_> = Rule::all().into_iter().map(Rule::id).collect();
    for (word, rule) in &table {
        assert!(*rule == "clean" || ids.iter().any(|id| id == rule), "{word}: {rule}");
    }
    for id in ids {
        let broken = table.iter().any(|(_, rule)| *rule == id);
        assert!(broken != UNIT_TESTED.contains(&id.as_str()), "{id}");
    }
}

/// The document lists every rule with its clause, and no other.
#[test]
fn the_document_has_every_rule() {
    let document = include_str!("../../docs/certification.md");
    let rows = document.lines().filter(|line| line.starts_with("| `") && line.contains('.'));
    let row = |line: &'static str| {
        line.split('|').map(str::trim).nth(1).unwrap_or_default().trim_matches('`')
    };
    let listed: Vec<_> = rows.filter(|line| line.matches('|').count() == 4).map(row).collect();
    let ids: Vec<_> = Rule::all().into_iter().map(Rule::id).collect();
    assert_eq!(listed, ids);
    for rule in Rule::all() {
        let begins = format!("| `{}` | {} | ", rule.id(), rule.clause());
        assert!(document.contains(&begins), "{begins}");
    }
}

fn findings_with(report: &Report, outcome: RuleResult) -> String {
    let of = report.findings.iter().filter(|finding| finding.outcome == outcome);
    of.map(|finding| format!("{}: {}", finding.rule.id(), finding.evidence))
        .collect::<Vec<_>>()
        .join("\n")
}

#[actix_web::test]
async fn a_partner_without_trouble_has_a_clean_report() {
    let partner = Partner::start();
    let report = partner.certify(None).await;
    for outcome in [RuleResult::Failed, RuleResult::Open, RuleResult::NotTested] {
        let found = findings_with(&report, outcome);
        let refunds = found.lines().all(|line| line.starts_with("ipn.refund_"));
        assert!(refunds, "{outcome:?}\n{found}");
    }
    assert_eq!(report.verdict, Verdict::Passed);
    assert_eq!(report.count_results(RuleResult::Attested), 2);
    let not_applicable = findings_with(&report, RuleResult::NotApplicable);
    let ids: Vec<_> = not_applicable.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(ids, ["create.redirect_url_not_https", "create.redirect_url_private", "page.https"]);
}

/// The certifier names the page that a person has to open, and records what the person does there.
#[actix_web::test]
async fn people_can_pay_in_its_place() {
    let partner = Partner::start();
    let report = partner.certify_by_hand().await;
    for outcome in [RuleResult::Failed, RuleResult::Open] {
        assert_eq!(findings_with(&report, outcome), "");
    }
    assert_eq!(report.verdict, Verdict::Passed);
}

#[actix_web::test]
#[ignore = "nightly: loads"]
async fn each_trouble_fails_its_rule_and_no_other() {
    let partner = Partner::start();
    let runs = table().into_iter().map(|(word, rule)| {
        let partner = &partner;
        async move {
            let troubles = Troubles::new([word]).expect("a word goes with itself");
            (word, rule, partner.certify(Some(troubles)).await)
        }
    });
    let expected = |rule: &'static str| -> Vec<&str> {
        [rule].into_iter().filter(|rule| *rule != "clean").collect()
    };
    let mut runs = stream::iter(runs).buffer_unordered(AT_ONCE);
    let mut again = Vec::new();
    while let Some((word, rule, report)) = runs.next().await {
        if report.failed_rules() != expected(rule) {
            again.push((word, rule));
        }
    }
    drop(runs);
    // So many at once may overload a busy machine and cut a call. So a difference counts only if
    // the trouble differs when it is tried alone, too.
    let mut differing = Vec::new();
    for (word, rule) in again {
        let troubles = Troubles::new([word]).expect("a word goes with itself");
        let report = partner.certify(Some(troubles)).await;
        if report.failed_rules() != expected(rule) {
            differing
                .push(format!("#{word}: {rule}\n{}", findings_with(&report, RuleResult::Failed)));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n\n"));
}

/// The command beside a running demo: report, page, signature and exit codes.
#[test]
fn the_command_writes_a_report_that_verifies() {
    let system = System::demo();
    let certify = |more: &[&str]| {
        let always = ["partner", "certify", "sandbox", "--quiet", "700ms"];
        system.payfold(&[&always, more].concat())
    };
    let clean = certify(&[
        "--report",
        "r.json",
        "--attest",
        "width=Ana",
        "--attest",
        "webview=Bo <b>",
        "--output",
        "jsonl",
    ]);
    assert_eq!(clean.code(), 0, "{clean:?}");
    assert!(clean.stderr.contains("passed: "), "{}", clean.stderr);
    let rules = clean.json_lines();
    assert_eq!(rules.len(), Rule::all().len());
    assert_eq!(rules[0]["rule"], "create.answered");
    assert_eq!(rules[0]["result"], "passed");
    let text = system.home().read("r.json");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["report"]["verdict"], "passed");
    assert_eq!(report["report"]["profile"]["stage"], "sandbox");
    assert_eq!(report["report"]["attestations"][1]["by"], "Bo <b>");
    let key = system.home().data_file("sandbox.key");
    let page = system.home().read("r.html");
    assert!(page.contains(report["digest"].as_str().expect("a digest")) && !page.contains("<b>"));
    assert!(page.contains("ipn.retry_timeout") && !text.contains(&key));

    let verify = |file: &str, more: &[&str]| {
        system.payfold(&[&["partner", "certify", "--verify", file], more].concat())
    };
    let verified = verify("r.json", &[]);
    assert_eq!(verified.code(), 0, "{verified:?}");
    assert!(
        verified.stderr.contains("authenticated: passed of sandbox/DEMO"),
        "{}",
        verified.stderr
    );
    verify("r.json", &["--signer", &"0".repeat(64)]).fails(&["not by 0000"]);
    system.home().write("changed.json", &text.replacen("\"passed\"", "\"attested\"", 1));
    verify("changed.json", &[]).fails(&["proves nothing"]);

    goes_live_with_its_own_report_only(&system);

    let failed = certify(&["--report", "f.json", "--trouble", "frame-denied", "--output", "csv"]);
    assert_eq!(failed.code(), 3, "{failed:?}");
    let row = failed.stdout.lines().find(|line| line.starts_with("page.x_frame_options,"));
    assert!(
        row.is_some_and(|row| row.contains("failed") && row.contains("DENY")),
        "{}",
        failed.stdout
    );
    assert_eq!(verify("f.json", &[]).code(), 3, "authenticated, and it failed");
    assert!(failed.stderr.contains("2 open"), "no person has checked it: {}", failed.stderr);
}

/// The folder has the passed report `r.json` of another profile, and `changed.json`.
fn goes_live_with_its_own_report_only(system: &System) {
    let home = system.home();
    home.write("acme.toml", &DEFAULT_PROFILE.replace("stage = \"draft\"", "stage = \"sandbox\""));
    let of_file = ["--profile", "acme.toml"];
    let partner = |arguments: &[&str]| home.payfold(&[&["partner"], arguments, &of_file].concat());
    partner(&["freeze", "acme"]).ok();
    let promote = ["promote", "acme", "--to", "live"];
    for (proof, reason) in [
        (&[][..], "needs the report of its certification"),
        (&["--report", "none.json"], "can't be read"),
        (&["--report", "changed.json"], "proves nothing"),
        (&["--report", "r.json"], "is about sandbox with digest"),
    ] {
        partner(&[&promote, proof].concat()).fails(&[reason]);
    }
    let live = partner(&[&promote[..], &["--uncertified", "they have no sandbox"]].concat()).ok();
    assert!(live.contains("not certified: they have no sandbox"), "{live}");
    assert!(live.contains("is at stage live now"), "{live}");
}

/// A profile goes from draft to live with its own report: it is frozen, certified at its sandbox
/// here, and promoted.
#[test]
fn a_frozen_profile_that_passed_goes_live_with_its_report() {
    let system = System::demo();
    let url = system.sandbox_url();
    let folder = Home::configured("[partners.sandbox]\nprofile = \"acme.toml\"\n");
    folder.write("acme.toml", &SANDBOX_PROFILE.replace("stage = \"sandbox\"", "stage = \"draft\""));
    folder.add_key("sandbox", &system.home().data_file("sandbox.key"), &["--merchant", "DEMO"]);
    folder.payfold(&["partner", "freeze", "sandbox"]).ok();
    let attested = ["--attest", "width=Ana", "--attest", "webview=Bo"];
    let certify = |more: &[&str]| {
        let always = ["partner", "certify", "sandbox", "--quiet", "700ms", "--report", "r.json"];
        folder.payfold(&[&always[..], &attested[..], more].concat())
    };
    let passed = certify(&["--url", &url]);
    assert_eq!(passed.code(), 0, "{passed:?}");
    let report: Value = serde_json::from_str(&folder.read("r.json")).expect("JSON");
    assert_eq!(report["report"]["profile"]["stage"], "frozen");

    let promote = ["partner", "promote", "sandbox", "--to", "live", "--report", "r.json"];
    let frozen = folder.read("acme.toml");
    let (other, copy) = (frozen.replace("grace_s = 1", "grace_s = 2"), "acme.v1.frozen");
    folder.write("acme.toml", &other);
    folder.write(copy, &other);
    folder.payfold(&promote).fails(&["is about sandbox"]);
    folder.write("acme.toml", &frozen);
    folder.write(copy, &frozen);
    let live = folder.payfold(&promote).ok();
    assert!(live.contains("certified: passed") && live.contains(&url), "{live}");
    assert!(live.contains("is at stage live now"), "{live}");
    let now = folder.read("acme.toml");
    assert!(now.contains("stage = \"live\""), "{now}");
    // A live partner is not called at this machine.
    let refused = certify(&["--url", &url]);
    assert_ne!(refused.code(), 0, "{refused:?}");
}

/// Neither real payments at a live partner nor a partner without a way to answer happen by mistake.
#[test]
fn a_live_partner_is_certified_at_its_sandbox_and_a_remote_one_needs_a_public_url() {
    let home = Home::configured(
        "[partners.acme]\nprofile = \"acme.toml\"\napi_url = \"https://api.acme.example/v1\"\n",
    );
    let live = DEFAULT_PROFILE.replace("stage = \"draft\"", "stage = \"live\"");
    home.write("acme.toml", &live);
    home.write("acme.v1.frozen", &live);
    home.payfold(&["key", "add", "acme", "--merchant", "M"]).ok();
    let certify = |more: &[&str]| {
        let always = ["partner", "certify", "acme", "--report", "r.json"];
        home.payfold(&[&always, more].concat())
    };
    for same in [&[][..], &["--url", "https://api.acme.example/other"]] {
        certify(same).fails(&["acme is live", "--url"]);
    }
    certify(&["--url", "https://sandbox.acme.example"]).fails(&["can't send IPNs", "--public-url"]);
    assert!(!home.path().join("r.json").exists(), "nothing was begun");
}

#[test]
fn wrong_arguments_are_reported_before_anything_is_paid() {
    let system = System::demo();
    for (arguments, reason) in [
        (
            vec!["certify", "unknown", "--url", "http://127.0.0.1:9", "--report", "r.json"],
            "no account",
        ),
        (vec!["certify", "sandbox", "--report", "r.html"], "another ending"),
        (vec!["certify", "sandbox", "--report", "r.json", "--attest", "height=Ana"], "width=NAME"),
        (vec!["certify", "sandbox", "--report", "no/such/r.json"], "can't be written"),
        (vec!["certify", "sandbox", "--report", "r.json", "--identity", "none"], "--identity"),
        (vec!["certify", "--verify", "none.json"], "can't be read"),
    ] {
        system.payfold(&[&["partner"], arguments.as_slice()].concat()).fails(&[reason]);
    }
    assert_eq!(system.payfold(&["partner", "certify", "sandbox"]).code(), 2);
    let refused = system.payfold(&[
        "partner",
        "certify",
        "sandbox",
        "--url",
        "http://127.0.0.1:1",
        "--report",
        "r.json",
        "--output",
        "jsonl",
    ]);
    assert_eq!(refused.code(), 3, "no server listens there: {refused:?}");
    assert!(refused.stdout.contains("not connected"), "{}", refused.stdout);
}
