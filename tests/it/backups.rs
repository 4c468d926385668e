//! Owns the proof that a backup made beside live traffic is whole, and that a system restored from
//! it goes on: no file is overwritten, no broken backup is taken, and the content of all orders is
//! the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::notice::Notice;
use crate::support::pair::Inside;
use crate::support::system::{Done, Home, System};
use crate::support::waits::until;

/// A demo and the key its partner signs with.
struct Demo {
    system: System,
    secret: String,
}

impl Demo {
    fn boot() -> Self {
        let system = System::demo();
        let path = system.home().data().join("sandbox.key");
        let secret = std::fs::read_to_string(path).expect("a demo has a key").trim().to_owned();
        Self { system, secret }
    }

    fn take(&self, order: &str) {
        let body = Notice::paid("DEMO", order, order).signed(&self.secret);
        assert_eq!(self.system.post_ipn(&body).status, 200);
    }

    fn with_orders(orders: usize) -> Self {
        let demo = Self::boot();
        (0..orders).for_each(|number| demo.take(&format!("o-{number}")));
        Inside::of(demo.system.home()).settle();
        demo
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of a test is text")
}

fn backup(home: &Home, name: &str) -> (PathBuf, Done) {
    let folder = home.path().join(name);
    let done = home.payfold(&["log", "backup", text(&folder)]);
    (folder, done)
}

fn state(home: &Home) -> serde_json::Value {
    home.payfold(&["log", "verify", "--state", "--output", "json"]).json()
}

fn refused(done: &Done, words: &[&str]) {
    assert_eq!(done.code(), 1, "{done:?}");
    assert!(done.stderr.contains("\n  fix: "), "{done:?}");
    for word in words {
        assert!(done.stderr.contains(word), "{word}: {done:?}");
    }
}

/// A home with what opens the vault, and nothing else.
fn bare(from: &Home) -> Rc<Home> {
    let home = Home::new();
    std::fs::create_dir(home.data()).expect("it is new");
    for file in ["vault.key", "sandbox.key", "admin.token", "demo.key"] {
        std::fs::copy(from.data().join(file), home.data().join(file)).expect("a demo has it");
    }
    home
}

#[test]
fn a_backup_beside_live_traffic_is_whole_and_what_is_restored_goes_on() {
    let demo = Demo::with_orders(30);
    let (ended, home) = (AtomicBool::new(false), Rc::clone(demo.system.home()));
    let (address, secret) = (demo.system.public(), demo.secret.clone());
    let (folder, done) = std::thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let mut connection = crate::support::wire::Connection::open(address);
            let mut sent = 0;
            while !ended.load(Ordering::Relaxed) {
                let id = format!("live-{sent}");
                let body = Notice::paid("DEMO", &id, &id).signed(&secret);
                let request = crate::support::wire::post_request("/api/payment/ipn", &body);
                connection.send(&request);
                let answer = connection.answer().expect("an answer");
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

    let restored = bare(&home);
    let printed = restored.payfold(&["log", "restore", text(&folder)]).ok();
    assert!(printed.contains("restored into") && printed.contains("send its notices"), "{printed}");
    let boot = restored.boot();
    Inside::of(&restored).settle();
    let id = "after-the-restore";
    let body = Notice::paid("DEMO", id, id).signed(&secret);
    assert_eq!(boot.post_ipn(&body).status, 200);
    boot.order_when(["sandbox", "DEMO", id], |order| order["state"] == "UNMATCHED");
    boot.order_when(["sandbox", "DEMO", "o-29"], |order| order["state"] == "UNMATCHED");
    let (restored, status) = boot.stop();
    assert!(status.success());
    restored.payfold(&["log", "verify"]).ok();
    let orders = |state: &serde_json::Value| state["orders"].as_u64().expect("a count");
    assert!((31..=orders(&live) + 1).contains(&orders(&state(&restored))));
}

/// The data of every published event, by the event's id.
fn published(home: &Home) -> BTreeMap<String, serde_json::Value> {
    let tail = ["tail", "orders", "--no-follow", "--output", "jsonl"];
    let events = home.payfold(&tail).json_lines();
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    events.into_iter().map(|event| (text(&event["id"]), event["data"].clone())).collect()
}

/// Waits until a build stands so.
fn wait_for(home: &Home, build: u64, state: &str) {
    until("the build is there", Duration::from_secs(30), || {
        let all = home.payfold(&["rebuild", "status", "--output", "json"]).json();
        let mut all = all.as_array()?.iter();
        all.find(|one| one["build"] == build && one["state"] == state).map(drop)
    });
}

/// Boots the restored system, and gives `o-1` another continuation than it had at home.
fn goes_on(restored: &Rc<Home>, secret: &str) -> BTreeMap<String, serde_json::Value> {
    let system = restored.boot();
    let body = Notice::paid("DEMO", "o-1", "only-here").signed(secret);
    assert_eq!(system.post_ipn(&body).status, 200);
    Inside::of(restored).settle();
    // An unpublished build is folded, too, and may be the first to have the order.
    let is_new = |data: &serde_json::Value| {
        data["orderId"] == "o-1" && data["epoch"].as_u64().is_some_and(|number| number > 1)
    };
    until("the new build publishes it", Duration::from_secs(15), || {
        published(restored).values().any(is_new).then_some(())
    });
    drop(system);
    restored.payfold(&["log", "verify"]).ok();
    published(restored)
}

#[test]
fn nothing_is_published_under_a_version_that_was_seen_before_the_restore() {
    let demo = Demo::with_orders(3);
    let home = Rc::clone(demo.system.home());
    let (folder, done) = backup(&home, "first");
    done.ok();
    let body = Notice::paid("DEMO", "o-1", "lost-by-the-restore").signed(&demo.secret);
    assert_eq!(demo.system.post_ipn(&body).status, 200);
    Inside::of(&home).settle();
    let seen = published(&home);
    assert!(seen.keys().any(|id| id.ends_with("o-1/1/2")), "{seen:?}");

    let restored = bare(&home);
    let printed = restored.payfold(&["log", "restore", text(&folder)]).ok();
    assert!(printed.contains("epoch 2"), "{printed}");
    let published_there = goes_on(&restored, &demo.secret);
    for (id, data) in &published_there {
        assert!(seen.get(id).is_none_or(|known| known == data), "{id} has another content");
    }
    let later = published_there.iter().find(|(id, _)| id.ends_with("o-1/2/2"));
    assert_eq!(later.expect("it is later than what was seen").1["epoch"], 2, "{published_there:?}");
    restored.payfold(&["log", "verify", "--chain"]).ok();

    // Another build was published meanwhile, and `--above` says that readers have seen a higher
    // version than backup and claims know.
    for (asked, state) in [("start", "ready"), ("switch", "live")] {
        home.payfold(&["rebuild", asked, "--reason", "to see"]).ok();
        wait_for(&home, 2, state);
    }
    let (folder, done) = backup(&home, "second");
    done.ok();
    let above = bare(&home);
    above.payfold(&["log", "restore", text(&folder), "--above", "7"]).ok();
    let published_there = goes_on(&above, &demo.secret);
    assert!(published_there.keys().any(|id| id.ends_with("o-1/8/3")), "{published_there:?}");
}

#[test]
fn the_state_digest_is_that_of_the_content_and_of_nothing_else() {
    let demo = Demo::with_orders(12);
    let (home, _) = demo.system.stop();
    let first = state(&home);
    assert_eq!((&first["orders"], &first["moved"]), (&12.into(), &false.into()));
    let printed = home.payfold(&["log", "verify", "--state"]).ok();
    assert!(printed.contains(first["stateDigest"].as_str().expect("a digest")), "{printed}");
    for file in ["orders.db", "orders.db-wal", "orders.db-shm"] {
        let _ = std::fs::remove_file(home.data().join(file));
    }
    let again = home.boot();
    Inside::of(&home).settle();
    assert_eq!(state(&home), first, "folded again from the log");
    let secret = std::fs::read_to_string(home.data().join("sandbox.key")).expect("a key");
    let body = Notice::paid("DEMO", "o-1", "another-ref").signed(secret.trim());
    assert_eq!(again.post_ipn(&body).status, 200);
    Inside::of(&home).settle();
    let changed = state(&home);
    assert_eq!(changed["orders"], 12);
    assert_ne!(changed["stateDigest"], first["stateDigest"]);
}

#[test]
fn what_is_no_backup_is_not_restored_and_nothing_is_written_over() {
    let demo = Demo::with_orders(2);
    let home = Rc::clone(demo.system.home());
    let (folder, done) = backup(&home, "copy");
    done.ok();
    refused(&backup(&home, "copy").1, &["copy is not empty"]);
    refused(
        &home.payfold(&["log", "restore", text(&folder)]),
        &["log.db exists already", "--claims"],
    );
    let elsewhere = bare(&home);
    refused(&elsewhere.payfold(&["log", "restore", text(home.path())]), &["is no backup"]);

    let log = folder.join("log.db");
    let whole = std::fs::read(&log).expect("a log");
    let mut broken = whole.clone();
    let last = broken.len() - 1;
    broken[last] ^= 1;
    std::fs::write(&log, &broken).expect("ours");
    refused(&elsewhere.payfold(&["log", "restore", text(&folder)]), &["log.db is not the file"]);
    assert!(!elsewhere.data().join("orders.db").exists(), "nothing was begun");
    std::fs::write(&log, &whole).expect("ours");

    let claims = home.data().join("orders.claims.db");
    elsewhere.payfold(&["log", "restore", text(&folder), "--claims", text(&claims)]).ok();
    let cluster =
        Home::configured("log = \"kafka://127.0.0.1:1/x\"\norders = \"cql://127.0.0.1:1/x\"\n");
    let (_, done) = backup(&cluster, "copy");
    refused(&done, &["Kafka", "replication"]);
}
