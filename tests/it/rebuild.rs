//! Owns the rebuild beside live traffic on the whole program. Nothing is published twice and
//! nothing is missing, whatever is switched, rolled back or killed in between. After a change of
//! rules exactly the orders that it changes are published.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::dice::Dice;
use crate::support::knobs;
use crate::support::pair::{Inside, Pair};
use crate::support::system::{Done, Home, System};
use crate::support::waits::{until, until_seen};

const WHY: [&str; 2] = ["--reason", "to see"];
const TURN_MAX: Duration = Duration::from_secs(180);
const KILLS_A_ROUND: u64 = 6;
/// How far build 2 is behind, while it is folded in silence.
const BUILD_LAG: &str = "payfold_projector_build_lag_records{build=\"2\"}";

fn rebuild(home: &Home, arguments: &[&str]) -> Done {
    home.payfold(&[&["rebuild"][..], arguments].concat())
}

pub(crate) fn with_reason(home: &Home, arguments: &[&str]) -> Done {
    rebuild(home, &[arguments, &WHY].concat())
}

/// Every build as `status` prints it.
pub(crate) fn build_statuses(home: &Home) -> Vec<Value> {
    let done = rebuild(home, &["status", "--output", "json"]);
    if !done.status.success() {
        return Vec::new();
    }
    done.json().as_array().cloned().unwrap_or_default()
}

/// Waits until a build stands so, with nothing left to fold.
pub(crate) fn wait_for(home: &Home, build: u64, state: &str) {
    build_when(home, build, |one| one["state"] == state && one["folded"] == one["of"]);
}

/// Waits until a build stands so.
pub(crate) fn wait_for_state(home: &Home, build: u64, state: &str) {
    build_when(home, build, |one| one["state"] == state);
}

fn build_when(home: &Home, build: u64, is: impl Fn(&Value) -> bool) {
    until_seen(&format!("build {build} is as asked"), TURN_MAX, || {
        let all = build_statuses(home);
        let found = all.iter().any(|one| one["build"] == build && is(one));
        if found { Ok(()) } else { Err(all) }
    });
}

/// Checks what subscribers rely on: one id has one content, every version of an order is published,
/// and its numbers never go back. Returns how many events were published more than once (a crash
/// repeats the last batch), and how many events have a rebuild as their cause.
pub(crate) fn check_published(events: Vec<Value>) -> (usize, usize) {
    let mut by_id: BTreeMap<String, String> = BTreeMap::new();
    let (mut repeated, mut rebuilt) = (0, 0);
    let mut reached: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for event in events {
        let (id, order) = (event["id"].to_string(), event["subject"].to_string());
        let data = event["data"].to_string();
        let is_rebuilt = event["data"]["cause"]["kind"] == "rebuilt";
        if let Some(before) = by_id.insert(id.clone(), data.clone()) {
            assert_eq!(before, data, "{id} is published with two contents");
            repeated += 1;
            continue;
        }
        rebuilt += usize::from(is_rebuilt);
        let number = |name: &str| event["data"][name].as_u64().expect("a number");
        let (epoch, version) = (number("epoch"), number("version"));
        let (known_epoch, known_version) = reached.get(&order).copied().unwrap_or_default();
        let next = if is_rebuilt { known_version } else { known_version + 1 };
        assert!(epoch >= known_epoch, "{id} goes back from {known_epoch}");
        assert_eq!(version, next, "{id} follows {known_epoch}.{known_version}");
        reached.insert(order, (epoch, version));
    }
    (repeated, rebuilt)
}

/// The tour of docs/how-to/rebuild.md: a rule is broken on purpose; its effect is seen, published
/// and rolled back.
pub fn the_tour_can_be_followed(pair: Pair) {
    let Some(home) = pair.home() else { return };
    let system = home.boot();
    system.payfold(&["demo", "pay", "--count", "40", "--trouble", "all", "--seed", "3"]);
    Inside::of(&home).settle();
    let plan = rebuild(&home, &["plan"]).ok();
    assert!(plan.contains("makes build 2"), "{plan}");
    with_reason(&home, &["switch"]).fails(&["no new build"]);
    let started = with_reason(&home, &["start", "--drill", "--throttle", "100000"]).ok();
    assert!(started.contains("build 2 has started"), "{started}");
    rebuild(&home, &["status", "--watch"]).ok();
    wait_for(&home, 2, "ready");
    is_seen_in_metrics_and_check(&system);

    let diff = rebuild(&home, &["diff", "--output", "json"]);
    assert_eq!(diff.code(), 3, "{diff:?}");
    let rows = diff.rows();
    assert!(rows.iter().all(|row| row["cause"] == "rules"), "{rows:?}");
    let states: Vec<&Value> = rows.iter().filter(|row| row["field"] == "state").collect();
    assert!(!states.is_empty(), "some trouble gives money back");
    assert!(states.iter().all(|row| row["live"] == "REFUNDED" && row["new"] == "PAID"));
    let differing: BTreeSet<String> = rows.iter().map(|row| row["order"].to_string()).collect();

    let switched = with_reason(&home, &["switch"]).ok();
    assert!(switched.contains("under epoch 2"), "{switched}");
    wait_for(&home, 2, "live");
    let key = states[0]["order"].as_str().expect("a key").to_owned();
    let key: Vec<&str> = key.split('/').collect();
    let key = [key[0], key[1], key[2]];
    system.order_when(key, |order| order["state"] == "PAID");
    let of_rebuild = |number: u64| -> BTreeSet<String> {
        let all = home.tail("orders").into_iter();
        let rebuilt = all.filter(|event| event["data"]["cause"]["kind"] == "rebuilt");
        let of_number = rebuilt.filter(|event| event["data"]["epoch"] == number);
        of_number.map(|event| event["subject"].to_string()).collect()
    };
    assert_eq!(of_rebuild(2), differing, "exactly those that differ are published");
    let inspected = rebuild(&home, &["diff", "--order", &key.join("/")]);
    assert_eq!(inspected.code(), 3, "the rule is wrong, and the log shows it: {inspected:?}");

    let back = with_reason(&home, &["rollback"]).ok();
    assert!(back.contains("build 1") && back.contains("under epoch 3"), "{back}");
    wait_for(&home, 1, "live");
    assert_eq!(of_rebuild(3), differing, "and of the same again");
    system.order_when(key, |order| order["state"] == "REFUNDED");
    assert_eq!(rebuild(&home, &["diff", "--order", &key.join("/")]).code(), 0);
    assert_eq!(with_reason(&home, &["drop", "2"]).code(), 1, "not without --yes");
    with_reason(&home, &["drop", "2", "--yes"]).ok();
    until("it is gone", TURN_MAX, || (build_statuses(&home).len() == 1).then_some(()));
    until("nothing is left to say", TURN_MAX, || {
        (system.metric(BUILD_LAG).is_none() && has_one_build(&home)).then_some(())
    });
    if pair == Pair::Sqlite {
        let file = home.data().join("orders.g2.db");
        until("its file is gone", TURN_MAX, || (!file.exists()).then_some(()));
    }
    let (repeated, _) = check_published(home.tail("orders"));
    assert_eq!(repeated, 0);
    let verified = home.payfold(&["log", "verify"]);
    assert_eq!(verified.code(), 0, "{verified:?}");
}

/// A build in the making is in the metrics, and `check` says where it waits for a person.
fn is_seen_in_metrics_and_check(system: &System) {
    let home = system.home();
    system.metric_when(BUILD_LAG, 0.0);
    let ready = checked(home).expect("there are two");
    assert_eq!((&ready["result"], &ready["detail"]), (&json!("ok"), &json!("1 live; 2 ready")));
    with_reason(home, &["pause"]).ok();
    let paused = checked(home).expect("there are two");
    assert_eq!(
        (&paused["result"], &paused["detail"]),
        (&json!("warn"), &json!("1 live; 2 paused"))
    );
    assert!(paused["fix"].to_string().contains("payfold rebuild resume"), "{paused}");
    with_reason(home, &["resume"]).ok();
    wait_for(home, 2, "ready");
}

/// What `check --connect` says of builds, where there is more than one.
fn checked(home: &Home) -> Option<Value> {
    builds_row(check(home))
}

/// Whether `check --connect` succeeds and has nothing to say of builds. A database on a busy
/// machine may answer too late; then it fails.
fn has_one_build(home: &Home) -> bool {
    let done = check(home);
    done.status.success() && builds_row(done).is_none()
}

fn check(home: &Home) -> Done {
    home.payfold(&["check", "--connect", "--output", "json"])
}

fn builds_row(done: Done) -> Option<Value> {
    let rows = done.json();
    rows.as_array()?.iter().find(|row| row["check"] == "builds").cloned()
}

/// Two rebuilds under load. The builds are equal, nothing is published twice, nothing is missing,
/// and publishing moves on without a gap.
pub fn live_traffic_goes_on(pair: Pair) {
    let Some(home) = pair.home() else { return };
    let system = home.boot();
    std::thread::scope(|threads| {
        let pay = ["demo", "pay", "--count", "150", "--trouble", "all", "--seed", "5"];
        let load = home.spawn(&pay, &[], Stdio::piped);
        let load = threads.spawn(move || load.wait_with_output().expect("it is our child"));
        let seen = until("the load has begun", TURN_MAX, || {
            let events = home.tail("orders").len();
            (events > 20).then_some(events)
        });
        with_reason(&home, &["start"]).ok();
        let switched = until("a switch is let through", TURN_MAX, || {
            let done = with_reason(&home, &["switch"]);
            done.status.success().then_some(done)
        });
        assert!(switched.stdout.contains(" 0 differ"), "{switched:?}");
        wait_for_state(&home, 2, "live");
        let done = load.join().expect("it ends");
        assert!(done.status.success(), "{done:?}");
        assert!(home.tail("orders").len() > seen);
    });
    Inside::of(&home).settle();
    wait_for(&home, 2, "live");
    wait_for(&home, 1, "standby");
    let diff = rebuild(&home, &["diff", "--build", "1"]);
    assert_eq!(diff.code(), 0, "{diff:?}");
    let (repeated, rebuilt) = check_published(home.tail("orders"));
    assert_eq!((repeated, rebuilt), (0, 0), "nothing is published twice");
    let verified = home.payfold(&["log", "verify"]);
    assert_eq!(verified.code(), 0, "every change is published: {verified:?}");
    is_seen_to_fold_everything(&system);
    with_reason(&home, &["drop", "1", "--yes"]).ok();
    until("it is gone", TURN_MAX, || (build_statuses(&home).len() == 1).then_some(()));
    drop(system);
    is_seen_to_fold_everything(&home.boot());
}

/// The metrics count every partition as folded, whichever build is published.
fn is_seen_to_fold_everything(system: &System) {
    until("all partitions are counted as folded", TURN_MAX, || {
        let metrics = system.get("/metrics");
        let all = metrics.metric("payfold_projector_intake_partitions");
        let folded = metrics.metric("payfold_projector_partitions");
        (all > Some(0.0) && folded == all).then_some(())
    });
}

/// Dies by SIGKILL at a random moment of what a command does or begins, and boots again.
fn killed_during(system: System, arguments: &[&str], dice: &mut Dice) -> System {
    let home = Rc::clone(system.home());
    let mut child = home.spawn(&[&["rebuild"], arguments].concat(), &[], Stdio::null);
    std::thread::sleep(Duration::from_millis(dice.roll(400)));
    let home = system.kill();
    // Its exit code may be any.
    child.wait().expect("it is our child");
    home.boot()
}

/// Asks again until it was decided: the process may have died before.
fn insist(home: &Home, arguments: &[&str], build: u64, state: &str) {
    until(&format!("{arguments:?} is done"), TURN_MAX, || {
        let all = build_statuses(home);
        let one = all.iter().find(|one| one["build"] == build);
        if one.is_some_and(|one| one["state"] == state) {
            return Some(());
        }
        if !all.iter().any(|one| one["state"] == "switching") {
            // Refused where it has been decided meanwhile.
            with_reason(home, arguments);
        }
        None
    });
}

/// Killed in the middle of plans, builds, comparisons, switches, rollbacks and drops, it ends as if
/// nothing had happened.
#[expect(clippy::print_stdout, reason = "figures for people")]
pub fn killed_at_any_moment(pair: Pair) {
    let Some(home) = pair.home() else { return };
    let mut dice = Dice::new(knobs::seed().unwrap_or(8), 0);
    let mut system = home.boot();
    system.payfold(&["demo", "pay", "--count", "60", "--trouble", "all", "--seed", "11"]);
    let rounds = u64::from(knobs::kills()).div_ceil(KILLS_A_ROUND);
    let mut live = 1;
    for new in 2..2 + rounds {
        system = killed_in_one_round(system, &mut live, new, &mut dice);
    }
    wait_for(&home, live, "live");
    let (repeated, rebuilt) = check_published(home.tail("orders"));
    let kills = rounds * KILLS_A_ROUND;
    println!("killed {kills} times: published again {repeated}, published as rebuilt {rebuilt}");
    assert!(rebuilt > 0, "some orders were published anew ({repeated} repeats)");
    drop(system);
}

/// Makes a build, publishes it and rolls it back. Then drops it or, every other time, the build
/// before it.
fn killed_in_one_round(mut system: System, live: &mut u64, new: u64, dice: &mut Dice) -> System {
    let home = Rc::clone(system.home());
    let name = new.to_string();
    let with_why = |arguments: &[&'static str]| [arguments, &WHY].concat();
    system = killed_during(system, &["plan"], dice);
    system = killed_during(system, &with_why(&["start", "--drill"]), dice);
    insist(&home, &["start", "--drill"], new, "ready");
    system = killed_during(system, &["diff", "--build", &name], dice);
    system = killed_during(system, &with_why(&["switch"]), dice);
    insist(&home, &["switch"], new, "live");
    system.payfold(&["demo", "pay", "--count", "3", "--seed", &name]);
    system = killed_during(system, &with_why(&["rollback"]), dice);
    insist(&home, &["rollback"], *live, "live");
    let mut other = new;
    if new % 2 == 1 {
        insist(&home, &["switch", "--build", &name], new, "live");
        other = std::mem::replace(live, new);
    }
    wait_for_state(&home, other, "standby");
    let other_name = other.to_string();
    let drop_it = ["drop", &other_name, "--yes", WHY[0], WHY[1]];
    system = killed_during(system, &drop_it, dice);
    until("it is gone", TURN_MAX, || {
        let all = build_statuses(&home);
        if all.iter().any(|one| one["build"] == other) {
            rebuild(&home, &drop_it);
            return None;
        }
        (!all.is_empty()).then_some(())
    });
    system
}
