//! Owns the permissions of accounts, with the commands that change them on a running system.

use std::time::Duration;

use super::{SECRET, home};
use crate::support::notice::Notice;
use crate::support::system::System;
use crate::support::waits::until;

fn answers(system: &System, status: u16) {
    let post = || system.post_ipn(&Notice::paid("SHOP", "o", "r").signed(SECRET)).status;
    until("the change is in force", Duration::from_secs(10), || (post() == status).then_some(()));
}

#[test]
fn an_account_is_changed_while_it_is_used() {
    let home = home();
    let system = home.boot_as("ingest", &[]);
    let set = |more: &[&str]| home.payfold(&[&["account", "set", "acme", "SHOP"], more].concat());
    answers(&system, 200);
    let said = set(&["--disabled"]).ok();
    assert!(said.contains("acme/SHOP: disabled"), "{said}");
    answers(&system, 401);
    set(&["--enabled", "--allow-source", "203.0.113.0/24", "--allow-source", "::1/128"]).ok();
    answers(&system, 403);
    set(&["--any-source", "--rate-per-s", "1"]).ok();
    answers(&system, 429);
    set(&["--any-rate"]).ok();
    set(&["--allow-source", "127.0.0.0/8"]).ok();
    answers(&system, 200);
    let listed = home.payfold(&["account", "list", "acme", "--output", "json"]).json();
    let expected = serde_json::json!([{
        "partner": "acme", "merchantCode": "SHOP", "enabled": true, "keys": 1,
        "allowSources": ["127.0.0.0/8"], "ratePerS": null, "constants": {},
    }]);
    assert_eq!(listed, expected);
    let table = home.payfold(&["account", "list"]).ok();
    assert!(table.contains("127.0.0.0/8"), "{table}");

    for (more, said) in [
        (&[][..], "no change of account acme/SHOP is given"),
        (&["--constant", "x"], "--constant x has no value"),
        (&["--constant", "appId=42"], "no constant appId\n  fix: its profile has no [constants]"),
        (&["--no-constant", "x"], "the account has no constant x"),
    ] {
        let refused = set(more);
        assert_eq!(refused.code(), 1, "{refused:?}");
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
    let both = set(&["--enabled", "--disabled"]);
    assert_eq!(both.code(), 2, "{both:?}");
    let unknown = home.payfold(&["account", "set", "acme", "NONE", "--disabled"]);
    assert!(unknown.stderr.contains("payfold key add acme --merchant NONE"), "{unknown:?}");
}
