//! Owns the rotation of a key under load: inside the overlap nothing is refused, at its end the old
//! key is.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_schemas::time::Time;
use serde_json::Value;

use crate::support::demo::Demo;
use crate::support::notice::Notice;
use crate::support::pair::Pair;
use crate::support::system::System;
use crate::support::waits::until;
use crate::support::wire::{Connection, notice_request};

const NEW: &str = "the new secret of the sandbox partner";

/// One answered notice: which key, from when to when, and the status.
struct Post {
    is_new: bool,
    sent: Time,
    answered: Time,
    status: u16,
}

/// Posts with one key until it is signalled to stop, and counts refusals.
fn press(
    public: SocketAddr,
    (name, secret): (&str, &str),
    (stop, refused): (&AtomicBool, &AtomicUsize),
) -> Vec<Post> {
    let mut connection = Connection::open(public);
    let mut posts = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let body = Notice::paid("DEMO", &format!("{name}-{}", posts.len()), "r").signed(secret);
        let sent = SystemClock.now();
        let status = connection.exchange(&notice_request(&body)).status;
        let is_new = name == "new";
        refused.fetch_add(usize::from(status == 401), Ordering::Relaxed);
        posts.push(Post { is_new, sent, answered: SystemClock.now(), status });
    }
    posts
}

fn keys(system: &System) -> Vec<Value> {
    let listed = system.payfold(&["key", "list", "--output", "json"]).json();
    listed.as_array().expect("a list").clone()
}

pub fn a_key_is_rotated_under_load_without_one_refusal(pair: Pair) {
    let Some(demo) = Demo::on(pair) else { return };
    let system = &demo.system;
    // A busy machine needs seconds for the command, and then the new key is tried before it counts.
    let from = Time::from_unix_ms(SystemClock.now().unix_ms()).plus_ms(4_000);
    let until_old = from.plus_ms(1_500);
    let from_text = from.to_string();
    let more = ["--key-id", "sandbox-2", "--valid-from", &from_text, "--overlap", "1500ms"];
    let added = system.home().add_key("sandbox", NEW, &more);
    assert!(added.contains("sandbox-2") && !added.contains(NEW), "{added}");

    let (stop, public) = (&AtomicBool::new(false), system.public());
    // A notice waits for servers there, and they for a machine that does much else.
    let least: usize = if pair == Pair::Sqlite { 10 } else { 1 };
    let refused = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let posts = std::thread::scope(|scope| {
        let [old, new] = &refused;
        let press = |key, refused| scope.spawn(move || press(public, key, (stop, refused)));
        let threads = [press(("old", &demo.secret), old), press(("new", NEW), new)];
        // Every refusal of the old key comes after its end; one may have been under way then.
        let over = || {
            let is_over = SystemClock.now() > until_old.plus_ms(300);
            (is_over && old.load(Ordering::Relaxed) > least + 1).then_some(())
        };
        until(
            "the overlap is over, and the old key was tried since",
            Duration::from_secs(20),
            over,
        );
        stop.store(true, Ordering::Relaxed);
        threads.map(|thread| thread.join().expect("it does not panic"))
    });
    let mut seen = [0_usize; 4];
    for post in posts.into_iter().flatten() {
        let (counts, ended) = match post.is_new {
            true => (post.sent >= from, post.answered < from),
            false => (post.answered < until_old, post.sent >= until_old),
        };
        // What was under way at the border itself may go either way.
        let place = usize::from(post.is_new) * 2;
        if counts {
            assert_eq!(post.status, 200, "new: {}, sent {}", post.is_new, post.sent);
            seen[place] += 1;
        } else if ended {
            // What a key has signed too early is kept, as soon as the key is known.
            let expected: &[u16] = if post.is_new { &[401, 503] } else { &[401] };
            assert!(expected.contains(&post.status), "{} {}", post.status, post.is_new);
            seen[place + 1] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > least), "each was tried: {seen:?}");

    let listed = keys(system);
    assert_eq!(
        (&listed[0]["keyId"], &listed[1]["keyId"]),
        (&"sandbox-1".into(), &"sandbox-2".into())
    );
    assert_eq!(listed[0]["validUntil"], until_old.to_string());
    assert!(
        listed.iter().all(|key| key["uses24h"].as_u64() > u64::try_from(least).ok()),
        "{listed:?}"
    );
    assert!(!listed.iter().any(|key| key.to_string().contains(NEW)));
    system.payfold(&["key", "retire", "sandbox", "sandbox-2"]).fails(&["notices would get 401"]);
    system.payfold(&["key", "retire", "sandbox", "sandbox-2", "--last"]).ok();
    system.ipn_when(401, || Notice::paid("DEMO", "retired", "r").signed(NEW));
    assert!(keys(system)[1]["validUntil"].is_string());
}
