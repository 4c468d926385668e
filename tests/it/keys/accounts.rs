//! Owns the permissions of accounts, with the commands that change them on a running system.

use super::{SECRET, home, signed};

#[test]
fn an_account_is_changed_while_it_is_used() {
    let home = home();
    let system = home.boot_as("ingest", &[]);
    let set = |more: &[&str]| home.payfold(&[&["account", "set", "acme", "SHOP"], more].concat());
    let answers = |status| system.ipn_when(status, || signed(SECRET));
    answers(200);
    let said = set(&["--disabled"]).ok();
    assert!(said.contains("acme/SHOP: disabled"), "{said}");
    answers(401);
    set(&["--enabled", "--allow-source", "203.0.113.0/24", "--allow-source", "::1/128"]).ok();
    answers(403);
    set(&["--any-source", "--rate-per-s", "1"]).ok();
    answers(429);
    set(&["--any-rate"]).ok();
    set(&["--allow-source", "127.0.0.0/8"]).ok();
    answers(200);
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
        set(more).fails(&[said]);
    }
    let both = set(&["--enabled", "--disabled"]);
    assert_eq!(both.code(), 2, "{both:?}");
    let unknown = home.payfold(&["account", "set", "acme", "NONE", "--disabled"]);
    assert!(unknown.stderr.contains("payfold key add acme --merchant NONE"), "{unknown:?}");
    // An address is personal data: it is logged where it is the reason.
    let log = home.log();
    for (code, is_the_reason) in
        [("source_not_allowed", true), ("rate_limited", true), ("unauthenticated", false)]
    {
        let of_code = format!("\"code\":\"{code}\"");
        let mut refused = log.lines().filter(|line| line.contains("ipn refused"));
        let line = refused.find(|line| line.contains(&of_code)).expect("a line");
        assert_eq!(line.contains("\"source.address\":\"127.0.0.1\""), is_the_reason, "{line}");
    }
}
