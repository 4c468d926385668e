//! Owns the warning of accounts that verify payers' returns with the keys of notices: in `check`
//! and in the banner of `run`, until returns have their own key.

use serde_json::Value;

use crate::refusals::accounts::{self, secret};
use crate::support::system::Home;

fn returns(home: &Home) -> Option<Value> {
    let rows = home.payfold(&["check", "--output", "json"]).json();
    rows.as_array().expect("rows").iter().find(|row| row["check"] == "returns").cloned()
}

#[test]
fn check_and_run_warn_when_returns_use_the_keys_of_notices() {
    let home = accounts::home("");
    let row = returns(&home).expect("returns are checked");
    assert_eq!(row["result"], "warn");
    let (detail, fix) = (row["detail"].to_string(), row["fix"].to_string());
    assert!(detail.contains("acme/SHOP, acme/777"), "{detail}");
    assert!(!detail.contains("acme/GONE"), "it is switched off: {detail}");
    let command = "payfold key add acme --merchant SHOP --channel return --secret-file FILE";
    assert!(fix.contains(command), "{fix}");
    home.write("FILE", &format!("text:{}\n", secret("returns")));
    let command: Vec<&str> = command.split(' ').skip(1).collect();
    home.payfold(&command).ok();
    let row = returns(&home).expect("the others share theirs still");
    assert!(!row["detail"].to_string().contains("acme/SHOP,"), "{row}");
    let (home, _) = home.boot_as("ingest", &[]).stop();
    let banner = home.printed() + &home.log();
    assert!(banner.contains("a payer can post a signed return as a notice"), "{banner}");
    assert!(banner.contains("payfold key add acme --merchant 777 --channel return"), "{banner}");
}
