//! What people decide in the console: findings that are ticked and flags of orders, by two people,
//! and what each of them may and may not do.

use std::time::Duration;

use serde_json::Value;

use super::{ORIGIN, SOON, Visitor, token_of};
use crate::support::system::System;
use crate::support::waits::{early_in_hour, until};

pub const DECIDE: &str = "/decisions";
pub const WITHDRAW: &str = "/withdrawals";

/// Partners are not asked while people decide: each answer is evidence that they have not seen.
pub const UNASKED: (&str, &str) = ("PAYFOLD_RECONCILER__QUERY_AFTER", "1h");

/// A demo with flags on orders, compared with the partner's records: the flags are findings.
pub fn compared() -> System {
    early_in_hour(Duration::from_secs(60));
    let system = System::demo_with(&[UNASKED]);
    let pay = ["demo", "pay", "--count", "8", "--trouble", "second-ref,reused-ref", "--seed", "7"];
    system.payfold(&pay).ok();
    compare(&system);
    system
}

/// Compares the demo's orders with its partner's records: they differ.
pub fn compare(system: &System) {
    let (copy, day) = system.copy_records();
    let run = ["reconcile", "run", "sandbox", "--day", &day, "--records", &copy];
    assert_eq!(system.payfold(&run).code(), 3, "there are findings");
}

/// What the form of a page carries for a finding.
pub fn subject(finding: &Value) -> String {
    let text = |name: &str| finding[name].as_str().expect("a text");
    format!("{}@{}", text("findingId"), text("evidence"))
}

impl Visitor<'_> {
    /// Sends what a person filled in, and returns the page that answers it.
    pub fn decide(&self, path: &str, on: &[&str], fields: &str) -> String {
        let on: String = on.iter().map(|on| format!("&on={}", on.replace(' ', "+"))).collect();
        let fields = format!("post_token={}{on}&{fields}", self.post_token());
        let answer = self.send(path, self.origin, &fields);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }
}

/// A decision is taken from a form of the session only.
fn assert_only_own_forms_decide(visitor: &Visitor<'_>, other: &Visitor<'_>) {
    let form = format!("post_token={}", visitor.post_token());
    let of_other = format!("post_token={}", other.post_token());
    for path in [DECIDE, WITHDRAW] {
        for (origin, fields, status) in [
            ("", &*form, 403),
            ("origin: http://evil.test\r\n", &form, 403),
            (ORIGIN, "reason=x", 403),
            (ORIGIN, &of_other, 403),
            (ORIGIN, &format!("{form}&on=../x"), 400),
            (ORIGIN, &format!("{form}&choice=mine"), 400),
            (ORIGIN, &"x".repeat(80_000), 400),
        ] {
            let answer = visitor.send(path, origin, fields);
            assert_eq!(answer.status, status, "{path}: {origin}: {}", answer.text());
        }
    }
}

/// What one person decided first is put before the other one, and not before the person.
fn assert_others_are_asked(ann: &Visitor<'_>, bob: &Visitor<'_>) {
    let asked = bob.get("/findings").text();
    for said in ["<bdi>ann</bdi> decided: ours stands", "all 2 of these", "Agree</button>", "wait"]
    {
        assert!(asked.contains(said), "{said}: {asked}");
    }
    let waiting = bob.json("/findings?status=waiting").json();
    assert_eq!(waiting["findings"].as_array().map(Vec::len), Some(2), "{waiting}");
    let own = ann.get("/findings").text();
    assert!(own.contains("You decided these") && !own.contains("Agree</button>"), "{own}");
}

#[test]
fn two_people_decide_what_they_tick() {
    let system = compared();
    let [ann, bob, vic] = [("ann", "finance"), ("bob", "finance"), ("vic", "viewer")]
        .map(|(name, role)| Visitor::log_in(&system, &token_of(&system, name, role)));
    let page = ann.json("/findings?code=OPEN_FLAG").json();
    let findings = page["findings"].as_array().expect("findings");
    assert!(findings.len() > 2, "{page}");
    let [one, two] = [subject(&findings[0]), subject(&findings[1])];
    let text = ann.get("/findings").text();
    for said in [&*one, "One reference, different orders", "Do: ", "One ref, two orders", "at risk"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!vic.get("/findings").text().contains("name=\"on\""), "a viewer decides nothing");

    assert_only_own_forms_decide(&ann, &bob);
    let ours = "choice=ours&reason=both+were+delivered&back=/findings";
    let incomplete = [
        ("choice=ours&reason=+", "There is no reason. Nothing has changed."),
        ("reason=both+were+delivered", "Nothing is chosen. Nothing has changed."),
    ];
    for (fields, said) in incomplete {
        let page = ann.decide(DECIDE, &[&one], fields);
        assert!(page.contains(said) && page.contains(&one), "the form is there again: {page}");
        assert!(!fields.contains("both") || page.contains("both were delivered"), "{page}");
    }
    assert!(ann.decide(DECIDE, &[], ours).contains("Nothing is ticked."));
    let both = format!("{one},{two}");
    let page = ann.decide(DECIDE, &[&both, &one], ours);
    assert!(page.contains("Your 2 decisions are taken"), "each is decided once: {page}");
    assert_eq!(page.matches("waits for a second person").count(), 2, "{page}");
    let page = ann.decide(DECIDE, &[&one], ours);
    assert!(page.contains("Nothing is taken") && page.contains("not taken. "), "{page}");

    system.metric_when("payfold_reconciler_decisions_waiting", 2.0);
    assert_others_are_asked(&ann, &bob);

    let path = format!("/findings/{}", findings[0]["findingId"].as_str().expect("an id"));
    assert!(ann.get(&path).text().contains("Take your decision back"));
    let seen_by_bob = bob.get(&path).text();
    for said in ["It waits for a second person.", "If you agree with", "both were delivered"] {
        assert!(seen_by_bob.contains(said), "{said}: {seen_by_bob}");
    }
    let (id, _) = one.split_once('@').expect("an id");
    let stale = format!("{id}@{}", "00".repeat(32));
    let page = bob.decide(DECIDE, &[&stale], ours);
    assert!(page.contains("its evidence has changed since you saw it"), "{page}");
    let page = vic.decide(DECIDE, &[&one], ours);
    assert!(page.contains("not taken. "), "a viewer decides nothing: {page}");
    let page = bob.decide(DECIDE, &[&one], ours);
    assert!(
        page.contains("Your decision is taken") && page.contains("ann</bdi> and <bdi>bob"),
        "{page}"
    );
    let page = bob.decide(WITHDRAW, &[&two], "reason=a+slip");
    assert!(page.contains("only ann can withdraw it"), "{page}");
    let page = ann.decide(WITHDRAW, &[&two], "reason=a+slip");
    assert!(page.contains("Your decision is taken back"), "{page}");
    for (finding, status, earlier) in [(&findings[0], "decided", 0), (&findings[1], "open", 1)] {
        let path = format!("/findings/{}", finding["findingId"].as_str().expect("an id"));
        let finding = &bob.json(&path).json()["findings"][0];
        assert_eq!(finding["status"], status, "{finding}");
        let ended = finding["earlierDecisions"].as_array().map_or(0, Vec::len);
        assert_eq!(ended, earlier, "{finding}");
    }
    for path in ["/findings/none", "/findings/0123abcd"] {
        assert_eq!(bob.get(path).status, 404, "{path}");
    }
}

#[test]
fn two_people_decide_a_flag_on_its_order() {
    let system = compared();
    let [ann, bob] =
        ["ann", "bob"].map(|name| Visitor::log_in(&system, &token_of(&system, name, "finance")));
    let order = ann.json("/orders?flag=DOUBLE_PAYMENT").json()["orders"][0].clone();
    let flag = &order["flags"][0];
    assert_eq!(flag["flag"], "DOUBLE_PAYMENT", "{order}");
    let key = format!("sandbox/DEMO/{}", order["orderId"].as_str().expect("an id"));
    let on = format!("{key} DOUBLE_PAYMENT@{}", flag["evidence"].as_str().expect("a digest"));
    let path = format!("/orders/{key}");
    let page = ann.get(&path).text();
    let two = "It takes two people";
    for said in [&*on, "Decide DOUBLE_PAYMENT", "moves no money", two, "whether both payments"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let first = order["paymentRef"].as_str().expect("a reference");
    let both = format!("and <code>{first}-2</code>");
    assert!(page.contains(&both), "the other payment's reference, too: {page}");
    let of_records = "What the partner's records say otherwise";
    assert!(!page.contains(of_records), "the records say nothing about a flag: {page}");
    let partner = "choice=partner&reason=the+second+is+given+back";
    let said = ann.decide(DECIDE, &[&on], partner);
    assert!(said.contains("waits for a second person"), "{said}");
    assert!(ann.get(&path).text().contains("Take your decision back"));
    let page = bob.get(&path).text();
    assert!(page.contains("waits for a second person") && !page.contains(two), "{page}");
    let said = bob.decide(DECIDE, &[&on], partner);
    assert!(said.contains("ann</bdi> and <bdi>bob"), "{said}");
    until("the decision is folded", SOON, || {
        let order = &bob.json(&path).json()["order"];
        order["flags"][0]["decidedBy"].is_string().then_some(())
    });
    let decisions = ["reconcile", "decisions", "--order", &key, "--output", "jsonl"];
    let rows = system.payfold(&decisions).json_lines();
    let of_flag: Vec<_> = rows.iter().filter(|row| row["kind"] == "flag").collect();
    assert_eq!(of_flag.last().map(|row| &row["status"]), Some(&"final".into()), "{rows:?}");
    assert!(rows.iter().all(|row| row["on"] == *key), "{rows:?}");
    let findings = ["reconcile", "findings", "--order", &key, "--output", "jsonl"];
    let findings = system.payfold(&findings).json_lines();
    assert!(findings.iter().any(|row| row["status"] == "decided"), "{findings:?}");
    let wrong = ["reconcile", "findings", "--order", "sandbox/DEMO"];
    let refused = system.payfold(&wrong);
    assert_eq!(refused.code(), 2, "{refused:?}");
    assert!(refused.stderr.contains("--order"), "{}", refused.stderr);
}
