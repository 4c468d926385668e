//! Owns the comparison with a partner's records on the real binary: the demo's troubles against the
//! sandbox's own books, decisions by two people, the closing of a day, and a finding that mends
//! itself.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use serde_json::Value;

use crate::admin_api::Away;
use crate::support::notice::Notice;
use crate::support::pair::Pair;
use crate::support::system::{Home, System};
use crate::support::waits::{early_in_hour, until};

const WAIT_MAX: Duration = Duration::from_secs(40);

/// `order code` of the findings that are open.
fn open(system: &System) -> BTreeSet<(String, String)> {
    let listing = ["reconcile", "findings", "--open", "--limit", "1000", "--output", "jsonl"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = system.payfold(&listing).json_lines();
    findings.iter().map(|finding| (text(&finding["orderId"]), text(&finding["code"]))).collect()
}

/// The orders with this flag, and what a comparison must say of them.
fn flagged(system: &System, flag: &str, code: &str) -> BTreeSet<(String, String)> {
    let listing = ["order", "list", "--flag", flag, "--limit", "1000", "--output", "jsonl"];
    let orders = system.payfold(&listing).json_lines();
    let differs = |order: &&Value| code != "STATUS_DIFFERS" || order["state"] == "PENDING";
    let id = |order: &Value| order["orderId"].as_str().expect("an id").to_owned();
    orders.iter().filter(differs).map(|order| (id(order), code.to_owned())).collect()
}

/// The orders with an open flag of high or critical severity: each is a finding of the day.
fn with_open_flags(system: &System) -> BTreeSet<(String, String)> {
    let listing = ["order", "list", "--limit", "1000", "--output", "jsonl"];
    let orders = system.payfold(&listing).json_lines();
    let has_flag = |order: &&Value| !order["attention"].as_array().expect("flags").is_empty();
    let id = |order: &Value| order["orderId"].as_str().expect("an id").to_owned();
    orders.iter().filter(has_flag).map(|order| (id(order), "OPEN_FLAG".to_owned())).collect()
}

/// The differences that the demo's troubles leave are found in the partner's records and in the
/// flags of the orders, and two people decide them; a day that is over is closed.
pub fn what_the_trouble_made_is_found_decided_and_closed(pair: Pair) {
    early_in_hour(Duration::from_secs(60));
    let Some(home) = pair.home() else { return };
    let system = home.boot();
    let paid = system.payfold(&["demo", "pay", "--count", "90", "--trouble", "all", "--seed", "7"]);
    assert_eq!(paid.code(), 0, "{}", paid.stdout);
    // An order with only refused notices is PENDING until its partner is asked.
    until("no order waits for a query", WAIT_MAX, || {
        let listing = ["order", "list", "--limit", "1000", "--output", "jsonl"];
        let waits = |order: &Value| {
            order["state"] == "PENDING" && order["attention"].as_array().is_some_and(Vec::is_empty)
        };
        (!system.payfold(&listing).json_lines().iter().any(waits)).then_some(())
    });
    let (file, day) = system.copy_records();
    let run = ["reconcile", "run", "sandbox", "--day", &day, "--records", &file];
    let first = system.payfold(&run);
    assert_eq!(first.code(), 3, "{}{}", first.stdout, first.stderr);
    // Both orders of a shared ref; and orders with a notice that settles nothing, which are paid in
    // the partner's records.
    let mut expected = flagged(&system, "PROVIDER_REF_REUSED", "REF_ON_TWO_ORDERS");
    expected.extend(flagged(&system, "AMOUNT_MISMATCH", "STATUS_DIFFERS"));
    expected.extend(flagged(&system, "CURRENCY_MISMATCH", "STATUS_DIFFERS"));
    assert!(expected.len() >= 6, "{expected:?}");
    let flagged = with_open_flags(&system);
    assert!(flagged.len() >= 6, "{flagged:?}");
    expected.extend(flagged);
    assert_eq!(open(&system), expected);
    let runs = |open: bool| {
        let listed = system.payfold(&["reconcile", "runs", "--output", "json"]).json();
        assert_eq!(listed[0]["now"]["open"] != 0, open, "{listed}");
        assert_eq!(listed[0]["now"]["decided"] != 0, !open, "{listed}");
    };
    runs(true);
    let close = ["reconcile", "close", "sandbox", "--day", &day];
    system.payfold(&close).fails(&["can't be closed yet"]);

    decide_all(&system);
    runs(false);
    assert_read_alike(&system, &day);
    let second = system.payfold(&run);
    assert_eq!(second.code(), 0, "{}{}", second.stdout, second.stderr);
    assert!(second.stdout.contains("0 new or changed, 0 cleared"), "{}", second.stdout);
    let decisions = system.payfold(&["reconcile", "decisions", "--output", "jsonl"]).json_lines();
    let (earlier, decisions): (Vec<Value>, Vec<Value>) = decisions
        .into_iter()
        .filter(|one| one["kind"] == "finding")
        .partition(|one| one["endedBy"].is_string());
    let differences = expected.iter().filter(|(_, code)| code != "OPEN_FLAG").count();
    assert_eq!(decisions.len(), differences, "decisions on flags are listed as such");
    assert_eq!(earlier.len(), differences);
    let withdrawn = |one: &Value| one["status"] == "withdrawn";
    assert!(earlier.iter().all(withdrawn), "{earlier:?}");
    let of_two = |one: &Value| {
        one["status"] == "final" && one["author"] == "local" && one["secondedBy"] == "linh"
    };
    assert!(decisions.iter().all(of_two), "{decisions:?}");
    a_day_that_is_over_is_closed(&system, &day);
    // A second file would take the place of the first.
    let text = system.home().read("copy.jsonl");
    let half = text.lines().take(4).map(|line| format!("{line}\n")).collect::<String>();
    system.home().write("second.jsonl", &half);
    let second = system.home().file("second.jsonl");
    let run = ["reconcile", "run", "sandbox", "--day", &day, "--records", &second];
    system.payfold(&run).fails(&["run again with --replace"]);
    let replacing = system.payfold(&[&run[..], &["--replace", "--output", "json"]].concat());
    // In the last half hour of a day, what its records don't list waits for those of the next.
    let may_wait = SystemClock.now().to_rfc3339()[11..16] >= *"23:30";
    let is_expected = replacing.code() == 3 || replacing.code() == 0 && may_wait;
    assert!(is_expected, "{}{}", replacing.stdout, replacing.stderr);
    let replacing: Value = serde_json::from_str(&replacing.stdout).expect("JSON");
    assert_eq!(replacing["records"]["name"], "second.jsonl", "{replacing}");
    assert!(replacing["findings"]["opened"].as_u64() > Some(0), "{replacing}");
}

/// Another machine reads the same of the findings and the day.
fn assert_read_alike(system: &System, day: &str) {
    let away = Away::from(system);
    for command in [
        &["reconcile", "findings"][..],
        &["reconcile", "findings", "--limit", "2", "--output", "json"],
        &["reconcile", "findings", "--partner", "sandbox", "--day", day, "--output", "csv"],
        &["reconcile", "runs"],
        &["reconcile", "totals", "--output", "jsonl"],
        &["reconcile", "decisions"],
        &["reconcile", "decisions", "--day", day, "--output", "csv"],
    ] {
        away.prints_as(system, command);
    }
    let report = away.payfold(&["reconcile", "report", "sandbox"]).ok();
    assert_eq!(report.trim(), format!("report-sandbox-{day}.html"));
}

/// Two days before `today` nothing happened.
fn a_day_that_is_over_is_closed(system: &System, today: &str) {
    let today: chrono::NaiveDate = today.parse().expect("a day");
    let day = (today - chrono::Days::new(2)).to_string();
    // A file without a payment is one, too.
    let text = system.home().read("copy.jsonl");
    let create = text.lines().find(|line| line.contains("\"record\":\"create\""));
    system.home().write("quiet.jsonl", &format!("{}\n", create.expect("a create call")));
    let file = system.home().file("quiet.jsonl");
    let run = ["reconcile", "run", "sandbox", "--day", &day, "--records", &file];
    let quiet = system.payfold(&run);
    assert_eq!(quiet.code(), 0, "{}{}", quiet.stdout, quiet.stderr);
    let close = ["reconcile", "close", "sandbox", "--day", &day];
    let closed = system.payfold(&close).ok();
    assert!(closed.contains("is closed by local") && closed.contains("seal"), "{closed}");
    let again = system.payfold(&close);
    assert!(again.stderr.contains("was closed by local"), "{}", again.stderr);
}

/// A partner that gives out no files is asked for each payment of the day.
#[test]
fn a_partner_is_asked_for_each_payment_of_a_day() {
    early_in_hour(Duration::from_secs(60));
    let system = System::demo();
    let pay =
        ["demo", "pay", "--count", "12", "--trouble", "pay,duplicates,wrong-amount", "--seed", "7"];
    system.payfold(&pay).ok();
    let (_, day) = system.copy_records();
    let run = ["reconcile", "run", "sandbox", "--day", &day, "--by", "query", "--output", "json"];
    let ended = |code| -> Value {
        let done = system.payfold(&run);
        assert_eq!(done.code(), code, "{}{}", done.stdout, done.stderr);
        serde_json::from_str(&done.stdout).expect("JSON")
    };
    let first = ended(3);
    assert_eq!(first["result"], "complete", "{first}");
    assert_eq!(
        (&first["records"]["name"], &first["records"]["lines"]),
        (&"query".into(), &12.into())
    );
    // A notice with another amount settles nothing here, and its order is paid there.
    let mut expected = flagged(&system, "AMOUNT_MISMATCH", "STATUS_DIFFERS");
    assert!(!expected.is_empty());
    expected.extend(with_open_flags(&system));
    assert_eq!(open(&system), expected);
    let listing = ["reconcile", "findings", "--code", "STATUS_DIFFERS", "--output", "jsonl"];
    for finding in system.payfold(&listing).json_lines() {
        assert_eq!(finding["partners"]["source"], "query", "{finding}");
    }
    let again = ended(3);
    assert_eq!(
        (&again["findings"]["opened"], &again["findings"]["cleared"]),
        (&0.into(), &0.into())
    );
    let refused = system.payfold(&["reconcile", "run", "sandbox", "--day", &day]);
    assert_eq!(refused.code(), 2, "{}", refused.stderr);
}

/// All open findings, by two people, each with one command; the same person twice is refused.
fn decide_all(system: &System) {
    let home = system.home();
    home.token_file("linh", "finance");
    let listing = ["reconcile", "findings", "--open", "--limit", "1000", "--output", "jsonl"];
    let listed = system.payfold(&listing).ok();
    home.write("seen.jsonl", &listed);
    let (high, critical): (Vec<&str>, Vec<&str>) =
        listed.lines().partition(|line| line.contains("\"severity\":\"high\""));
    assert!(high.len() > 1 && critical.len() > 1, "{listed}");
    let seen_lines = listed.lines().count();
    home.write("critical.jsonl", &critical.join("\n"));
    let ids: Vec<String> = critical.iter().map(|line| id_of(line)).collect();
    home.write("ids.txt", &format!("{}\n\n{}", ids[1..].join("\n"), ids[1]));
    let files = ["seen.jsonl", "critical.jsonl", "ids.txt", "linh.token"];
    let [seen, again, rest, linh] = files.map(|name| home.file(name));
    let decide = ["reconcile", "decide", "--accept", "ours", "--reason", "seen", "--from"];
    let first = system.payfold(&[&decide[..], &[&seen]].concat());
    let all = format!("{} need a second person", critical.len());
    assert!(first.stderr.contains(&all), "{first:?}");
    let first = first.ok();
    assert_eq!(first.matches("is decided by local").count(), high.len(), "{first}");
    assert_eq!(first.matches("needs a second person").count(), critical.len(), "{first}");
    let twice = system.payfold(&[&decide[..], &[&seen]].concat()).ok();
    assert_eq!(twice.matches("was decided so by local").count(), high.len(), "{twice}");
    assert_eq!(twice.matches("local has decided so").count(), critical.len(), "{twice}");
    system.payfold(&[&decide[..6], &[&ids[0]]].concat()).fails(&["waits for a second person"]);

    let withdraw = ["reconcile", "withdraw", "--reason", "a slip"];
    let one = [&withdraw[..], &[&ids[0]]].concat();
    let withdrawn = system.payfold(&one).ok();
    assert!(withdrawn.contains("is undecided: local withdrew ours"), "{withdrawn}");
    assert!(system.payfold(&one).stderr.contains("nothing to withdraw"));
    let withdrawn = system.payfold(&[&withdraw[..], &["--from", &rest]].concat()).ok();
    assert_eq!(withdrawn.lines().count(), ids.len() - 1, "each once: {withdrawn}");
    system.payfold(&[&decide[..], &[&again]].concat()).ok();

    let second = [&decide[..6], &["--admin-token-file", &linh]].concat();
    let evidence: Value = serde_json::from_str(critical[0]).expect("a line is JSON");
    let stale =
        critical[0].replace(evidence["evidence"].as_str().expect("a digest"), &"0".repeat(64));
    home.write("stale.jsonl", &format!("{stale}\n{}", critical[1..].join("\n")));
    let stale = home.file("stale.jsonl");
    let stale = [&second[..], &["--from", &stale]].concat();
    // A new token is taken within a second.
    let partly = until("the second token counts", WAIT_MAX, || {
        let done = system.payfold(&stale);
        (!done.stderr.contains("does not know this token")).then_some(done)
    });
    let refused = format!("1 of {} findings were refused", ids.len());
    partly.fails(&["its evidence has changed since you saw it", &refused]);
    let by_both = "is decided by local and linh";
    assert_eq!(partly.stdout.matches(by_both).count(), ids.len() - 1, "{partly:?}");
    home.write("wrong.jsonl", &format!("{}\n{{\"day\":1}}", critical[0]));
    let wrong = home.file("wrong.jsonl");
    let wrong = system.payfold(&[&second[..], &["--from", &wrong]].concat());
    wrong.fails(&["line 2 of", "findings --output jsonl"]);
    let words = system.payfold(&[&second[..], &[&ids[0], "twice"]].concat());
    words.fails(&["twice is no finding", "in quotes"]);
    let decided = system.payfold(&[&second[..], &["--from", &seen]].concat()).ok();
    assert_eq!(decided.matches(by_both).count(), 1, "nothing of the bad lists: {decided}");
    assert_eq!(decided.matches("was decided so by local").count(), seen_lines - 1, "{decided}");
}

/// The id of a finding that a listing printed.
fn id_of(line: &str) -> String {
    let finding: Value = serde_json::from_str(line).expect("a line is JSON");
    finding["findingId"].as_str().expect("an id").to_owned()
}

#[test]
fn a_lost_notice_is_found_and_clears_by_itself() {
    early_in_hour(Duration::from_secs(60));
    let system = System::demo_with(&[
        ("PAYFOLD_RECONCILER__QUERY_AFTER", "12s,14s,18s,30s"),
        ("PAYFOLD_RECONCILER__BOOKS_POLL_MS", "100"),
    ]);
    let pay = ["demo", "pay", "--count", "1", "--trouble", "never", "--seed", "3"];
    let mut paying = system.home().spawn(&pay, &[], Stdio::inherit);
    let path = system.home().data().join("sandbox-records.jsonl");
    until("the partner books the payment", WAIT_MAX, || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.contains("\"payment\"").then_some(())
    });
    let (file, day) = system.copy_records();
    let run = ["reconcile", "run", "sandbox", "--day", &day, "--records", &file];
    let found = system.payfold(&run);
    assert_eq!(found.code(), 3, "{}{}", found.stdout, found.stderr);
    // On a busy machine it may be clear by now.
    let all = ["reconcile", "findings", "--output", "jsonl"];
    let codes: Vec<Value> =
        system.payfold(&all).json_lines().iter().map(|finding| finding["code"].clone()).collect();
    assert_eq!(codes, ["STATUS_DIFFERS"]);
    // The partner is being asked: the finding says so, and the order says of which finding.
    let stuck = system.payfold(&["order", "stuck", "--output", "jsonl"]).json_lines();
    let listing = ["reconcile", "findings", "--open", "--output", "jsonl"];
    if let [finding] = system.payfold(&listing).json_lines().as_slice() {
        let query = &finding["query"];
        // Its session lasts two seconds: on a busy machine its deadline is over by now, and it is
        // asked about still.
        let reason = query["reason"].as_str().unwrap_or_default();
        assert!(["PENDING", "EXPIRED"].contains(&reason), "{finding}");
        assert!(query["nextQuery"].is_string() && query["queriesPlanned"].is_u64(), "{finding}");
        assert_eq!(stuck[0]["findings"][0], finding["findingId"], "{stuck:?}");
        assert_eq!(stuck[0]["since"], query["since"]);
    }
    until("the finding clears", WAIT_MAX, || open(&system).is_empty().then_some(()));
    assert!(paying.wait().expect("it ends").success(), "the order is PAID by the query");
    let findings = system.payfold(&all).json_lines();
    assert_eq!(findings.len(), 1);
    assert_eq!((&findings[0]["status"], &findings[0]["version"]), (&"cleared".into(), &2.into()));
    assert_eq!(system.payfold(&run).code(), 0);
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_cause() {
    let system = System::demo();
    let home = system.home();
    home.write("none.jsonl", "");
    home.write("half.jsonl", "{\"record\":\"payment\",\"at\":\"2026-01-31T10:00:00Z\",\"merch\n");
    let file = |name: &str| home.file(name);
    let (none, half, gone) = (file("none.jsonl"), file("half.jsonl"), file("gone.jsonl"));
    for (arguments, expected) in [
        (["unknown", "--day", "2026-01-31", "--records", &none], "no account at unknown"),
        (["sandbox", "--day", "2199-01-31", "--records", &none], "has not begun"),
        (
            ["sandbox", "--day", "2026-01-31", "--records", &gone],
            "gone.jsonl: there is no such file",
        ),
        (["sandbox", "--day", "2026-01-31", "--records", &half], "the run is incomplete"),
    ] {
        system.payfold(&[&["reconcile", "run"][..], &arguments].concat()).fails(&[expected]);
    }
    let decide = ["reconcile", "decide", "abcdef", "--accept", "ours", "--reason", "seen"];
    let refused = system.payfold(&decide);
    assert!(refused.stderr.contains("there is no finding abcdef"), "{}", refused.stderr);
    home.write("stranger.token", "not a token");
    let stranger = file("stranger.token");
    let refused = system.payfold(&[&decide[..], &["--admin-token-file", &stranger]].concat());
    assert!(refused.stderr.contains("does not know this token"), "{}", refused.stderr);
    let left = std::fs::read_dir(home.data().join("reconcile")).expect("the folder").count();
    assert_eq!(left, 0, "files that were taken are gone");
}

#[test]
fn a_nonce_that_came_with_two_contents_is_found() {
    let profile = include_str!("../../partners/profiles/default.toml");
    assert!(profile.contains("nonce = \"optional\""));
    let home = Home::configured("[partners.acme]\nprofile = \"acme.toml\"\n");
    home.write("acme.toml", &profile.replace("nonce = \"optional\"", "nonce = \"required\""));
    let printed = home.payfold(&["key", "add", "acme", "--merchant", "M"]).ok();
    let secret = printed.split_whitespace().last().expect("a secret").to_owned();
    let system = home.boot();
    let notice = |order: &str, provider_ref: &str, nonce: &str| {
        Notice::paid("M", order, provider_ref).with_text("nonce", nonce).signed(&secret)
    };
    // The same notice again, and another one with another nonce, are nothing.
    let first = notice("o1", "r1", "n1");
    for notice in [&first, &first, &notice("o2", "r2", "n2")] {
        assert_eq!(system.post_ipn(notice).status, 200);
    }
    system.order_when(["acme", "M", "o2"], |order| order["state"] == "UNMATCHED");
    assert_eq!(open(&system), BTreeSet::new());
    assert_eq!(system.post_ipn(&notice("o3", "r3", "n1")).status, 200);
    let findings = until("it is found", WAIT_MAX, || {
        let listing = ["reconcile", "findings", "--open", "--output", "jsonl"];
        let findings = system.payfold(&listing).json_lines();
        (!findings.is_empty()).then_some(findings)
    });
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0]["code"], "NONCE_REUSED");
    assert_eq!(findings[0]["ours"]["value"], "in notices of o1, o3");
}
