//! Owns the way out of quarantine on the real binary: refused and kept, released by two people,
//! dismissed, and what no person can release.

use std::time::Duration;

use hmac::Hmac;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::admin_api::Away;
use crate::support::demo::Demo;
use crate::support::notice::{Notice, hmac};
use crate::support::system::{Done, Home};
use crate::support::waits::until;
use crate::support::wire::request;

const WAIT_MAX: Duration = Duration::from_secs(40);
const STALE: &str = "timestamp_out_of_window";

/// A demo, and a second person who may decide.
fn stage() -> Demo {
    let demo = Demo::boot();
    demo.system.home().token_file("linh", "operator");
    until("the token counts", WAIT_MAX, || {
        let known =
            by(&demo, "linh", &["quarantine", "dismiss", "0-999999", "--reason", "nothing"]);
        (!known.stderr.contains("does not know this token")).then_some(())
    });
    demo
}

/// A command with the token in a file of the person's name.
fn by(stage: &Demo, name: &str, arguments: &[&str]) -> Done {
    let file = stage.system.home().file(&format!("{name}.token"));
    stage.system.payfold(&[arguments, &["--admin-token-file", &file]].concat())
}

/// Posts a notice that must be refused so.
fn refuse(stage: &Demo, notice: Notice, code: &str) {
    let answer = stage.system.post_ipn(&notice.signed(&stage.secret));
    assert_eq!(answer.code(), code, "{}", answer.text());
}

fn list(stage: &Demo, more: &[&str]) -> Vec<Value> {
    let list = ["quarantine", "list", "--output", "jsonl"];
    stage.system.payfold(&[&list[..], more].concat()).json_lines()
}

fn position(stage: &Demo, place: usize) -> String {
    list(stage, &[])[place]["position"].as_str().expect("a position").to_owned()
}

/// `result` and `detail` of each row.
fn results(done: &Done) -> Vec<(String, String)> {
    let rows: Vec<Value> =
        done.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    rows.iter().map(|row| (text(&row["result"]), text(&row["detail"]))).collect()
}

#[test]
fn a_stale_payment_is_released_by_two_and_once() {
    let stage = stage();
    let [order, provider_ref] = stage.open_order();
    let key = ["sandbox", "DEMO", order.as_str()];
    stage.system.order_when(key, |order| order["state"] == "PENDING");
    let notice = Notice::paid("DEMO", &order, &provider_ref).sent(-3_600);
    refuse(&stage, notice.clone(), STALE);
    let first = position(&stage, 0);
    let release = ["quarantine", "release", &first, "--because", "clock-fixed"];
    let said = ["--reason", "ticket 12", "--output", "jsonl"];
    let release = [&release[..], &said].concat();

    let done = stage.system.payfold(&release);
    assert_eq!(done.code(), 0, "{done:?}");
    assert_eq!(results(&done)[0].0, "waits", "{done:?}");
    assert_eq!(results(&stage.system.payfold(&release))[0].0, "waits", "the same person again");
    assert_eq!(list(&stage, &[])[0]["decision"]["decided"], false);
    // Only the person that decided first can withdraw.
    let withdraw = ["quarantine", "withdraw", &first, "--reason", "a slip", "--output", "jsonl"];
    let other = by(&stage, "linh", &withdraw);
    assert!(results(&other)[0].1.contains("only local can withdraw it"), "{other:?}");
    assert_eq!(results(&stage.system.payfold(&withdraw))[0].0, "withdrawn");
    assert_eq!(list(&stage, &[])[0]["decision"], Value::Null);
    assert_eq!(results(&stage.system.payfold(&release))[0].0, "waits", "it is made again");
    let pending = stage.system.order_when(key, |_| true);
    assert_eq!(pending["state"], "PENDING", "one person's word moves no money");

    let second = by(&stage, "linh", &release);
    assert_eq!(results(&second), [("released".to_owned(), "by local and linh".to_owned())]);
    let paid = stage.system.order_when(key, |order| order["state"] == "PAID");
    assert_eq!((&paid["fulfil"], &paid["paymentRef"]), (&json!(true), &json!(provider_ref)));
    let records = || stage.system.home().tail("intake").len();
    let before = records();
    for person in ["linh", "linh"] {
        assert_eq!(results(&by(&stage, person, &release))[0].0, "released");
    }
    assert_eq!(records(), before, "a second release appends nothing");
    refuse(&stage, notice.clone(), STALE);
    assert_eq!(list(&stage, &[]).len(), 1, "what is kept is kept once");
    refuse(&stage, notice.sent(-3_599), STALE);
    let again = position(&stage, 1);
    let bulk = ["quarantine", "release", &again, "--because", "late-retry", "--reason", "again"];
    stage.system.payfold(&bulk).ok();
    by(&stage, "linh", &bulk).ok();
    let after = stage.system.order_when(key, |_| true);
    assert_eq!(after["version"], paid["version"], "the same notice from another record is no news");

    let facts = ["order", "show", key[0], key[1], key[2], "--facts", "--output", "json"];
    let facts = stage.system.payfold(&facts).json();
    let released = &facts[2]["source"]["released"];
    assert_eq!((&released["code"], &released["because"]), (&json!(STALE), &json!("clock-fixed")));
    assert_eq!((&released["author"], &released["secondedBy"]), (&json!("local"), &json!("linh")));
    let listed = list(&stage, &[]);
    assert_eq!(released["evidence"], listed[0]["evidence"]);
    assert_eq!(released["requestId"], listed[0]["requestId"]);
    assert_eq!(listed[0]["decision"]["verdict"], "release");
    assert_eq!(list(&stage, &["--open"]).len(), 0);
    let table = stage.system.payfold(&["quarantine", "list"]).ok();
    assert!(table.contains("released by local and linh"), "{table}");
    let decisions = ["reconcile", "decisions", "--partner", "sandbox", "--output", "jsonl"];
    assert_eq!(
        stage.system.payfold(&decisions).json_lines().len(),
        6,
        "four on one, two on the other"
    );
    assert_read_alike(&stage, &first);
    let (home, _) = stage.system.stop();
    assert_eq!(home.payfold(&["log", "verify"]).code(), 0);
}

/// Another machine reads what this one reads; the first of two notices is at `first`.
fn assert_read_alike(stage: &Demo, first: &str) {
    let filter = ["quarantine", "release", "--because", "late-retry", "--partner", "sandbox"];
    let away = Away::from(&stage.system);
    for command in [
        &["quarantine", "list"][..],
        &["quarantine", "list", "--partner", "sandbox", "--limit", "1", "--output", "csv"],
        &["quarantine", "list", "--after", first, "--output", "json"],
        &["quarantine", "show", first],
        &[&filter[..], &["--dry-run"]].concat(),
        &["reconcile", "decisions"],
        &["reconcile", "decisions", "--output", "jsonl"],
        &["tail", "quarantine", "--no-follow"],
    ] {
        away.prints_as(&stage.system, command);
    }
    let rest = away.payfold(&["quarantine", "list", "--after", first, "--output", "json"]);
    assert_eq!(rest.json().as_array().map(Vec::len), Some(1));
}

#[test]
fn a_wrong_clock_is_undone_in_bulk_with_a_dry_run_before() {
    let stage = stage();
    let orders: Vec<[String; 2]> = (0..3).map(|_| stage.open_order()).collect();
    for [order, provider_ref] in &orders {
        refuse(&stage, Notice::paid("DEMO", order, provider_ref).sent(7_200), STALE);
    }
    let failed = Notice::paid("DEMO", "o-failed", "r-9").with_text("status", "FAILED").sent(-900);
    refuse(&stage, failed, STALE);
    refuse(&stage, Notice::paid("DEMO", "o-5", "r-5").without("paidAt"), "missing_field");
    let bulk = ["quarantine", "release", "--because", "clock-fixed", "--partner", "sandbox"];
    let bulk = [&bulk[..], &["--since", "1h", "--output", "jsonl"]].concat();
    let nothing_named = ["quarantine", "release", "--because", "clock-fixed", "--reason", "x"];
    let nothing_named = stage.system.payfold(&nothing_named);
    assert!(nothing_named.stderr.contains("neither positions nor filters"), "{nothing_named:?}");

    let tried = stage.system.payfold(&[&bulk[..], &["--dry-run"]].concat());
    let expected = ["takes two people"; 3].into_iter().chain(["takes one person"]);
    let expected: Vec<_> = expected.map(|takes| ("wouldBe".to_owned(), takes.to_owned())).collect();
    assert_eq!(results(&tried), expected, "{tried:?}");
    assert_eq!(list(&stage, &["--open"]).len(), 5, "a dry run changes nothing");
    let before = [&bulk[..], &["--until", "2026-01-01T00:00:00Z", "--dry-run"]].concat();
    assert_eq!(results(&stage.system.payfold(&before)), []);

    let bulk = [&bulk[..], &["--reason", "NTP was off"]].concat();
    let words =
        |done: &Done| results(done).into_iter().map(|(result, _)| result).collect::<Vec<_>>();
    assert_eq!(words(&stage.system.payfold(&bulk)), ["waits", "waits", "waits", "released"]);
    assert_eq!(words(&by(&stage, "linh", &bulk)), ["released", "released", "released", "already"]);
    assert_eq!(words(&by(&stage, "linh", &bulk)), ["already"; 4]);
    for [order, _] in &orders {
        stage.system.order_when(["sandbox", "DEMO", order], |order| order["state"] == "PAID");
    }
    let open = list(&stage, &["--open"]);
    assert_eq!(open.len(), 1);
    assert_eq!(open[0]["code"], "missing_field");
}

#[test]
fn what_cannot_be_released_is_refused_with_the_cause_and_dismissed() {
    let stage = stage();
    refuse(&stage, Notice::paid("DEMO", "o-1", "r-1").without("paidAt"), "missing_field");
    let failed = Notice::paid("DEMO", "o-2", "r-2").with_text("status", "FAILED").sent(-900);
    refuse(&stage, failed, STALE);
    let (missing, failed) = (position(&stage, 0), position(&stage, 1));
    let release = |position: &str, because: &str| {
        let release = ["quarantine", "release", position, "--because", because, "--reason", "x"];
        let done = stage.system.payfold(&[&release[..], &["--output", "jsonl"]].concat());
        done.fails(&["1 of 1 notices could not be decided"]);
        results(&done).remove(0).1
    };
    let problem = release(&missing, "clock-fixed");
    assert!(problem.contains("refused with missing_field, and clock-fixed"), "{problem}");
    let problem = release(&missing, "profile-fixed");
    assert!(problem.contains("missing_field, paidAt is required"), "{problem}");
    // What can't be judged does not stop the others; a mistyped position is found before any.
    let both = ["0-77", &missing, "--because", "clock-fixed", "--reason", "x"];
    let both = [&["quarantine", "release"], &both[..], &["--output", "jsonl"]].concat();
    let both = results(&stage.system.payfold(&both));
    assert!(both[0].1.contains("there is nothing at 0-77"), "{both:?}");
    assert!(both[1].1.contains("refused with missing_field"), "{both:?}");
    let mistyped = ["quarantine", "dismiss", &missing, "0:1", "--reason", "x"];
    stage.system.payfold(&mistyped).fails(&["a position is written partition-offset"]);
    let no_reason = ["quarantine", "dismiss", &failed, "--reason", " "];
    let no_reason = stage.system.payfold(&[&no_reason[..], &["--output", "jsonl"]].concat());
    assert!(results(&no_reason)[0].1.contains("takes a reason"), "{no_reason:?}");

    let dismiss = ["quarantine", "dismiss", &missing, &failed, "--reason", "the partner's test"];
    let dismiss = [&dismiss[..], &["--output", "jsonl"]].concat();
    let words =
        |done: &Done| results(done).into_iter().map(|(result, _)| result).collect::<Vec<_>>();
    // What can't be read may be money; a plain FAILED is none.
    assert_eq!(words(&stage.system.payfold(&dismiss)), ["waits", "dismissed"]);
    assert_eq!(words(&by(&stage, "linh", &dismiss)), ["dismissed", "dismissed"]);
    assert_eq!(list(&stage, &["--open"]).len(), 0);
    let shown = stage.system.payfold(&["quarantine", "show", &missing]).json();
    let said = shown["decisions"].as_array().expect("a list");
    assert_eq!(said.len(), 2);
    assert_eq!((&said[1]["decided"], &said[1]["secondedBy"]), (&json!(true), &json!("linh")));
    stage.system.home().write("stranger.token", "no token of this system");
    by(&stage, "stranger", &dismiss).fails(&["does not know this token"]);
}

/// A notice that was dismissed by mistake can be sent once more.
#[test]
fn a_dismissed_notice_is_kept_when_it_is_sent_once_more() {
    let stage = stage();
    let failed = Notice::paid("DEMO", "o-2", "r-2").with_text("status", "FAILED").sent(-900);
    refuse(&stage, failed.clone(), STALE);
    refuse(&stage, failed.clone(), STALE);
    assert_eq!(list(&stage, &[]).len(), 1, "what is kept is kept once");
    let dismiss = ["quarantine", "dismiss", &position(&stage, 0), "--reason", "a slip"];
    stage.system.payfold(&dismiss).ok();
    refuse(&stage, failed.clone(), STALE);
    refuse(&stage, failed, STALE);
    assert_eq!([list(&stage, &[]).len(), list(&stage, &["--open"]).len()], [2, 1]);
}

/// A custom scheme with the time of the payment in its notices.
const OWN: &str = r#"
version = 1
stage = "draft"
exceptions = ["event_time"]
[limits]
body_bytes = 4096
depth = 4
keys = 20
[notice]
content = "json"
[[sign]]
algorithm = "hmac-sha256"
text = "{body}"
signature = "{h.x-sig}"
output = "hex-lower"
[map]
order = "{f.order}"
ref = "{f.ref}"
amount = "{f.amount}"
currency = "EUR"
[[event]]
outcome = "FAILED"
[time]
kind = "event"
value = "{f.at}"
format = "unix_s"
skew_s = 300
max_age_s = 60
"#;

#[test]
fn a_release_verifies_a_custom_scheme_once_more() {
    let home = Home::configured("[partners.own]\nprofile = \"own.toml\"\n");
    home.write("own.toml", OWN);
    let secret = "a published test key, worth nothing at all";
    home.add_key("own", secret, &["--merchant", "SHOP"]);
    let system = home.boot();
    let refuse = |at: i64| {
        let body = format!(r#"{{"order":"o-1","ref":"r-1","amount":1500,"at":{at}}}"#);
        let signature = hmac::<Hmac<Sha256>>(secret, &body);
        let headers = format!("x-sig: {signature}\r\n");
        let path = "POST /api/payment/ipn/own?from=them";
        let answer = system.ask(&request(path, &headers, Some(body.as_bytes())));
        assert_eq!(answer.code(), STALE);
    };
    refuse(1_700_000_000);
    refuse(1_700_000_000);
    let release = ["quarantine", "release", "0-1", "--because", "late-retry", "--reason", "outage"];
    let release = [&release[..], &["--output", "jsonl"]].concat();
    assert_eq!(results(&system.payfold(&release)), [("released".into(), "by local".into())]);
    let order = system.order_when(["own", "SHOP", "o-1"], |order| order["state"] == "UNMATCHED");
    assert_eq!(order["version"], 1);
    // Without its key no signature can be verified.
    refuse(1_700_000_001);
    system.payfold(&["account", "set", "own", "SHOP", "--disabled"]);
    let problem = until("the account is off", WAIT_MAX, || {
        let tried = ["quarantine", "release", "0-2", "--because", "late-retry", "--dry-run"];
        let done = system.payfold(&[&tried[..], &["--output", "jsonl"]].concat());
        let (result, detail) = results(&done).remove(0);
        (result == "refused").then_some(detail)
    });
    assert!(problem.contains("no longer verifies it"), "{problem}");
}
