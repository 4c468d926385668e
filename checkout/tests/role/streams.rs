//! Following a payment: the first event, the changes after it, and how a stream resumes and ends.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use payfold_checkout::Limits;
use payfold_doubles::{Double, StoreDouble};
use payfold_engines::orders::OrderStore;
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_testing::waits::{Stopwatch, eventually};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::manual_fold;
use crate::partner::Partner;
use crate::reads::{append_fact, commit_row, create_fact, paid_notice, wait_for_row};
use crate::world::{Engines, World, WorldOptions, key, payment_body, read_answer, soon};

/// A stream, read like a client does.
struct EventStream {
    response: reqwest::Response,
    text: String,
}

impl EventStream {
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

    /// The id and data of the next event; `None` at the end of the stream.
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
async fn a_stream_begins_with_the_payment_and_sends_each_change() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let (_, created) = world.create("k", &payment_body("cart")).await;
    let path = created["links"]["events"].as_str().unwrap();
    let order = format!("acme/SHOP/{}", created["orderId"].as_str().unwrap());

    let mut stream = EventStream::open(&world, path, None).await;
    let (id, data) = stream.next().await.unwrap();
    assert_eq!((id.as_str(), &data["state"]), ("1.2", &json!("PENDING")));
    let read = world.get(created["links"]["self"].as_str().unwrap());
    assert_eq!(read_answer(read.send().await.unwrap()).await.1, data, "the same as reading it");
    assert_eq!(world.metric("payfold_checkout_streams", &[]), 1.0);

    let mut resumed = EventStream::open(&world, path, Some("1.2")).await;
    let mut behind = EventStream::open(&world, path, Some("1.1")).await;
    let mut garbled = EventStream::open(&world, path, Some("nonsense")).await;
    assert_eq!(behind.next().await.unwrap().0, "1.2");
    assert_eq!(garbled.next().await.unwrap().0, "1.2");
    append_fact(&engines, &order, paid_notice()).await;
    for stream in [&mut stream, &mut resumed, &mut behind, &mut garbled] {
        let (id, data) = stream.next().await.unwrap();
        assert_eq!((id.as_str(), &data["state"]), ("1.3", &json!("PAID")));
    }

    world.checkout.drain();
    assert!(stream.next().await.is_none());
    drop((stream, resumed, behind, garbled));
    eventually("the metric falls to 0", async || {
        let streams = world.metric("payfold_checkout_streams", &[]);
        if streams > 0.0 { Err(streams) } else { Ok(()) }
    })
    .await;
}

/// The event is published before its row is committed: the stream waits for the row.
#[actix_web::test]
async fn an_event_before_its_row_waits_for_it() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    let mut order = manual_fold::requested_order(&key("acme/SHOP/o"));
    manual_fold::commit_order(&*engines.store, &order).await;
    let mut stream = EventStream::open(&world, "/v1/payments/acme/SHOP/o/events", None).await;
    assert_eq!(stream.next().await.unwrap().0, "1.1");
    order.version = 2;
    manual_fold::publish_event(&*engines.log, &order).await;
    let early = tokio::time::timeout(Duration::from_millis(300), stream.next()).await;
    assert!(early.is_err(), "{early:?}");
    manual_fold::commit_order(&*engines.store, &order).await;
    assert_eq!(stream.next().await.unwrap().0, "1.2");
}

/// A store that counts its loads.
struct CountedStore {
    real: Arc<dyn OrderStore>,
    loads: watch::Sender<usize>,
}

impl StoreDouble for CountedStore {
    fn real(&self) -> &dyn OrderStore {
        &*self.real
    }

    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        Box::pin(async move {
            let rows = self.real.load(keys).await;
            self.loads.send_modify(|loads| *loads += 1);
            rows
        })
    }
}

/// No event wakes the stream, and the row is committed after the last read: the next read after a
/// pause finds it.
#[actix_web::test]
async fn a_change_without_an_event_is_found_by_rereading() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let loads = watch::Sender::new(0);
    let mut reads = loads.subscribe();
    let counted = CountedStore { real: Arc::clone(&engines.store), loads };
    let seen = engines.with_store(Arc::new(Double(counted)));
    let world = World::new(&seen, &partner).await;
    let mut order = manual_fold::requested_order(&key("acme/SHOP/o"));
    manual_fold::commit_order(&*engines.store, &order).await;
    let mut stream = EventStream::open(&world, "/v1/payments/acme/SHOP/o/events", None).await;
    assert_eq!(stream.next().await.unwrap().0, "1.1");
    // The stream reads the row three times: does it exist, the first event, is there a newer
    // version. After that it waits for the feed.
    soon("the row is read three times", reads.wait_for(|loads| *loads >= 3)).await.unwrap();
    order.version = 2;
    manual_fold::commit_order(&*engines.store, &order).await;
    assert_eq!(soon("the change is found", stream.next()).await.unwrap().0, "1.2");
}

/// A quiet stream gets a comment, so that no proxy closes it.
#[actix_web::test]
async fn a_quiet_stream_gets_a_comment_after_fifteen_seconds() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    commit_row(&engines, "acme/SHOP/o", "cart", 1).await;
    let (watch, opened) = (Stopwatch::start(), std::time::Instant::now());
    let mut stream = RawStream::open(&world, "/v1/payments/acme/SHOP/o/events".to_owned()).await;
    stream.read_until("\n: still here\n\n").await;
    let waited = opened.elapsed();
    assert!(waited.as_secs() >= 14, "{waited:?}");
    watch.assert_within(Duration::from_secs(30), "a comment");
}

#[actix_web::test]
async fn followers_over_the_limit_are_refused() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let limits = Limits { followers_max: 2, ..Limits::default() };
    let made = WorldOptions { limits: Some(limits), ..WorldOptions::default() };
    let world = World::with_options(&engines, &partner.url, made).await;
    commit_row(&engines, "acme/SHOP/o", "cart", 1).await;
    let path = "/v1/payments/acme/SHOP/o/events";
    let first = EventStream::open(&world, path, None).await;
    let _second = EventStream::open(&world, path, None).await;
    for path in [path, "/v1/payments/acme/SHOP/o?wait=5&version=1.1", "/v1/topics/orders?wait=5"] {
        let response = world.get(path).send().await.unwrap();
        assert_eq!(response.headers()["retry-after"], "5");
        let (status, body) = read_answer(response).await;
        assert_eq!((status, body["code"].as_str()), (503, Some("too_many_followers")), "{path}");
    }
    let (status, _) =
        read_answer(world.get("/v1/payments/acme/SHOP/o").send().await.unwrap()).await;
    assert_eq!(status, 200, "a request that does not wait needs no permit");
    assert_eq!(world.create("k", &payment_body("cart")).await.0, 201, "nor does a create request");
    drop(first);
}

/// 2,000 open streams need at most 50 MB. They are measured in a process of their own, so that the
/// memory of other tests is not counted.
#[test]
#[ignore = "nightly: loads"]
fn two_thousand_streams_are_cheap() {
    let ran = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "streams::two_thousand_streams_in_this_process"])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && output.contains("1 passed"), "{output}");
}

#[actix_web::test]
#[ignore = "run by two_thousand_streams_are_cheap"]
async fn two_thousand_streams_in_this_process() {
    const STREAMS: usize = 2_000;
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    for n in 0..20 {
        append_fact(&engines, &format!("acme/SHOP/o{n}"), create_fact(&format!("cart {n}"), 1))
            .await;
        wait_for_row(&engines, &format!("acme/SHOP/o{n}"), 1).await;
    }
    let path = |n: usize| format!("/v1/payments/acme/SHOP/o{}/events", n % 20);
    // Open some streams first, so that only the memory of streams is counted.
    drop(join_all((0..50).map(|n| RawStream::open(&world, path(n)))).await);
    let before = resident_bytes();
    let mut open = Vec::new();
    while open.len() < STREAMS {
        let from = open.len();
        open.extend(join_all((from..from + 100).map(|n| RawStream::open(&world, path(n)))).await);
    }
    for n in 0..20 {
        append_fact(&engines, &format!("acme/SHOP/o{n}"), paid_notice()).await;
    }
    for stream in &mut open {
        stream.read_until("\"state\":\"PAID\"").await;
    }
    assert!(world.metric("payfold_checkout_streams", &[]) >= STREAMS as f64);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown <= 50_000_000, "{grown} bytes for {STREAMS} streams");
}

/// A stream on a plain socket: 2,000 clients of an HTTP library would need more memory than the
/// streams.
struct RawStream(tokio::net::TcpStream);

impl RawStream {
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

    async fn read_until(&mut self, end: &str) {
        use tokio::io::AsyncReadExt;
        let (mut text, mut chunk) = (String::new(), [0; 2048]);
        while !text.contains(end) {
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

/// The feed of a process that starts late reads from the end of the topic, not from its beginning.
#[actix_web::test]
async fn a_feed_starts_at_the_end_of_the_topic() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let _folding = engines.fold();
    for n in 0..5 {
        append_fact(&engines, "acme/SHOP/o", create_fact("cart", n)).await;
    }
    wait_for_row(&engines, "acme/SHOP/o", 5).await;
    let world = World::new(&engines, &partner).await;
    let mut stream = EventStream::open(&world, "/v1/payments/acme/SHOP/o/events", None).await;
    assert_eq!(stream.next().await.unwrap().0, "1.5");
    append_fact(&engines, "acme/SHOP/o", paid_notice()).await;
    assert_eq!(stream.next().await.unwrap().0, "1.6");
}
