//! Owns the record keys of a system on a directory of keys, which its operator adds by hand: first
//! the keys, then the baseline that `payfold log baseline` prints.

use std::time::Duration;

use payfold_engines::log::Topic;
use payfold_schemas::digest::Digest;

use super::mounted::{Mounted, file};
use super::signed;
use crate::support::pair::{Inside, create_request, with_raw_log};
use crate::support::system::Home;

const SECRET: &str = "the secret of the one key file here";
const ROLES: [&str; 5] = ["ingest", "checkout", "projector", "reconciler", "operator"];

fn files(more: &str) -> Vec<(String, String)> {
    let plain = file("vault.toml", more.to_owned());
    vec![file("acme.SHOP.ipn.a", format!("text:{SECRET}")), plain]
}

/// The same, with a record key for each role.
fn with_keys(more: &str) -> Vec<(String, String)> {
    let key = |role: &str| {
        file(&format!("records.{role}.1"), format!("text:test key of {role:_<32}, worth nothing"))
    };
    files(more).into_iter().chain(ROLES.map(key)).collect()
}

/// Replaces checkout's key, and puts back the files as they were.
fn retired_by_hand(home: &Home, mounted: &mut Mounted, baseline: &str) {
    let listed = home.payfold(&["log", "key", "list", "--output", "json"]).rows();
    let of_checkout = listed.iter().find(|row| row["role"] == "checkout").expect("a key");
    let id = of_checkout["key"].as_str().expect("an id");
    home.payfold(&["log", "key", "add", "checkout"]).fails(&["add a file records.ROLE.KEYID"]);
    let retire = ["log", "key", "retire", id];
    home.payfold(&retire).fails(&["checkout writes with record key", "records.checkout.KEYID"]);
    let next = "secret = 'text:the next test key of checkout, worth nothing'\n\
                valid_from = 2026-01-31T10:00:00Z";
    let with_next = |more: &str| {
        let next = file("records.checkout.2", next.to_owned());
        with_keys(more).into_iter().chain([next]).collect::<Vec<_>>()
    };
    mounted.swap(&with_next(baseline));
    let shown = home.payfold(&retire).ok();
    let (_, end) = shown.split_once("\n\n").expect("a table for vault.toml");
    mounted.swap(&with_next(&format!("{baseline}\n{end}")));
    let listed = home.payfold(&["log", "key", "list", "--output", "json"]).rows();
    let row = listed.iter().find(|row| row["key"] == id).expect("a key");
    assert!(row["retiredAt"].is_string(), "{listed:?}");
    mounted.swap(&with_keys(baseline));
}

#[test]
fn a_directory_gets_keys_and_a_baseline_by_hand() {
    let (home, mut mounted) = Mounted::home(&files(""));
    let checked = |words: &str| {
        let done = home.payfold(&["check", "--connect"]);
        assert!(done.stdout.contains(words), "{words}: {done:?}");
    };
    let system = home.boot();
    assert_eq!(system.post_ipn(&signed(SECRET)).status, 200);
    checked("the vault has no record keys");
    home.payfold(&["log", "baseline"]).fails(&["no record keys", "a file records.ROLE.1"]);

    mounted.swap(&with_keys(""));
    checked("messages of the log without a MAC still count");
    let shown = home.payfold(&["log", "baseline", "--yes"]).ok();
    let (_, baseline) = shown.split_once("\n\n").expect("a table for vault.toml");
    assert!(baseline.contains("\"intake 0-1\""), "{shown}");
    mounted.swap(&with_keys(baseline));
    checked("each message of the log needs a MAC");
    system.stop();
    let mut lacking = with_keys(baseline);
    lacking.retain(|(name, _)| name != "records.checkout.1");
    mounted.swap(&lacking);
    let refused = home.ends(&["run"], &[], Duration::from_secs(30));
    refused.fails(&["no record key of checkout", "records.checkout.KEYID"]);
    mounted.swap(&with_keys(baseline));
    let log = home.log_with("the vault has no record keys");
    assert!(log.contains("run `payfold log baseline`"), "{log}");

    let system = home.boot();
    assert_eq!(system.post_ipn(&signed(SECRET)).status, 200);
    Inside::of(&home).settle();
    system.stop();
    assert_eq!(home.payfold(&["log", "verify"]).code(), 0);
    let forged = create_request("acme/SHOP/o-9", b"");
    with_raw_log(&home, async |log| log.append(Topic::Intake, forged).await).expect("stored");
    let found = home.payfold(&["log", "verify"]);
    assert!(found.code() == 3 && found.stdout.contains("it has no MAC"), "{found:?}");

    retired_by_hand(&home, &mut mounted, baseline);

    // What was parked stays out when the baseline is moved; what was not would count.
    let people = ["ann", "bob"].map(|name| {
        let token = format!("a test token of {name}, worth nothing");
        home.write(&format!("{name}.token"), &token);
        let sha256 = Digest::of_bytes(token.as_bytes());
        format!("[[tokens]]\nname = \"{name}\"\nrole = \"operator\"\nsha256 = \"{sha256}\"\n")
    });
    mounted.swap(&with_keys(&format!("{baseline}\n{}", people.concat())));
    let no_age = "\n[reconciler]\nsecond_after_hours = 0\n";
    home.write("payfold.toml", &(home.read("payfold.toml") + no_age));
    for (name, said) in [("ann.token", "Proposed."), ("bob.token", "The record is parked.")] {
        let token = home.file(name);
        let park = ["log", "park", "0-3", "--reason", "forged", "--admin-token-file", &token];
        let printed = home.payfold(&[&park[..], &["--yes"]].concat()).ok();
        assert!(printed.contains(said), "{printed}");
    }
    let own = create_request("acme/SHOP/o-8", b"");
    with_raw_log(&home, async |log| log.append(Topic::Intake, own).await).expect("stored");
    assert_eq!(home.payfold(&["log", "verify"]).code(), 3);
    let shown = home.payfold(&["log", "baseline"]).ok();
    assert!(shown.contains("would count: intake 0-6  acme/SHOP/o-8  it has no MAC"));
    let (_, baseline) = shown.split_once("\n\n").expect("a table for vault.toml");
    assert!(baseline.contains("refused = [\"intake 0-3\"]"), "{shown}");
    mounted.swap(&with_keys(baseline));
    let system = home.boot();
    Inside::of(&home).settle();
    system.stop();
    let orders = home.payfold(&["order", "list", "--output", "json"]).ok();
    assert!(orders.contains("o-8") && !orders.contains("o-9"), "{orders}");
    assert_eq!(home.payfold(&["log", "verify"]).code(), 0);
}
