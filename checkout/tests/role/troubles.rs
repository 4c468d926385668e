//! A log that fails, and processes that die in the middle of a create request: there is no second
//! call, and no outcome is lost.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use payfold_doubles::{Double, LogCall, LogDouble};
use payfold_engines::EngineError;
use payfold_engines::clock::Clock;
use payfold_engines::log::EventLog;
use payfold_schemas::record::decode_fact;
use payfold_testing::waits::{Stopwatch, eventually};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::log_lines::LogLines;
use crate::partner::{Behaviour, Partner, http, offer};
use crate::world::{
    Engines, TOKEN, World, WorldOptions, claim_key, payment_body, read_answer, soon, wait_until,
};

/// A log that fails to append facts of some kinds.
struct FailingLog {
    real: Arc<dyn EventLog>,
    kinds: Mutex<&'static [&'static str]>,
    error: EngineError,
}

impl FailingLog {
    fn for_facts(engines: &Engines, kinds: &'static [&'static str]) -> Arc<Double<Self>> {
        Self::with_error(engines, kinds, EngineError::Unavailable("unavailable".to_owned()))
    }

    fn with_error(
        engines: &Engines,
        kinds: &'static [&'static str],
        error: EngineError,
    ) -> Arc<Double<Self>> {
        let real = Arc::clone(&engines.log);
        Arc::new(Double(Self { real, kinds: Mutex::new(kinds), error }))
    }

    fn recover(&self) {
        *self.kinds.lock().unwrap() = &[];
    }
}

impl LogDouble for FailingLog {
    fn real(&self) -> &dyn EventLog {
        &*self.real
    }

    fn before(&self, call: LogCall<'_>) -> Result<(), EngineError> {
        let LogCall::Append(message) = call else { return Ok(()) };
        let kind = decode_fact(&message.value).map(|record| record.fact.kind());
        let fails = kind.is_ok_and(|kind| self.kinds.lock().unwrap().contains(&kind));
        if fails { Err(self.error.clone()) } else { Ok(()) }
    }
}

/// Waits until the log has these facts; no request is sent meanwhile.
async fn wait_for_facts(engines: &Engines, expected: &str) {
    eventually(&format!("the facts are {expected}"), async || {
        let facts = engines.facts().await;
        if facts == expected { Ok(()) } else { Err(facts) }
    })
    .await;
}

async fn wait_for_drain(world: &World) {
    wait_until("no work is open", async || world.checkout.open_work_count() == 0).await;
}

/// The log is unavailable after the key is claimed: no call is made, and the retry is answered with
/// that once the log is back. A new attempt may be made then.
#[actix_web::test]
async fn a_claim_without_a_call_is_answered_not_called() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let failing = FailingLog::for_facts(&engines, &["createRequested"]);
    let world = World::new(&engines.with_log(failing.clone()), &partner).await;
    let response = world.post("k", &payment_body("cart")).send().await.unwrap();
    assert_eq!(response.headers()["retry-after"], "5");
    let (status, body) = read_answer(response).await;
    assert_eq!((status, body["code"].as_str()), (503, Some("storage_unavailable")), "{body}");
    assert_eq!((engines.facts().await.as_str(), partner.request_count()), ("", 0));
    let labels = ["acme", "storage_unavailable"];
    assert_eq!(world.metric("payfold_checkout_creates_total", &labels), 1.0);
    assert_eq!(world.checkout.open_work_count(), 1, "a drain waits for it");
    let (busy, body) = world.create("k", &payment_body("cart")).await;
    assert_eq!((busy, body["code"].as_str()), (409, Some("idempotency_key_in_flight")));

    failing.recover();
    wait_for_facts(&engines, "createRequested createFailed").await;
    wait_for_drain(&world).await;
    let _folding = engines.fold();
    for _ in 0..2 {
        let (status, body) = world.create("k", &payment_body("cart")).await;
        assert_eq!((status, body["code"].as_str()), (502, Some("not_called")), "{body}");
        assert!(body["orderId"].as_str().is_some_and(|id| id.starts_with("ord-")), "{body}");
        assert!(body["title"].as_str().unwrap().contains("nothing was sent"), "{body}");
    }
    assert_eq!(
        (engines.facts().await.as_str(), partner.request_count()),
        ("createRequested createFailed", 0)
    );
    assert_eq!(world.create("a new attempt", &payment_body("cart")).await.0, 201);
}

/// Claims succeed and appends fail: the role is not ready, because no payment can be created.
#[actix_web::test]
async fn a_role_that_can_claim_and_not_append_is_not_ready() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let failing = FailingLog::for_facts(&engines, &["createRequested"]);
    let world = World::new(&engines.with_log(failing.clone()), &partner).await;
    let trouble = || world.checkout.storage_trouble(engines.clock.now());
    for key in ["first", "second"] {
        assert_eq!(trouble(), None, "{key}");
        assert_eq!(world.create(key, &payment_body(key)).await.0, 503);
        engines.clock.set(engines.clock.now().plus_ms(6_000));
    }
    assert_eq!(world.create("third", &payment_body("third")).await.0, 503);
    assert_ne!(trouble(), None);
    failing.recover();
    wait_for_drain(&world).await;
    assert_eq!(trouble(), None);
}

/// The process died before its `CreateRequested` was durable. The retry appends it, and the call is
/// never made.
#[actix_web::test]
async fn a_claim_without_its_create_request_is_repaired_and_never_called() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let dying = engines.with_log(FailingLog::for_facts(&engines, &["createRequested"]));
    let dying = World::new(&dying, &partner).await;
    assert_eq!(dying.create("k", &payment_body("cart")).await.0, 503);
    let world = World::new(&engines, &partner).await;
    let _folding = engines.fold();
    let (status, body) = world.create("k", &payment_body("cart")).await;
    assert_eq!((status, &body["state"]), (202, &json!("REQUESTED")), "{body}");
    assert_eq!((engines.facts().await.as_str(), partner.request_count()), ("createRequested", 0));
    assert_eq!(world.create("k", &payment_body("cart")).await.0, 202);
    assert_eq!(
        (engines.records().await.len(), partner.request_count()),
        (1, 0),
        "it is repaired once"
    );
    assert_eq!(world.create("a new attempt", &payment_body("cart")).await.0, 201);
}

/// An outcome that the log refuses for good is logged.
#[actix_web::test]
async fn an_outcome_that_the_log_refuses_is_logged() {
    for (answer, kind) in
        [(offer(&json!({})), "sessionOpened"), (http("400 Bad Request", "{}"), "createFailed")]
    {
        let (engines, partner) = (Engines::new(), Partner::start(Behaviour::Sends(answer)).await);
        let error = EngineError::Corrupt("torn".to_owned());
        let failing = FailingLog::with_error(&engines, &["sessionOpened", "createFailed"], error);
        let world = World::new(&engines.with_log(failing), &partner).await;
        let lines = LogLines::start();
        let (status, body) = world.create("k", &payment_body("cart")).await;
        assert_eq!(status, 202, "{body}");
        let lost = lines.with("a fact of a create attempt is lost");
        assert_eq!(lost.len(), 1, "{lost:?}");
        let order = format!("order.id={} ", body["orderId"].as_str().unwrap());
        for part in ["ERROR ", &order, "partner=acme ", &format!("fact=\"{kind}\""), "torn"] {
            assert!(lost[0].contains(part), "{part}: {}", lost[0]);
        }
    }
}

/// The process died after its `CreateRequested`, before or during the call: no process calls again.
#[actix_web::test]
async fn a_call_that_a_dead_process_may_have_made_is_not_repeated() {
    let engines = Engines::new();
    let partner = Partner::start(Behaviour::Waits(offer(&json!({})))).await;
    let dying = World::new(&engines, &partner).await;
    let call = actix_web::rt::spawn(dying.post("k", &payment_body("cart")).send());
    partner.wait_for_requests(1).await;
    // This stands for a process that dies: the partner's answer reaches no process.
    call.abort();
    let _folding = engines.fold();
    let next = World::new(&engines, &partner).await;
    let (status, body) = next.create("k", &payment_body("cart")).await;
    assert_eq!((status, &body["state"]), (202, &json!("REQUESTED")), "{body}");
    assert_eq!((engines.facts().await.as_str(), partner.request_count()), ("createRequested", 1));
    drop(dying);
}

/// An outcome is appended when the log is back, although the shop no longer waits for it.
#[actix_web::test]
async fn an_outcome_is_appended_when_the_log_is_back() {
    for (answer, facts, status) in [
        (offer(&json!({})), "createRequested sessionOpened", 201),
        (http("400 Bad Request", "{}"), "createRequested createFailed", 502),
    ] {
        let (engines, partner) = (Engines::new(), Partner::start(Behaviour::Sends(answer)).await);
        let failing = FailingLog::for_facts(&engines, &["sessionOpened", "createFailed"]);
        let world = World::new(&engines.with_log(failing.clone()), &partner).await;
        let _folding = engines.fold();
        let (first, body) = world.create("k", &payment_body("cart")).await;
        assert_eq!((first, &body["state"]), (202, &json!("REQUESTED")), "{body}");
        assert_eq!(engines.facts().await, "createRequested");
        assert_eq!(world.checkout.open_work_count(), 1, "a drain waits for it");
        let (busy, body) = world.create("k", &payment_body("cart")).await;
        assert_eq!((busy, body["code"].as_str()), (409, Some("idempotency_key_in_flight")));

        failing.recover();
        wait_for_facts(&engines, facts).await;
        wait_for_drain(&world).await;
        assert_eq!(world.create("k", &payment_body("cart")).await.0, status);
        assert_eq!(partner.request_count(), 1);
    }
}

/// A call that has ended holds no permit of its partner, although its outcome waits for the log.
#[actix_web::test]
#[ignore = "nightly: limits"]
async fn an_outcome_that_waits_for_the_log_holds_no_permit() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let failing = FailingLog::for_facts(&engines, &["sessionOpened"]);
    let limits = payfold_checkout::Limits { calls_per_partner_max: 1, ..Default::default() };
    let made = WorldOptions { limits: Some(limits), ..WorldOptions::default() };
    let world = World::with_options(&engines.with_log(failing), &partner.url, made).await;
    let first = actix_web::rt::spawn(world.post("k1", &payment_body("cart")).send());
    partner.wait_for_requests(1).await;
    // The first waits 5 s for the log; the partner is free as soon as it has answered.
    let another = async {
        loop {
            tokio::select! {
                () = partner.wait_for_requests(2) => break,
                busy = world.post("k2", &payment_body("another cart")).send() => {
                    assert_eq!(busy.unwrap().status(), 503);
                }
            }
        }
    };
    let watch = Stopwatch::start();
    soon("an answered call holds no permit", another).await;
    watch.assert_within(Duration::from_secs(3), "an answered call holds no permit");
    assert_eq!(first.await.unwrap().unwrap().status(), 202);
}

/// A short outage of the log is not seen by the shop.
#[actix_web::test]
async fn a_short_outage_is_bridged() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let failing = FailingLog::for_facts(&engines, &["createRequested", "sessionOpened"]);
    let world = World::new(&engines.with_log(failing.clone()), &partner).await;
    let _folding = engines.fold();
    let body = payment_body("cart");
    let call = actix_web::rt::spawn(world.post("k", &body).send());
    wait_until("the key is claimed", async || {
        engines.store.claimed(claim_key("web/k")).await.unwrap().is_some()
    })
    .await;
    failing.recover();
    assert_eq!(read_answer(call.await.unwrap().unwrap()).await.0, 201);
    assert_eq!(
        (engines.facts().await.as_str(), partner.request_count()),
        ("createRequested sessionOpened", 1)
    );
}

/// A shop that hangs up during the call finds its payment afterwards.
#[actix_web::test]
async fn the_work_goes_on_when_the_shop_hangs_up() {
    let engines = Engines::new();
    let partner = Partner::start(Behaviour::Waits(offer(&json!({})))).await;
    let world = World::new(&engines, &partner).await;
    let body = payment_body("cart").to_string();
    let mut socket = TcpStream::connect(world.url.trim_start_matches("http://")).await.unwrap();
    let request = format!(
        "POST /v1/payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\
         Idempotency-Key: k\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    partner.wait_for_requests(1).await;
    // The connection is reset, not closed: the HTTP library then drops the handler at once.
    socket.set_zero_linger().unwrap();
    drop(socket);
    wait_until("the request ends", async || world.checkout.open_work_count() <= 1).await;
    assert!(world.checkout.open_work_count() > 0);
    partner.release();
    wait_for_facts(&engines, "createRequested sessionOpened").await;
    wait_for_drain(&world).await;
    let _folding = engines.fold();
    assert_eq!(world.create("k", &payment_body("cart")).await.0, 201);
    assert_eq!(partner.request_count(), 1);
}
