//! Owns what becomes of a record that can't be read. The fold stops before it and reports that,
//! until a person parks the record. Then the fold goes on behind it, now and when the log is folded
//! anew.

use std::rc::Rc;
use std::time::Duration;

use payfold_engines::log::{Message, Topic};
use payfold_schemas::position::Position;

use crate::support::notice::Notice;
use crate::support::pair::{Inside, Pair, with_log};
use crate::support::system::{Home, System};
use crate::support::waits::until;

const WAIT_MAX: Duration = Duration::from_secs(40);
const ORDER: [&str; 3] = ["sandbox", "DEMO", "o-1"];

/// Posts a notice of the order's payment, and expects 200.
fn pay(system: &System, provider_ref: &str) {
    let path = system.home().data().join("sandbox.key");
    let secret = std::fs::read_to_string(path).expect("a demo has a key");
    let body = Notice::paid("DEMO", ORDER[2], provider_ref).signed(secret.trim());
    assert_eq!(system.post_ipn(&body).status, 200);
}

/// Waits until the metrics hold this line.
fn shows(system: &System, line: &str) {
    until(line, WAIT_MAX, || {
        let metrics = system.ask_admin("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").text();
        metrics.lines().any(|found| found == line).then_some(())
    });
}

/// Appends a copy of the order's first record with one changed bit; returns the positions of both.
fn damage(home: &Home) -> [Position; 2] {
    let records = Inside::of(home).messages(Topic::Intake);
    let first = records.into_iter().find(|one| one.key.ends_with("/o-1")).expect("a record");
    let mut value = first.value;
    *value.last_mut().expect("a byte") ^= 1;
    let damaged = with_log(home, async |log| {
        let message = Message { key: first.key, event: None, value };
        log.append(Topic::Intake, message).await.expect("it is stored as any other")
    });
    [first.position, damaged]
}

fn stopped(system: System) -> Rc<Home> {
    system.stop().0
}

pub fn a_damaged_record_is_skipped_once_a_person_parks_it(pair: Pair) {
    let Some(home) = pair.home() else { return };
    let system = home.boot();
    pay(&system, "r-1");
    Inside::of(&home).settle();
    stopped(system);
    let [whole, damaged] = damage(&home).map(|position| position.to_string());

    let system = home.boot();
    pay(&system, "r-2");
    shows(&system, "payfold_projector_partitions_halted 1");
    stopped(system);
    assert!(home.log().contains(&format!("payfold log park {damaged}")), "{}", home.log());
    let verified = home.payfold(&["log", "verify"]);
    assert_eq!(verified.code(), 3, "{verified:?}");
    assert!(verified.stdout.contains(&damaged) && verified.stdout.contains("checksum"));
    // What a person looks at then works beside it.
    home.payfold(&["log", "stats"]).ok();
    home.payfold(&["key", "list"]).ok();
    let traced = home.payfold(&["trace", &ORDER.join("/")]).ok();
    assert!(traced.contains("damaged"), "{traced}");
    let tail = home.payfold(&["tail", "intake", "--no-follow"]).ok();
    assert!(tail.contains("can't be read: record fails its checksum"), "{tail}");

    let reason = ["--reason", "the disk lost it", "--by", "mai"];
    let park = |position: &str, more: &[&str]| {
        home.payfold(&[&["log", "park", position], &reason[..], more].concat())
    };
    let whole = park(&whole, &["--yes"]);
    assert!(whole.code() == 1 && whole.stderr.contains("is not damaged"), "{whole:?}");
    let nothing = park("0-999999", &["--yes"]);
    assert!(nothing.code() == 1 && nothing.stderr.contains("has no record"), "{nothing:?}");
    let records = || Inside::of(&home).messages(Topic::Intake).len();
    let before = records();
    let printed = park(&damaged, &[]).ok();
    assert!(
        printed.contains("fails its checksum") && printed.contains("Nothing was changed"),
        "{printed}"
    );
    assert!(printed.contains("folded  no"), "{printed}");
    assert_eq!(records(), before);
    let done = park(&damaged, &["--yes"]).ok();
    assert!(done.contains("The record is parked"), "{done}");
    assert!(records() > before);
    let again = park(&damaged, &["--yes"]).ok();
    assert!(again.contains("is parked already, by mai at ") && again.contains("the disk lost it"));

    let system = home.boot();
    Inside::of(&home).settle();
    let order = system.order_when(ORDER, |order| order["version"] == 2);
    shows(&system, "payfold_projector_partitions_halted 0");
    shows(&system, "payfold_reconciler_halted 0");
    shows(&system, "payfold_reconciler_lag_records 0");
    stopped(system);
    for more in [&[][..], &["--chain"], &["--signatures"]] {
        let verified = home.payfold(&[&["log", "verify"], more].concat());
        assert_eq!(verified.code(), 0, "{more:?}: {verified:?}");
        assert!(!more.is_empty() || verified.stderr.contains("0 differences; 1 parked"));
    }

    if pair == Pair::Sqlite {
        for file in ["orders.db", "orders.db-wal", "orders.db-shm"] {
            let _ = std::fs::remove_file(home.data().join(file));
        }
        let system = home.boot();
        Inside::of(&home).settle();
        let anew = system.order_when(ORDER, |order| order["version"] == 2);
        assert_eq!(anew["attention"], order["attention"]);
    }
}
