//! Owns the proof that the log can't be changed unnoticed once it is folded. A flipped byte, a
//! removed record, two swapped records and a cut tail are each found and located. A change that was
//! made to fit in the order store, too, is found by heads that were remembered outside this folder.

use std::rc::Rc;

use payfold_engines::log::Topic;
use rusqlite::{Connection, params};
use serde_json::Value;

use crate::support::demo::Demo;
use crate::support::macs::sign_anew;
use crate::support::pair::Inside;
use crate::support::system::{Done, Home, System};

const ORDERS: u64 = 12;

/// The folder of a stopped demo: its log holds `ORDERS` records, each folded in its own batch.
fn folded() -> Rc<Home> {
    let demo = Demo::boot();
    for order in (1..=ORDERS).map(|number| format!("o-{number}")) {
        demo.pay(&order, &order);
        demo.catch_up();
    }
    // It is set after the commit that `settle` sees.
    demo.system.metric_when("payfold_projector_chain_offset{partition=\"0\"}", 12.0);
    let (home, status) = demo.system.stop();
    assert!(status.success());
    home
}

fn log_of(home: &Home) -> Connection {
    Connection::open(home.data().join("log.db")).expect("a log")
}

fn verify(home: &Home, more: &[&str]) -> Done {
    let arguments = [&["log", "verify", "--chain", "--output", "json"], more].concat();
    home.payfold(&arguments)
}

/// The rows of differences, as `field: stored: folded`.
fn shown(done: &Done) -> Vec<String> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let shown = |row: &Value| ["field", "stored", "folded"].map(|name| text(&row[name])).join(": ");
    done.rows().iter().map(shown).collect()
}

/// What is found in the chain.
fn found(home: &Home, more: &[&str]) -> Vec<String> {
    let done = verify(home, more);
    assert_eq!(done.code(), 3, "{done:?}");
    shown(&done)
}

#[test]
fn what_is_changed_taken_out_swapped_or_cut_is_found_where_it_was() {
    let home = folded();
    let done = verify(&home, &[]);
    assert_eq!(done.code(), 0, "{done:?}");
    assert!(done.stderr.contains("chain head at 0-12: "), "{done:?}");
    let log = log_of(&home);
    let value = |position: i64| -> Vec<u8> {
        let sql = "SELECT value FROM intake WHERE position = ?";
        log.query_row(sql, [position], |row| row.get(0)).expect("a record")
    };
    let put = |position: i64, value: &[u8]| {
        let sql = "UPDATE intake SET value = ? WHERE position = ?";
        assert_eq!(log.execute(sql, params![value, position]).expect("ours"), 1);
    };

    let whole = value(5);
    let mut flipped = whole.clone();
    *flipped.last_mut().expect("a byte") ^= 1;
    put(5, &flipped);
    let expected = "chain: the commit of 0-5 to 0-5: 0-5: record fails its checksum";
    assert_eq!(found(&home, &[]), [expected]);
    put(5, &whole);

    log.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM intake WHERE position = 7").unwrap();
    log.execute_batch("DELETE FROM intake WHERE position = 7").unwrap();
    assert_eq!(found(&home, &[]), ["chain: the commit of 0-7 to 0-7: 0-7 is not there"]);
    log.execute_batch("INSERT INTO intake SELECT * FROM kept").unwrap();

    let (third, fourth) = (value(3), value(4));
    put(3, &fourth);
    put(4, &third);
    sign_anew(&home, Topic::Intake);
    let other = "other records than were folded: one was replaced, moved or put in";
    let expected =
        ["0-3 to 0-3", "0-4 to 0-4"].map(|of| format!("chain: the commit of {of}: {other}"));
    assert_eq!(found(&home, &[]), expected);
    put(3, &third);
    put(4, &fourth);
    sign_anew(&home, Topic::Intake);
    assert_eq!(verify(&home, &[]).code(), 0, "all is as it was");

    log.execute_batch("DELETE FROM intake WHERE position > 10").unwrap();
    let expected = "chain: folded to 0-12: the log ends at 0-10: its tail is gone";
    assert_eq!(found(&home, &[]), [expected]);
}

/// What `log verify` finds.
fn differences(home: &Home) -> Vec<String> {
    let done = home.payfold(&["log", "verify", "--output", "json"]);
    let shown = shown(&done);
    assert_eq!(done.code(), if shown.is_empty() { 0 } else { 3 }, "{done:?}");
    shown
}

#[test]
fn a_published_event_is_what_its_record_yields() {
    let home = folded();
    assert_eq!(differences(&home), [""; 0]);
    let log = log_of(&home);
    log.execute_batch("CREATE TEMP TABLE kept AS SELECT * FROM orders").unwrap();
    let whole = "DELETE FROM orders; INSERT INTO orders SELECT * FROM kept";
    let changed = |sql: &str| {
        assert_eq!(log.execute(sql, []).expect("ours"), 1, "{sql}");
        sign_anew(&home, Topic::Orders);
        let found = differences(&home);
        log.execute_batch(whole).unwrap();
        found
    };

    let lie = "UPDATE orders SET value = \
        CAST(replace(CAST(value AS TEXT), '\"fulfil\":false', '\"fulfil\":true') AS BLOB)
               WHERE position = 3";
    assert_eq!(changed(lie), ["event 1/1 fulfil: true: false"]);
    let earlier = "UPDATE orders SET time = '2020-01-01T00:00:00Z' WHERE position = 4";
    let found = changed(earlier);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("event 1/1 time: 2020-01-01T00:00:00Z: "), "{found:?}");
    let missing = changed("DELETE FROM orders WHERE position = 5");
    let gap = "orders: 0-5 is not there: an event or a repeat of one";
    assert_eq!(missing, [gap, "event 1/1: missing: intake 0-5"]);
    let last = changed("DELETE FROM orders WHERE position = 12");
    assert_eq!(last, ["event 1/1: missing: intake 0-12"]);
    let first = changed("DELETE FROM orders WHERE position = 1");
    assert_eq!(first, ["event 1/1: missing: intake 0-1"], "nothing expires from this log");
    let made_up =
        "INSERT INTO orders SELECT 13, key, replace(id, '/1/1', '/1/2'), type, time, value, mac
                   FROM orders WHERE position = 6";
    let nothing = "the log has no record that yields it";
    assert_eq!(changed(made_up), [format!("event 1/2: orders 0-13: {nothing}")]);
    let renamed = "UPDATE orders SET id = 'o-7' WHERE position = 7";
    let expected = ["event o-7: orders 0-7: no id of this order", "event 1/1: missing: intake 0-7"];
    assert_eq!(changed(renamed), expected);
    // A repeat after a crash is the same event twice, and no difference.
    let twice = "INSERT INTO orders SELECT 13, key, id, type, time, value, mac FROM orders
                 WHERE position = 6";
    assert_eq!(changed(twice), [""; 0]);
    assert_eq!(differences(&home), [""; 0], "all is as it was");
}

#[test]
fn what_is_published_and_not_committed_is_no_difference_and_has_to_be_right() {
    let home = folded();
    let before = ["orders.db", "orders.db-wal", "orders.db-shm"].map(|name| {
        let path = home.data().join(name);
        (path.clone(), std::fs::read(path).ok())
    });
    let demo = Demo::of(home.boot());
    demo.pay("late", "late");
    demo.catch_up();
    drop(demo);
    // As if the process had ended between the event and the commit.
    for (path, bytes) in before {
        let _ = std::fs::remove_file(&path);
        if let Some(bytes) = bytes {
            std::fs::write(path, bytes).expect("it was there");
        }
    }
    assert_eq!(differences(&home), [""; 0]);
    let log = log_of(&home);
    let lie = "UPDATE orders SET value = \
        CAST(replace(CAST(value AS TEXT), '\"fulfil\":false', '\"fulfil\":true') AS BLOB)
               WHERE position = 13";
    assert_eq!(log.execute(lie, []).expect("ours"), 1);
    sign_anew(&home, Topic::Orders);
    assert_eq!(differences(&home), ["event 1/1 fulfil: true: false"]);
    log.execute_batch("DELETE FROM orders WHERE position = 13").unwrap();
    assert_eq!(differences(&home), [""; 0], "it is published after the next start");
}

#[test]
fn a_head_that_was_remembered_finds_what_was_made_to_fit_everywhere() {
    let home = folded();
    let anchor = home.file("heads.json");
    assert_eq!(verify(&home, &["--anchor", &anchor]).code(), 0);
    assert_eq!(verify(&home, &["--against", &anchor]).code(), 0);

    // A copy of another record replaces one, and the orders are folded anew.
    let swap = "UPDATE intake SET (key, value) = (SELECT key, value FROM intake WHERE position = 5)
                WHERE position = 6";
    log_of(&home).execute_batch(swap).unwrap();
    sign_anew(&home, Topic::Intake);
    home.remove_orders();
    let system = home.boot();
    Inside::of(&home).settle();
    drop(system);
    assert_eq!(home.payfold(&["log", "verify", "--chain"]).code(), 0, "it all fits");
    let lines = found(&home, &["--against", &anchor]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("anchor: 0-12: ") && lines[0].contains("changed since"),
        "{lines:?}"
    );

    let elsewhere = System::demo();
    verify(elsewhere.home(), &["--against", &anchor]).fails(&["another log", "fix: "]);
}

#[test]
fn a_store_of_before_there_were_heads_is_chained_from_where_it_stands() {
    let home = folded();
    let orders = Connection::open(home.data().join("orders.db")).expect("a store");
    orders.execute_batch("UPDATE progress_g1 SET head = NULL; DROP TABLE heads_g1").unwrap();
    drop(orders);
    let lines = found(&home, &[]);
    assert!(lines[0].contains("nothing was chained"), "{lines:?}");
    let demo = Demo::of(home.boot());
    for id in ["later-1", "later-2"] {
        demo.pay(id, id);
        demo.catch_up();
    }
    drop(demo);
    assert_eq!(verify(&home, &[]).code(), 0);
    log_of(&home).execute_batch("DELETE FROM intake WHERE position = 13").unwrap();
    assert_eq!(found(&home, &[]), ["chain: the commit of 0-13 to 0-13: 0-13 is not there"]);
}
