//! Following a payment: what comes first, what comes after, and how a stream goes on and ends.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use payfold_checkout::Limits;
use payfold_engines::orders::{
    ClaimKey, Claimed, Commit, Cursor, OrderStore, Page, Progress, Scan,
};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::by_hand;
use crate::partner::Partner;
use crate::reads::{append, by_hand_row, create, paid, row};
use crate::world::{Engines, Made, World, asked, key, told};

/// A stream as its client reads it.
struct Stream {
    response: reqwest::Response,
    text: String,
}

impl Stream {
    async fn open(world: &World, path: &str, last: Option<&str>) -> Self {
        let request = world.get(path);
        let request = match last {
            Some(last) => request.header("Last-Event-ID", last),
            None => request,
        };
        let response = request.timeout(Duration::from_secs(60)).send().await.unwrap();
        assert_eq!(response.status(), 200);
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("cache-control", "no-store"),
            ("x-accel-buffering", "no"),
        ] {
            assert_eq!(response.headers()[name], value);
        }
        assert!(response.headers().get("access-control-allow-origin").is_none());
        Self { response, text: String::new() }
    }

    /// The next event's id and data; none at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let lines: Vec<_> = event.lines().collect();
                let [id, "event: payment", data] = lines[..] else { panic!("{event}") };
                let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
                return Some((id.strip_prefix("id: ").unwrap().to_owned(), data));
            }
            let chunk = self.response.chunk().await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

#[actix_web::test]
async fn a_stream_begins_with_what_is_and_tells_what_changes() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let (_, created) = world.create("k", &asked("cart")).await;
    let path = created["links"]["events"].as_str().unwrap();
    let order = format!("acme/SHOP/{}", created["orderId"].as_str().unwrap());

    let mut stream = Stream::open(&world, path, None).await;
    let (id, data) = stream.next().await.unwrap();
    assert_eq!((id.as_str(), &data["state"]), ("1.2", &json!("PENDING")));
    let read = world.get(created["links"]["self"].as_str().unwrap());
    assert_eq!(told(read.send().await.unwrap()).await.1, data, "the same as reading it");
    assert_eq!(world.counted("payfold_checkout_streams", &[]), 1.0);

    let mut resumed = Stream::open(&world, path, Some("1.2")).await;
    let mut behind = Stream::open(&world, path, Some("1.1")).await;
    let mut garbled = Stream::open(&world, path, Some("nonsense")).await;
    assert_eq!(behind.next().await.unwrap().0, "1.2");
    assert_eq!(garbled.next().await.unwrap().0, "1.2");
    append(&engines, &order, paid()).await;
    for stream in [&mut stream, &mut resumed, &mut behind, &mut garbled] {
        let (id, data) = stream.next().await.unwrap();
        assert_eq!((id.as_str(), &data["state"]), ("1.3", &json!("PAID")));
    }

    world.checkout.drain();
    assert!(stream.next().await.is_none());
    drop((stream, resumed, behind, garbled));
    let closed = async {
        while world.counted("payfold_checkout_streams", &[]) > 0.0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), closed).await;
    assert!(ended.is_ok(), "[time] they are counted down");
}

/// The event is read before the row is there: what is shown is the row, when it is.
#[actix_web::test]
async fn an_event_before_its_row_waits_for_it() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    let mut order = by_hand::requested(&key("acme/SHOP/o"));
    by_hand::commit(&*engines.store, &order).await;
    let mut stream = Stream::open(&world, "/v1/payments/acme/SHOP/o/events", None).await;
    assert_eq!(stream.next().await.unwrap().0, "1.1");
    order.version = 2;
    by_hand::publish(&*engines.log, &order).await;
    let early = tokio::time::timeout(Duration::from_millis(300), stream.next()).await;
    assert!(early.is_err(), "{early:?}");
    by_hand::commit(&*engines.store, &order).await;
    assert_eq!(stream.next().await.unwrap().0, "1.2");
}

/// A store that tells how often it was read.
struct Counted {
    real: Arc<dyn OrderStore>,
    loads: watch::Sender<usize>,
}

impl OrderStore for Counted {
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        Box::pin(async move {
            let rows = self.real.load(keys).await;
            self.loads.send_modify(|loads| *loads += 1);
            rows
        })
    }

    fn commit(&self, commit: Commit) -> SeamFuture<'_, (), EngineError> {
        self.real.commit(commit)
    }

    fn scan(
        &self,
        scan: Scan,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Page, EngineError> {
        self.real.scan(scan, after, limit)
    }

    fn claim(&self, key: ClaimKey, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        self.real.claim(key, record)
    }

    fn claimed(&self, key: ClaimKey) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        self.real.claimed(key)
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        self.real.progress()
    }
}

/// The event was told before anybody followed, its row came after the last look: it is found all the same.
#[actix_web::test]
async fn a_row_after_an_event_nobody_followed_is_found() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let loads = watch::Sender::new(0);
    let mut looks = loads.subscribe();
    let counted = Counted { real: Arc::clone(&engines.store), loads };
    let seen = engines.with_store(Arc::new(counted));
    let world = World::new(&seen, &partner).await;
    let mut order = by_hand::requested(&key("acme/SHOP/o"));
    by_hand::commit(&*engines.store, &order).await;
    let mut stream = Stream::open(&world, "/v1/payments/acme/SHOP/o/events", None).await;
    assert_eq!(stream.next().await.unwrap().0, "1.1");
    // Is it there, what is it, is there more: after the third look the stream waits for the feed.
    looks.wait_for(|loads| *loads >= 3).await.unwrap();
    order.version = 2;
    by_hand::commit(&*engines.store, &order).await;
    let found = tokio::time::timeout(Duration::from_secs(60), stream.next()).await;
    assert_eq!(found.unwrap().unwrap().0, "1.2");
}

/// Nobody in between takes a quiet stream for dead.
#[actix_web::test]
async fn a_quiet_stream_shows_a_sign_of_life() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    by_hand_row(&engines, "acme/SHOP/o", "cart", 1).await;
    let opened = std::time::Instant::now();
    let mut stream = Raw::open(&world, "/v1/payments/acme/SHOP/o/events".to_owned()).await;
    stream.read_until("\n: still here\n\n").await;
    let waited = opened.elapsed();
    assert!(waited.as_secs() >= 14, "{waited:?}");
    assert!(waited.as_secs() < 30, "[time] {waited:?}");
}

#[actix_web::test]
async fn more_followers_than_there_are_seats_come_again() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let limits = Limits { followers_max: 2, ..Limits::default() };
    let made = Made { limits: Some(limits), ..Made::default() };
    let world = World::made(&engines, &partner.url, made).await;
    by_hand_row(&engines, "acme/SHOP/o", "cart", 1).await;
    let path = "/v1/payments/acme/SHOP/o/events";
    let first = Stream::open(&world, path, None).await;
    let _second = Stream::open(&world, path, None).await;
    for path in [path, "/v1/payments/acme/SHOP/o?wait=5&version=1.1", "/v1/topics/orders?wait=5"] {
        let response = world.get(path).send().await.unwrap();
        assert_eq!(response.headers()["retry-after"], "5");
        let (status, body) = told(response).await;
        assert_eq!((status, body["code"].as_str()), (503, Some("too_many_followers")), "{path}");
    }
    let (status, _) = told(world.get("/v1/payments/acme/SHOP/o").send().await.unwrap()).await;
    assert_eq!(status, 200, "who does not wait needs no seat");
    assert_eq!(world.create("k", &asked("cart")).await.0, 201, "nor does a create request");
    drop(first);
}

/// The payers of 2,000 open pages cost at most 50 MB in all. Measured in a process of its own, so that no other test's
/// memory is counted.
#[test]
#[ignore = "nightly: loads"]
fn two_thousand_streams_are_cheap() {
    let ran = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "streams::two_thousand_streams_in_this_process"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && told.contains("1 passed"), "{told}");
}

#[actix_web::test]
#[ignore = "run by two_thousand_streams_are_cheap"]
async fn two_thousand_streams_in_this_process() {
    const STREAMS: usize = 2_000;
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    for n in 0..20 {
        append(&engines, &format!("acme/SHOP/o{n}"), create(&format!("cart {n}"), 1)).await;
        row(&engines, &format!("acme/SHOP/o{n}"), 1).await;
    }
    let path = |n: usize| format!("/v1/payments/acme/SHOP/o{}/events", n % 20);
    // Warm, so that what is counted is what streams cost.
    drop(join_all((0..50).map(|n| Raw::open(&world, path(n)))).await);
    let before = resident_bytes();
    let mut open = Vec::new();
    while open.len() < STREAMS {
        let from = open.len();
        open.extend(join_all((from..from + 100).map(|n| Raw::open(&world, path(n)))).await);
    }
    for n in 0..20 {
        append(&engines, &format!("acme/SHOP/o{n}"), paid()).await;
    }
    for stream in &mut open {
        stream.read_until("\"state\":\"PAID\"").await;
    }
    assert!(world.counted("payfold_checkout_streams", &[]) >= STREAMS as f64);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown <= 50_000_000, "{grown} bytes for {STREAMS} streams");
}

/// A stream on a bare socket: 2,000 clients of a library would cost more than what is measured.
struct Raw(tokio::net::TcpStream);

impl Raw {
    async fn open(world: &World, path: String) -> Self {
        use tokio::io::AsyncWriteExt;
        let address = world.url.trim_start_matches("http://");
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let token = crate::world::TOKEN;
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut stream = Self(socket);
        stream.read_until("event: payment").await;
        stream
    }

    async fn read_until(&mut self, word: &str) {
        use tokio::io::AsyncReadExt;
        let (mut text, mut chunk) = (String::new(), [0; 2048]);
        while !text.contains(word) {
            let read = self.0.read(&mut chunk).await.unwrap();
            assert!(read > 0, "ended: {text}");
            text.push_str(&String::from_utf8_lossy(&chunk[..read]));
        }
    }
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

/// The feed of a process that starts late reads from the head, not the whole topic, and is told of what comes then.
#[actix_web::test]
async fn a_feed_starts_at_the_head() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let _folding = engines.fold();
    for n in 0..5 {
        append(&engines, "acme/SHOP/o", create("cart", n)).await;
    }
    row(&engines, "acme/SHOP/o", 5).await;
    let world = World::new(&engines, &partner).await;
    let mut stream = Stream::open(&world, "/v1/payments/acme/SHOP/o/events", None).await;
    assert_eq!(stream.next().await.unwrap().0, "1.5");
    append(&engines, "acme/SHOP/o", paid()).await;
    assert_eq!(stream.next().await.unwrap().0, "1.6");
}
