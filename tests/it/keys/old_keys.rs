//! Owns what an operator sees of a key that ends: an old one that is still used, an overlap that is
//! too short for its partner, a planned key, and the last key of an account.

use payfold_partners::profile::DEFAULT_PROFILE;

use super::{SECRET, home};
use crate::support::notice::Notice;
use crate::support::system::Home;

fn states(home: &Home) -> Vec<String> {
    let listed = home.payfold(&["key", "list", "acme", "--output", "json"]).json();
    let state = |key: &serde_json::Value| {
        format!("{} {} {} {}", key["keyId"], key["state"], key["stillUsed"], key["uses24h"])
    };
    listed.as_array().expect("a list").iter().map(|key| state(key).replace('"', "")).collect()
}

#[test]
fn an_old_key_that_is_still_used_shows_everywhere() {
    let home = home();
    let system = home.boot_as("ingest", &[]);
    let notice = |order: &str| Notice::paid("SHOP", order, "r").signed(SECRET);
    assert_eq!(system.post_ipn(&notice("before")).status, 200);
    assert_eq!(states(&home), ["k0 current false 1"]);
    home.payfold(&["key", "add", "acme", "--key-id", "k1"]).ok();
    assert_eq!(states(&home), ["k0 old false 1", "k1 current false 0"]);
    system.metric_when("payfold_vault_reloads_total{result=\"applied\"}", 1.0);
    for order in ["a", "b", "c"] {
        assert_eq!(system.post_ipn(&notice(order)).status, 200);
    }
    assert_eq!(states(&home), ["k0 old true 4", "k1 current false 0"]);
    let table = home.payfold(&["key", "list"]).ok();
    assert!(table.contains("old, still used"), "{table}");
    let metrics = system.get("/metrics").text();
    for line in [
        "payfold_ingest_old_key_uses_total{key_id=\"k0\",partner=\"acme\"} 3",
        "payfold_ingest_key_uses_total{key_id=\"k0\",partner=\"acme\"} 4",
        "payfold_key_valid_until_timestamp_seconds{channel=\"ipn\",key_id=\"k0\",\
         merchant=\"SHOP\",partner=\"acme\"} ",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    assert!(!metrics.contains("payfold_key_covered_until_timestamp_seconds{"), "k1 has no end");
    let log = home.log();
    let lines: Vec<_> =
        log.lines().filter(|line| line.contains("an old key is still used")).collect();
    // Two if a minute ended between the notices.
    assert!((1..=2).contains(&lines.len()), "{lines:?}");
    assert!(lines[0].contains("k0") && lines[0].contains("k1"), "{lines:?}");
}

#[test]
fn an_overlap_shorter_than_the_partner_repeats_is_refused() {
    let home = Home::configured("[partners.acme]\nprofile = \"acme.toml\"\n");
    let profile =
        DEFAULT_PROFILE.replace("version = 1\n", "version = 1\nretry_horizon_s = 172800\n");
    home.write("acme.toml", &profile);
    let add = |id: &str, more: &[&str]| {
        let add = ["key", "add", "acme", "--merchant", "SHOP", "--key-id", id];
        home.payfold(&[&add[..], more].concat())
    };
    add("k0", &["--overlap", "1s"]).ok();
    // A key that begins now was not valid before; it is a moment old when the next begins.
    add("k1", &[]).fails(&[
        "again for 2days",
        "key k0 would end",
        "--overlap \"2days\"",
        "payfold key retire acme k0",
    ]);
    add("r1", &["--channel", "return", "--overlap", "0s"]).ok();
    add("r2", &["--channel", "return", "--overlap", "0s"]).ok();
    add("k1", &["--overlap", "48h"]).ok();
    home.payfold(&["key", "retire", "acme", "k0"]).ok();
    let states = states(&home);
    assert_eq!(states[0], "k0 ended false 0", "{states:?}");
}

#[test]
fn a_planned_key_stays_when_another_is_added_before_it() {
    let home = home();
    let add = |id: &str, more: &[&str]| {
        home.payfold(&[&["key", "add", "acme", "--key-id", id], more].concat()).ok()
    };
    add("planned", &["--valid-from", "2199-01-01T00:00:00Z"]);
    let printed = add("k1", &[]);
    assert!(printed.contains("key planned begins after it and stays"), "{printed}");
    let states = states(&home);
    assert!(states.iter().any(|state| state.starts_with("planned next")), "{states:?}");
}

#[test]
fn the_last_key_of_a_channel_ends_only_when_that_is_meant() {
    let home = home();
    let retire =
        |id: &str, more: &[&str]| home.payfold(&[&["key", "retire", "acme", id], more].concat());
    retire("k0", &[]).fails(&["no key of channel ipn", "401", "payfold key add acme", "--last"]);
    assert!(states(&home)[0].starts_with("k0 current"), "nothing was changed");
    // A key that begins only after the end leaves a gap, and nothing may come after the last one.
    let planned = ["key", "add", "acme", "--key-id", "k1", "--valid-from", "2199-01-01T00:00:00Z"];
    home.payfold(&planned).ok();
    let from = "from 2198-01-01T00:00:00Z on";
    retire("k0", &["--at", "2198-01-01T00:00:00Z"]).fails(&["no key of channel ipn", from]);
    retire("k1", &[]).fails(&["no key of channel ipn"]);
    let printed = retire("k0", &["--at", "2199-02-01T00:00:00Z"]).ok();
    assert!(printed.contains("ends at 2199-01-02T"), "the earlier end stays: {printed}");
    retire("k0", &["--last"]).ok();
    assert!(states(&home)[0].starts_with("k0 ended"), "{:?}", states(&home));
}
