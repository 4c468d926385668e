//! Owns what the commands promise scripts: exit codes, one error with its fix, output that parses.

use std::sync::Arc;

use payfold_engines::orders::sqlite::{SqliteOrders, SqliteOrdersSettings};
use payfold_engines::orders::{Commit, OrderStore, ViewEntry};
use payfold_schemas::ids::OrderKey;

use crate::support::demo::Demo;
use crate::support::pair::{Pair, runtime};
use crate::support::system::{Done, Home, RUN};

/// Exit 1 and one error with one fix.
fn fails(done: &Done, words: &[&str]) {
    done.fails(words);
    assert_eq!(done.stderr.matches("error: ").count(), 1, "{done:?}");
    assert_eq!(done.stderr.matches("\n  fix: ").count(), 1, "{done:?}");
}

#[test]
fn a_profile_that_is_not_agreed_yet_is_named() {
    let home = Home::configured("[partners.acme]\nprofile = \"default\"\n");
    let said = "not agreed with the partner yet: acme (draft)";
    assert!(home.payfold(&["check"]).stdout.contains(said));
    let on_trial = home.payfold_with(&["check"], &[("PAYFOLD_DEV", "true")]);
    assert!(on_trial.stdout.contains("1 partners configured") && !on_trial.stdout.contains(said));
}

#[test]
fn exit_codes_separate_success_failure_usage_and_difference() {
    let home = Home::new();
    let nothing = home.payfold(&["order", "list"]);
    fails(&nothing, &["does not exist", "payfold run"]);
    for usage in
        [&["frobnicate"][..], &["order"], &["order", "list", "--limit", "x"], &["run", "--no"]]
    {
        assert_eq!(home.payfold(usage).code(), 2, "{usage:?}");
    }
    fails(&home.payfold(&["run", "--config", "nowhere.toml"]), &["nowhere.toml", "payfold init"]);
    let open = ["run", "--listen-public", "0.0.0.0:0"];
    fails(&home.payfold(&open), &["--listen-public", "loopback only"]);
    assert!(!home.data().join("log.db").exists(), "a refused start leaves nothing");
    fails(&home.payfold(&["demo", "ipn"]), &["nothing is running"]);
    fails(&home.payfold(&["check", "--ready"]), &["nothing is running"]);

    let init = home.payfold(&["init"]).ok();
    let parsed: toml::Table = toml::from_str(&init).expect("it is TOML");
    assert!(parsed.values().all(toml::Value::is_table), "it sets nothing: {parsed}");
    home.write("payfold.toml", &format!("{init}\n[ingest]\n"));
    let twice = home.payfold(&["check"]);
    fails(&twice, &["payfold.toml", "payfold init"]);
    home.write("payfold.toml", &init);
    assert!(home.payfold(&["check"]).ok().contains("payfold.toml"));
    home.write("payfold.toml", "[ingest]\nqueue_maxx = 1\n");
    fails(&home.payfold(&["run"]), &["queue_maxx"]);
    home.write("payfold.toml", "[partners.acme]\nprofile = \"missing.toml\"\n");
    fails(&home.payfold(&["run"]), &["missing.toml", "acme"]);
    let checked = home.payfold(&["check", "--output", "json"]);
    assert_eq!(checked.code(), 1);
    let rows = checked.rows();
    let failed = rows.iter().find(|row| row["result"] == "failed").expect("a failed check");
    assert_eq!(failed["check"], "profiles");
    let (detail, fix) = (failed["detail"].to_string(), failed["fix"].to_string());
    assert!(detail.contains("missing.toml") && !detail.contains("fix"), "{detail}");
    assert!(fix.contains("correct the path in [partners.acme]"), "{fix}");
}

/// Each account that can't be used has a row; its detail says what is wrong, its fix how to correct
/// it.
#[test]
fn check_separates_trouble_with_accounts_from_its_fix() {
    let home = Home::configured("[partners.acme]\nprofile = \"default\"\n");
    for merchant in ["A", "B"] {
        home.payfold(&["key", "add", "acme", "--merchant", merchant]).ok();
    }
    home.write("payfold.toml", "[partners.acme]\nprofile = \"momo\"\n");
    let mut rows = home.payfold(&["check", "--output", "json"]).rows();
    rows.retain(|row| row["check"] == "vault");
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in rows {
        let (detail, fix) = (row["detail"].to_string(), row["fix"].to_string());
        assert!(
            detail.contains("needs the constant") && !detail.contains("account set"),
            "{detail}"
        );
        assert!(fix.contains("payfold account set acme"), "{fix}");
    }
}

/// Lines under `[partners.acme]` and before it => result and a part of detail and fix.
const PAYMENTS: [(&str, &str, &str, &str); 7] = [
    ("", "", "ok", "no partner has an api_url"),
    (
        "",
        "api_url = \"http://api.example\"",
        "failed",
        "stage draft, can't be called: it is not https; only",
    ),
    ("", "api_url = \"https://10.0.0.1\"", "failed", "private network"),
    (
        "[partners.zeta]\nprofile = \"default\"\napi_url = \"http://zeta.example\"\n",
        "api_url = \"http://api.example\"",
        "failed",
        "; api_url of partner zeta",
    ),
    ("", "api_url = \"https://api.example\"", "warn", "set public_url"),
    (
        "public_url = \"https://pay.example\"\n[checkout]\nshop_url = \"javascript:1\"\n",
        "api_url = \"https://api.example\"",
        "failed",
        "checkout.shop_url",
    ),
    (
        "public_url = \"https://pay.example\"\n[checkout]\n\
         shop_url = \"https://shop.example/paid\"\n",
        "api_url = \"https://api.example\"",
        "ok",
        "notices to https://pay.example",
    ),
];

#[test]
fn addresses_that_payments_need_are_checked() {
    for (before, under, result, said) in PAYMENTS {
        let home =
            Home::configured(&format!("{before}[partners.acme]\nprofile = \"default\"\n{under}\n"));
        let rows = home.payfold(&["check", "--output", "json"]).rows();
        let row = rows.iter().find(|row| row["check"] == "payments").expect("they are checked");
        assert_eq!(row["result"], result, "{row}");
        assert!(row.to_string().contains(said), "{said} in {row}");
    }
}

#[test]
fn a_partner_that_cannot_be_called_is_reported_at_the_start_and_the_rest_goes_on() {
    let of = |code: &str, url: &str| {
        format!("[partners.{code}]\nprofile = \"default\"\napi_url = \"{url}\"\n")
    };
    let (bad, good) = (of("acme", "http://api.example"), of("bolt", "https://api.example"));
    let home = Home::configured(&(bad + &good));
    let system = home.boot();
    let log = home.log();
    drop(system);
    let lines: Vec<_> = log.lines().filter(|line| line.contains("can't be called")).collect();
    assert!(lines.len() == 1 && lines[0].contains("partner acme"), "{log}");
    assert!(lines[0].contains("set api_url to the partner's https address"), "{log}");
}

pub fn a_running_demo_can_be_checked_and_tried(pair: Pair) {
    let Some(demo) = Demo::on(pair) else { return };
    let system = &demo.system;
    let ready = system.payfold(&["check", "--ready"]).ok();
    assert_eq!(ready, format!("ready: http://{}\n", system.admin()));
    let tried = system.payfold(&["demo", "ipn"]).ok();
    assert!(tried.contains("PENDING → PAID") && tried.contains("200"), "{tried}");
    let checked = system.payfold(&["check", "--connect", "--output", "jsonl"]).json_lines();
    let names: Vec<_> =
        checked.iter().map(|row| row["check"].as_str().unwrap_or_default()).collect();
    let servers = if pair == Pair::Sqlite { &[][..] } else { &["topics", "tables"] };
    for name in
        ["configuration", "data folder", "disk", "profiles", "vault", "engines", "stores", "clock"]
            .iter()
            .chain(servers)
    {
        assert!(names.contains(name), "{name} in {names:?}");
    }
    assert!(checked.iter().all(|row| row["result"] != "failed"), "{checked:?}");
    let banner = system.home().printed();
    for line in [system.public(), system.admin()].map(|address| format!("http://{address}")) {
        assert!(banner.contains(&line), "{banner}");
    }
    assert!(banner.contains("demo") && banner.contains("ready in"), "{banner}");
    assert!(!banner.contains(&demo.secret) && !banner.contains(&demo.token));
}

#[test]
fn a_running_demo_has_its_folder_and_ports_to_itself() {
    let demo = Demo::boot();
    let system = &demo.system;
    fails(&system.payfold(&RUN), &["log.db"]);
    let elsewhere = Home::new();
    for (listener, address) in [("public", system.public()), ("admin", system.admin())] {
        let (flag, variable) = (format!("--listen-{listener}"), listener.to_uppercase());
        let taken = address.to_string();
        let mut run = RUN;
        run[1 + RUN.iter().position(|one| *one == flag).expect("it is there")] = &taken;
        let refused = elsewhere.payfold(&run);
        fails(&refused, &[&taken, &flag, &format!("PAYFOLD_LISTEN_{variable}")]);
    }
}

#[test]
fn a_row_that_does_not_follow_from_the_log_is_exit_code_3() {
    let demo = Demo::boot();
    demo.pay("row-1", "ref-1");
    demo.system.order_when(["sandbox", "DEMO", "row-1"], |_| true);
    let (home, _) = demo.system.stop();
    assert_eq!(home.payfold(&["log", "verify"]).code(), 0);
    let path = home.data().join("orders.db");
    let store =
        SqliteOrders::open_with(&path, SqliteOrdersSettings::default()).expect("it is free");
    runtime().block_on(async {
        let key = OrderKey::parse("sandbox/DEMO/row-1").expect("a key");
        let mut order = store.load(vec![key]).await.unwrap().pop().flatten().expect("a row");
        order.version += 1;
        let mut stranger = order.clone();
        stranger.key = OrderKey::parse("sandbox/DEMO/stranger").expect("a key");
        let views = vec![(stranger.key.clone(), ViewEntry::Created(stranger.first_seen))];
        let progress = store.progress().await.unwrap().expect("it was folded");
        let (folded, log_id) = (progress.folded, progress.log_id);
        let commit = Commit {
            orders: [order, stranger].map(Arc::new).to_vec(),
            views: views.into(),
            folded,
            log_id,
        };
        store.commit(commit).await.unwrap();
    });
    drop(store);
    let verified = home.payfold(&["log", "verify", "--output", "json"]);
    assert_eq!(verified.code(), 3, "{verified:?}");
    let shown =
        |row: &serde_json::Value| format!("{} {} {}", row["order"], row["field"], row["folded"]);
    let shown: Vec<_> = verified.rows().iter().map(shown).collect();
    assert_eq!(
        shown,
        [
            "\"sandbox/DEMO/stranger\" \"row\" \"the log has no fact of it\"",
            "\"sandbox/DEMO/row-1\" \"version\" \"1\"",
        ]
    );
}
