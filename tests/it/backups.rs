//! Owns the proof that a backup made beside live traffic is whole, and that a system restored from
//! it goes on: no file is overwritten, no broken backup is taken, and the content of all orders is
//! the same.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::rebuild::{wait_for_state, with_reason};
use crate::support::demo::Demo;
use crate::support::notice::Notice;
use crate::support::pair::Inside;
use crate::support::system::{Done, Home};
use crate::support::waits::until;
use crate::support::wire::{Connection, notice_request};

/// A demo that has folded so many orders.
fn with_orders(orders: usize) -> Demo {
    let demo = Demo::boot();
    for order in (0..orders).map(|number| format!("o-{number}")) {
        demo.pay(&order, &order);
    }
    demo.catch_up();
    demo
}

fn backup(home: &Home, name: &str) -> (String, Done) {
    let folder = home.file(name);
    let done = home.payfold(&["log", "backup", &folder]);
    (folder, done)
}

fn state(home: &Home) -> serde_json::Value {
    home.payfold(&["log", "verify", "--state", "--output", "json"]).json()
}

fn refused(done: &Done, words: &[&str]) {
    done.fails(&["\n  fix: "]);
    done.fails(words);
}

#[test]
fn a_backup_beside_live_traffic_is_whole_and_what_is_restored_goes_on() {
    let demo = with_orders(30);
    let (ended, home) = (AtomicBool::new(false), Rc::clone(demo.system.home()));
    let (address, secret) = (demo.system.public(), demo.secret.clone());
    let (folder, done) = std::thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let mut connection = Connection::open(address);
            let mut sent = 0;
            while !ended.load(Ordering::Relaxed) {
                let id = format!("live-{sent}");
                let body = Notice::paid("DEMO", &id, &id).signed(&secret);
                let answer = connection.exchange(&notice_request(&body));
                assert_eq!(answer.status, 200, "the backup delays no notice");
                sent += 1;
            }
            sent
        });
        let made = backup(&home, "copy");
        ended.store(true, Ordering::Relaxed);
        assert!(traffic.join().expect("it did not panic") > 0);
        made
    });
    let printed = done.ok();
    assert!(printed.contains("orders, log to 0-") && printed.contains("vault.key"), "{printed}");
    Inside::of(&home).settle();
    let live = state(&home);
    drop(demo);

    let restored = Home::with_keys_of(&home);
    let printed = restored.payfold(&["log", "restore", &folder]).ok();
    assert!(printed.contains("restored into") && printed.contains("send its notices"), "{printed}");
    let demo = Demo::of(restored.boot());
    demo.catch_up();
    demo.pay("after-the-restore", "after-the-restore");
    for order in ["after-the-restore", "o-29"] {
        let key = ["sandbox", "DEMO", order];
        demo.system.order_when(key, |order| order["state"] == "UNMATCHED");
    }
    let (restored, status) = demo.system.stop();
    assert!(status.success());
    restored.payfold(&["log", "verify"]).ok();
    let orders = |state: &serde_json::Value| state["orders"].as_u64().expect("a count");
    assert!((31..=orders(&live) + 1).contains(&orders(&state(&restored))));
}

/// The data of every published event, by the event's id.
fn published(home: &Home) -> BTreeMap<String, serde_json::Value> {
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let events = home.tail("orders").into_iter();
    events.map(|event| (text(&event["id"]), event["data"].clone())).collect()
}

/// Boots the restored system, and gives `o-1` another continuation than it had at home.
fn goes_on(restored: &Rc<Home>) -> BTreeMap<String, serde_json::Value> {
    let demo = Demo::of(restored.boot());
    demo.pay("o-1", "only-here");
    demo.catch_up();
    // An unpublished build is folded, too, and may be the first to have the order.
    let is_new = |data: &serde_json::Value| {
        data["orderId"] == "o-1" && data["epoch"].as_u64().is_some_and(|number| number > 1)
    };
    until("the new build publishes it", Duration::from_secs(15), || {
        published(restored).values().any(is_new).then_some(())
    });
    drop(demo);
    restored.payfold(&["log", "verify"]).ok();
    published(restored)
}

#[test]
fn nothing_is_published_under_a_version_that_was_seen_before_the_restore() {
    let demo = with_orders(3);
    let home = Rc::clone(demo.system.home());
    let (folder, done) = backup(&home, "first");
    done.ok();
    demo.pay("o-1", "lost-by-the-restore");
    demo.catch_up();
    let seen = published(&home);
    assert!(seen.keys().any(|id| id.ends_with("o-1/1/2")), "{seen:?}");

    let restored = Home::with_keys_of(&home);
    let printed = restored.payfold(&["log", "restore", &folder]).ok();
    assert!(printed.contains("epoch 2"), "{printed}");
    let published_there = goes_on(&restored);
    for (id, data) in &published_there {
        assert!(seen.get(id).is_none_or(|known| known == data), "{id} has another content");
    }
    let later = published_there.iter().find(|(id, _)| id.ends_with("o-1/2/2"));
    assert_eq!(later.expect("it is later than what was seen").1["epoch"], 2, "{published_there:?}");
    restored.payfold(&["log", "verify", "--chain"]).ok();

    // Another build was published meanwhile, and `--above` says that readers have seen a higher
    // version than backup and claims know.
    for (asked, state) in [("start", "ready"), ("switch", "live")] {
        with_reason(&home, &[asked]).ok();
        wait_for_state(&home, 2, state);
    }
    let (folder, done) = backup(&home, "second");
    done.ok();
    let above = Home::with_keys_of(&home);
    above.payfold(&["log", "restore", &folder, "--above", "7"]).ok();
    let published_there = goes_on(&above);
    assert!(published_there.keys().any(|id| id.ends_with("o-1/8/3")), "{published_there:?}");
}

#[test]
fn the_state_digest_is_that_of_the_content_and_of_nothing_else() {
    let demo = with_orders(12);
    let (home, _) = demo.system.stop();
    let first = state(&home);
    assert_eq!((&first["orders"], &first["moved"]), (&12.into(), &false.into()));
    let printed = home.payfold(&["log", "verify", "--state"]).ok();
    assert!(printed.contains(first["stateDigest"].as_str().expect("a digest")), "{printed}");
    home.remove_orders();
    let again = Demo::of(home.boot());
    again.catch_up();
    assert_eq!(state(&home), first, "folded again from the log");
    again.pay("o-1", "another-ref");
    again.catch_up();
    let changed = state(&home);
    assert_eq!(changed["orders"], 12);
    assert_ne!(changed["stateDigest"], first["stateDigest"]);
}

#[test]
fn what_is_no_backup_is_not_restored_and_nothing_is_written_over() {
    let demo = with_orders(2);
    let home = Rc::clone(demo.system.home());
    let (folder, done) = backup(&home, "copy");
    done.ok();
    refused(&backup(&home, "copy").1, &["copy is not empty"]);
    refused(&home.payfold(&["log", "restore", &folder]), &["log.db exists already", "--claims"]);
    let elsewhere = Home::with_keys_of(&home);
    refused(&elsewhere.payfold(&["log", "restore", &home.file(".")]), &["is no backup"]);

    let log = home.path().join("copy/log.db");
    let whole = std::fs::read(&log).expect("a log");
    let mut broken = whole.clone();
    let last = broken.len() - 1;
    broken[last] ^= 1;
    std::fs::write(&log, &broken).expect("ours");
    refused(&elsewhere.payfold(&["log", "restore", &folder]), &["log.db is not the file"]);
    assert!(!elsewhere.data().join("orders.db").exists(), "nothing was begun");
    std::fs::write(&log, &whole).expect("ours");

    let claims = home.file("data/orders.claims.db");
    elsewhere.payfold(&["log", "restore", &folder, "--claims", &claims]).ok();
    let cluster =
        Home::configured("log = \"kafka://127.0.0.1:1/x\"\norders = \"cql://127.0.0.1:1/x\"\n");
    let (_, done) = backup(&cluster, "copy");
    refused(&done, &["Kafka", "replication"]);
}
