//! Owns the rotation of the identity that opens an age vault: a running system goes on with it, and
//! killing it at any moment leaves a vault that opens.

use std::process::Stdio;
use std::time::Duration;

use super::{SECRET, home, signed};
use crate::support::system::Home;
use crate::support::waits::until;

const KILLS: u32 = 40;
const NEXT: &str = "the secret of the key after it";

fn identity(home: &Home) -> String {
    std::fs::read_to_string(home.data().join("vault.key")).expect("it is there")
}

#[test]
fn a_running_system_takes_a_new_identity() {
    let home = home();
    let system = home.boot_as("ingest", &[]);
    let old = identity(&home);
    let said = home.payfold(&["key", "rotate-identity"]).ok();
    let new = identity(&home);
    let of = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("# public key: "));
        line.expect("it names its public key").to_owned()
    };
    assert!(
        said.contains(&of(&new)) && said.contains(&of(&old)) && said.contains("back up"),
        "{said}"
    );
    assert!(!said.contains("AGE-SECRET-KEY") && of(&new) != of(&old) && new.lines().count() == 2);
    home.add_key("acme", NEXT, &[]);
    system.ipn_when(200, || signed(NEXT));
    assert_eq!(system.post_ipn(&signed(SECRET)).status, 200);
    // The one before opens it no more.
    std::fs::write(home.data().join("vault.key"), old).expect("it can be written");
    let sealed = home.payfold(&["key", "list"]);
    assert!(sealed.stderr.contains("does not open with its identity"), "{sealed:?}");
    assert_eq!(system.post_ipn(&signed(NEXT)).status, 200, "what runs keeps its keys");
}

#[test]
fn a_vault_that_is_away_for_a_while_changes_nothing() {
    let home = home();
    let system = home.boot_as("ingest", &[]);
    let [there, away] = ["vault.age", "elsewhere"].map(|name| home.data().join(name));
    for _ in 0..2 {
        std::fs::rename(&there, &away).expect("it can be moved");
        system.metric_when("payfold_vault_stale", 1.0);
        assert_eq!(system.post_ipn(&signed(SECRET)).status, 200);
        std::fs::rename(&away, &there).expect("it can be moved");
        system.metric_when("payfold_vault_stale", 0.0);
        assert_eq!(system.post_ipn(&signed(SECRET)).status, 200);
    }
    let logged = |line: &str| home.log().matches(line).count();
    let both = || (logged("the old keys stay in force"), logged("its content is in force again"));
    until("the log has all four", Duration::from_secs(10), || (both() == (2, 2)).then_some(()));
    assert_eq!(system.metric("payfold_vault_reloads_total{result=\"refused\"}"), Some(2.0));
}

#[test]
fn a_rotation_that_is_killed_leaves_a_vault_that_opens() {
    let home = home();
    let timed = std::time::Instant::now();
    home.payfold(&["key", "rotate-identity"]).ok();
    let whole = timed.elapsed();
    let mut cut_off = 0;
    for kill in 0..KILLS {
        let mut child = home.spawn(&["key", "rotate-identity"], &[], Stdio::null);
        std::thread::sleep(whole * kill / KILLS);
        child.kill().expect("it is our child");
        let status = child.wait().expect("it is our child");
        cut_off += u32::from(!status.success());
        let listed = home.payfold(&["key", "list", "--output", "json"]).json();
        assert_eq!(listed[0]["keyId"], "k0");
    }
    assert!(cut_off > 0, "some were killed before their end");
    home.payfold(&["key", "rotate-identity"]).ok();
    assert_eq!(identity(&home).matches("AGE-SECRET-KEY").count(), 1);
    home.payfold(&["key", "add", "acme"]).ok();
}
