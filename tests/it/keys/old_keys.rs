//! Owns what an operator sees of an old key that is still used, and of an overlap that is too short
//! for its partner.

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
