//! Owns the growth of intake into a new log epoch after a switch between builds: the new partitions
//! are published from the build that the switch named, and further switches go on from there.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::rebuild::{build_statuses, check_published, wait_for, with_reason};
use crate::support::pair::{Inside, Pair};
use crate::support::system::Home;
use crate::support::waits::until;

const GROWN: &[(&str, &str)] = &[("PAYFOLD_KAFKA__EPOCH", "1")];
const WAIT_MAX: Duration = Duration::from_secs(180);

/// What a command prints that has to end well.
fn grown(home: &Home, arguments: &[&str]) -> String {
    home.ends(arguments, GROWN, WAIT_MAX).ok()
}

/// The publication epochs of the events that some payments yield.
fn epochs_of_payments(home: &Home) -> BTreeSet<u64> {
    let events = || {
        let tail = ["tail", "orders", "--no-follow", "--output", "jsonl"];
        home.ends(&tail, GROWN, WAIT_MAX).json_lines()
    };
    let ids = |events: &[Value]| events.iter().map(|event| event["id"].to_string()).collect();
    let before: BTreeSet<String> = ids(&events());
    grown(home, &["demo", "pay", "--count", "4"]);
    let after = events();
    let new = after.iter().filter(|event| !before.contains(&event["id"].to_string()));
    let epochs = new.map(epoch).collect();
    assert_eq!(check_published(after), (0, 0), "nothing is published twice");
    epochs
}

fn epoch(event: &Value) -> u64 {
    event["data"]["epoch"].as_u64().expect("a number")
}

#[test]
#[ignore = "nightly: servers"]
fn intake_that_grows_after_a_switch_is_published_from_the_same_build() {
    let Some(home) = Pair::KafkaAndCql.home() else { return };
    let system = home.boot();
    system.payfold(&["demo", "pay", "--count", "4"]).ok();
    with_reason(&home, &["start"]).ok();
    wait_for(&home, 2, "ready");
    with_reason(&home, &["switch"]).ok();
    wait_for(&home, 2, "live");
    wait_for(&home, 1, "standby");
    Inside::of(&home).settle();
    drop(system.stop());

    grown(&home, &["topics", "apply"]);
    let system = home.boot_as("all", GROWN);
    // Before anything of the new partitions is folded.
    wait_for(&home, 2, "live");
    wait_for(&home, 1, "standby");
    assert_eq!(epochs_of_payments(&home), BTreeSet::from([2]));

    let back = with_reason(&home, &["rollback"]).ok();
    assert!(back.contains("under epoch 3"), "{back}");
    wait_for(&home, 1, "live");
    assert_eq!(epochs_of_payments(&home), BTreeSet::from([3]));
    with_reason(&home, &["switch", "--build", "2"]).ok();
    wait_for(&home, 2, "live");
    with_reason(&home, &["drop", "1", "--yes"]).ok();
    until("it is gone", WAIT_MAX, || (build_statuses(&home).len() == 1).then_some(()));

    // The first build is gone: a start must not look for what it folded.
    drop(system.stop());
    let _system = home.boot_as("all", GROWN);
    assert_eq!(epochs_of_payments(&home), BTreeSet::from([4]));
    grown(&home, &["log", "verify"]);
}
