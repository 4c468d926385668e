//! Owns what becomes of a record that can't be read. The fold stops before it and reports that,
//! until two people park the record. Then the fold goes on behind it, now and when the log is
//! folded anew.

use std::rc::Rc;
use std::time::Duration;

use payfold_engines::log::{Message, Topic};
use payfold_schemas::position::Position;
use payfold_schemas::record_mac::Writer;

use crate::support::demo::Demo;
use crate::support::pair::{Inside, Pair, with_log};
use crate::support::system::{Home, System};
use crate::support::waits::until;

const REASON: &str = "the disk lost it";
const ORDER: [&str; 3] = ["sandbox", "DEMO", "o-1"];

/// Appends a copy of the first record of `o-1` with one changed bit to a topic; returns the
/// positions of both.
pub(crate) fn damage(home: &Home, topic: Topic) -> [Position; 2] {
    let records = Inside::of(home).messages(Topic::Intake);
    let first = records.into_iter().find(|one| one.key.ends_with("/o-1")).expect("a record");
    let mut value = first.value;
    *value.last_mut().expect("a byte") ^= 1;
    let damaged = with_log(home, Writer::Ingest, async |log| {
        let message = Message { key: first.key, event: None, value, mac: None };
        log.append(topic, message).await.expect("it is stored as any other")
    });
    [first.position, damaged]
}

/// The token file of a person who may agree to park a record.
fn second_person(home: &Home) -> String {
    let file = home.path().join("linh.token");
    if file.exists() { home.file("linh.token") } else { home.token_file("linh", "operator") }
}

/// Parks a record, as two people do; what the command prints to the second.
pub(crate) fn park_by_two(home: &Home, place: &str) -> String {
    let park = ["log", "park", place, "--reason", REASON, "--yes"];
    let first = home.payfold(&park).ok();
    assert!(first.contains("once another person runs the same command"), "{first}");
    let second = second_person(home);
    home.payfold(&[&park[..], &["--admin-token-file", &second]].concat()).ok()
}

/// `Some` unless the metrics say that everything is folded. A projector that has ended has no lag.
fn has_lag(system: &System) -> Option<()> {
    let text = system.get("/metrics").text();
    let samples = text.lines().filter(|line| line.starts_with("payfold_projector_lag_seconds{"));
    let ages: Vec<f64> = samples
        .map(|line| line.rsplit_once(' ').expect("a value").1.parse().expect("a number"))
        .collect();
    (ages.is_empty() || ages.iter().any(|age| *age > 0.0)).then_some(())
}

/// Parks the damaged record as two people, and no other.
fn parks(home: &Rc<Home>, whole: &str, damaged: &str) {
    let park = |position: &str, more: &[&str]| {
        home.payfold(&[&["log", "park", position, "--reason", REASON], more].concat())
    };
    park(whole, &["--yes"]).fails(&["is not damaged"]);
    park("0-999999", &["--yes"]).fails(&["has no record"]);
    let records = || Inside::of(home).messages(Topic::Intake).len();
    let before = records();
    let printed = park(damaged, &[]).ok();
    assert!(
        printed.contains("fails its checksum") && printed.contains("Nothing was changed"),
        "{printed}"
    );
    assert!(printed.contains("folded  no"), "{printed}");
    assert_eq!(records(), before);
    park(damaged, &["--yes"]).ok();
    assert!(records() > before, "the proposal is a record");
    park(damaged, &["--yes"]).fails(&["local has proposed this at ", "a second person"]);
    let verified = home.payfold(&["log", "verify"]);
    assert!(verified.code() == 3 && verified.stdout.contains(damaged), "one person parks nothing");
    let system = home.boot();
    system.metric_when("payfold_projector_partitions_halted", 1.0);
    system.stop();
    let viewer = home.token_file("vic", "viewer");
    let refused = park(damaged, &["--yes", "--admin-token-file", &viewer]);
    refused.fails(&["vic has the role viewer, and this takes one of: finance, operator, admin"]);
    let done = park(damaged, &["--yes", "--admin-token-file", &second_person(home)]).ok();
    assert!(done.contains("parking it was proposed by local at "), "{done}");
    assert!(done.contains("The record is parked"), "{done}");
    let again = park(damaged, &["--yes"]).ok();
    assert!(again.contains("is parked already, by local and linh at ") && again.contains(REASON));
}

pub fn a_damaged_record_is_skipped_once_two_people_park_it(pair: Pair) {
    let Some(home) = pair.home() else { return };
    let demo = Demo::of(home.boot());
    demo.pay(ORDER[2], "r-1");
    demo.catch_up();
    demo.system.stop();
    let [whole, damaged] = damage(&home, Topic::Intake).map(|position| position.to_string());

    let demo = Demo::of(home.boot());
    demo.pay(ORDER[2], "r-2");
    demo.system.metric_when("payfold_projector_partitions_halted", 1.0);
    until("what is not folded is seen", Duration::from_secs(20), || has_lag(&demo.system));
    let checked = home.payfold(&["check"]);
    assert!(checked.stdout.contains("orders of some partitions don't follow"), "{checked:?}");
    demo.system.stop();
    assert!(home.log().contains(&format!("payfold log park {damaged}")), "{}", home.log());
    let verified = home.payfold(&["log", "verify"]);
    assert_eq!(verified.code(), 3, "{verified:?}");
    assert!(verified.stdout.contains(&damaged) && verified.stdout.contains("checksum"));
    // What a person looks at then works beside it.
    let stats = home.payfold(&["log", "stats", "--output", "json"]).json();
    let lags = stats.as_array().expect("a list").iter().filter_map(|row| row["lagS"].as_f64());
    assert!(lags.max_by(f64::total_cmp) > Some(0.0), "{stats}");
    home.payfold(&["key", "list"]).ok();
    let traced = home.payfold(&["trace", &ORDER.join("/")]).ok();
    assert!(traced.contains("damaged"), "{traced}");
    let tail = home.payfold(&["tail", "intake", "--no-follow"]).ok();
    assert!(tail.contains("can't be read: record fails its checksum"), "{tail}");

    parks(&home, &whole, &damaged);

    let system = home.boot();
    Inside::of(&home).settle();
    let order = system.order_when(ORDER, |order| order["version"] == 2);
    for metric in [
        "payfold_projector_partitions_halted",
        "payfold_reconciler_halted",
        "payfold_reconciler_lag_records",
    ] {
        system.metric_when(metric, 0.0);
    }
    system.stop();
    for more in [&[][..], &["--chain"], &["--signatures"]] {
        let verified = home.payfold(&[&["log", "verify"], more].concat());
        assert_eq!(verified.code(), 0, "{more:?}: {verified:?}");
        assert!(!more.is_empty() || verified.stderr.contains("0 differences; 1 parked"));
    }

    if pair == Pair::Sqlite {
        home.remove_orders();
        let system = home.boot();
        Inside::of(&home).settle();
        let anew = system.order_when(ORDER, |order| order["version"] == 2);
        assert_eq!(anew["attention"], order["attention"]);
    }
}
