//! A log that fails and processes that die in between: no second call, no lost outcome.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use payfold_engines::log::{
    Delivered, EventLog, Extent, Message, Share, Start, Subscription, Topic,
};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::record::{Position, decode_fact};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::lines::Lines;
use crate::partner::{Does, Partner, http, offer};
use crate::world::{Engines, Made, TOKEN, World, asked, claim_key, told};

/// A log that fails for facts of some letters: it is away, as a rule.
struct Away {
    real: Arc<dyn EventLog>,
    letters: Mutex<&'static [&'static str]>,
    error: EngineError,
}

impl Away {
    fn for_facts(engines: &Engines, letters: &'static [&'static str]) -> Arc<Self> {
        Self::with_error(engines, letters, EngineError::Unavailable("away".to_owned()))
    }

    fn with_error(
        engines: &Engines,
        letters: &'static [&'static str],
        error: EngineError,
    ) -> Arc<Self> {
        Arc::new(Self { real: Arc::clone(&engines.log), letters: Mutex::new(letters), error })
    }

    fn is_back(&self) {
        *self.letters.lock().unwrap() = &[];
    }
}

impl EventLog for Away {
    fn append(&self, topic: Topic, message: Message) -> SeamFuture<'static, Position, EngineError> {
        let letter = decode_fact(&message.value).map(|record| record.fact.letter());
        if letter.is_ok_and(|letter| self.letters.lock().unwrap().contains(&letter)) {
            let error = self.error.clone();
            return Box::pin(async { Err(error) });
        }
        self.real.append(topic, message)
    }

    fn append_all(
        &self,
        topic: Topic,
        messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError> {
        self.real.append_all(topic, messages)
    }

    fn subscribe(
        &self,
        topic: Topic,
        group: &str,
        start: Start,
    ) -> SeamFuture<'_, Box<dyn Subscription>, EngineError> {
        self.real.subscribe(topic, group, start)
    }

    fn share(&self, topic: Topic, group: &str) -> SeamFuture<'_, Box<dyn Share>, EngineError> {
        self.real.share(topic, group)
    }

    fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        self.real.read_after(topic, after, limit)
    }

    fn extent(&self, topic: Topic) -> SeamFuture<'_, Vec<Extent>, EngineError> {
        self.real.extent(topic)
    }

    fn id(&self) -> [u8; 16] {
        self.real.id()
    }

    fn queue_depth(&self) -> usize {
        self.real.queue_depth()
    }

    fn close(&self) -> SeamFuture<'_, (), EngineError> {
        self.real.close()
    }
}

/// Waits until the facts in the log are these; the role does it without anybody asking.
async fn facts_become(engines: &Engines, expected: &str) {
    let waiting = async {
        while engines.facts().await != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    assert!(done.is_ok(), "[time] {} and not {expected}", engines.facts().await);
}

async fn drained(world: &World) {
    while world.checkout.in_flight() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A log that is away when the key is claimed: nothing is sent, and that is what the retry is told once the log is
/// back. A new attempt may be made then.
#[actix_web::test]
async fn a_claim_that_was_not_called_for_is_told_so() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let away = Away::for_facts(&engines, &["C"]);
    let world = World::new(&engines.with_log(away.clone()), &partner).await;
    let response = world.post("k", &asked("cart")).send().await.unwrap();
    assert_eq!(response.headers()["retry-after"], "5");
    let (status, body) = told(response).await;
    assert_eq!((status, body["code"].as_str()), (503, Some("storage_unavailable")), "{body}");
    assert_eq!((engines.facts().await.as_str(), partner.count()), ("", 0));
    let labels = ["acme", "storage_unavailable"];
    assert_eq!(world.counted("payfold_checkout_creates_total", &labels), 1.0);
    assert_eq!(world.checkout.in_flight(), 1, "a drain waits for it");
    let (busy, body) = world.create("k", &asked("cart")).await;
    assert_eq!((busy, body["code"].as_str()), (409, Some("idempotency_key_in_flight")));

    away.is_back();
    facts_become(&engines, "C CF").await;
    drained(&world).await;
    let _folding = engines.fold();
    for _ in 0..2 {
        let (status, body) = world.create("k", &asked("cart")).await;
        assert_eq!((status, body["code"].as_str()), (502, Some("not_called")), "{body}");
        assert!(body["orderId"].as_str().is_some_and(|id| id.starts_with("ord-")), "{body}");
        assert!(body["title"].as_str().unwrap().contains("nothing was sent"), "{body}");
    }
    assert_eq!((engines.facts().await.as_str(), partner.count()), ("C CF", 0));
    assert_eq!(world.create("a new attempt", &asked("cart")).await.0, 201);
}

/// A claim whose C never became durable, of a process that is gone, is repaired by the retry; its call is never made.
#[actix_web::test]
async fn a_claim_without_its_fact_is_repaired_and_never_called() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let dying = engines.with_log(Away::for_facts(&engines, &["C"]));
    let dying = World::new(&dying, &partner).await;
    assert_eq!(dying.create("k", &asked("cart")).await.0, 503);
    let world = World::new(&engines, &partner).await;
    let _folding = engines.fold();
    let (status, body) = world.create("k", &asked("cart")).await;
    assert_eq!((status, &body["state"]), (202, &json!("REQUESTED")), "{body}");
    assert_eq!((engines.facts().await.as_str(), partner.count()), ("C", 0));
    assert_eq!(world.create("k", &asked("cart")).await.0, 202);
    assert_eq!((engines.records().await.len(), partner.count()), (1, 0), "repaired once");
    assert_eq!(world.create("a new attempt", &asked("cart")).await.0, 201);
}

/// An outcome that no repeat would make durable leaves a line that names it.
#[actix_web::test]
async fn an_outcome_that_can_not_be_kept_is_told_of() {
    for (answer, letter) in [(offer(&json!({})), "O"), (http("400 Bad Request", "{}"), "CF")] {
        let (engines, partner) = (Engines::new(), Partner::start(Does::Sends(answer)).await);
        let error = EngineError::Corrupt("torn".to_owned());
        let away = Away::with_error(&engines, &["O", "CF"], error);
        let world = World::new(&engines.with_log(away), &partner).await;
        let lines = Lines::start();
        let (status, body) = world.create("k", &asked("cart")).await;
        assert_eq!(status, 202, "{body}");
        let lost = lines.with("the outcome of a create call is lost");
        assert_eq!(lost.len(), 1, "{lost:?}");
        let order = format!("order.id={} ", body["orderId"].as_str().unwrap());
        for part in ["ERROR ", &order, "partner=acme ", &format!("fact=\"{letter}\""), "torn"] {
            assert!(lost[0].contains(part), "{part}: {}", lost[0]);
        }
    }
}

/// The process died after its C, before or in its call: nobody calls for it again.
#[actix_web::test]
async fn a_call_a_dead_process_may_have_made_is_not_made_again() {
    let engines = Engines::new();
    let partner = Partner::start(Does::Waits(offer(&json!({})))).await;
    let dying = World::new(&engines, &partner).await;
    let call = actix_web::rt::spawn(dying.post("k", &asked("cart")).send());
    partner.asked_times(1).await;
    // As a process that is gone: nothing of it goes on, and the partner's answer reaches nobody.
    call.abort();
    let _folding = engines.fold();
    let next = World::new(&engines, &partner).await;
    let (status, body) = next.create("k", &asked("cart")).await;
    assert_eq!((status, &body["state"]), (202, &json!("REQUESTED")), "{body}");
    assert_eq!((engines.facts().await.as_str(), partner.count()), ("C", 1));
    drop(dying);
}

/// An outcome outlives a log that is away, though the shop no longer waits for it.
#[actix_web::test]
async fn an_outcome_is_kept_until_the_log_is_back() {
    for (answer, facts, status) in
        [(offer(&json!({})), "C O", 201), (http("400 Bad Request", "{}"), "C CF", 502)]
    {
        let (engines, partner) = (Engines::new(), Partner::start(Does::Sends(answer)).await);
        let away = Away::for_facts(&engines, &["O", "CF"]);
        let world = World::new(&engines.with_log(away.clone()), &partner).await;
        let _folding = engines.fold();
        let (first, body) = world.create("k", &asked("cart")).await;
        assert_eq!((first, &body["state"]), (202, &json!("REQUESTED")), "{body}");
        assert_eq!(engines.facts().await, "C");
        assert_eq!(world.checkout.in_flight(), 1, "a drain waits for it");
        let (busy, body) = world.create("k", &asked("cart")).await;
        assert_eq!((busy, body["code"].as_str()), (409, Some("idempotency_key_in_flight")));

        away.is_back();
        facts_become(&engines, facts).await;
        drained(&world).await;
        assert_eq!(world.create("k", &asked("cart")).await.0, status);
        assert_eq!(partner.count(), 1);
    }
}

/// A call that is over holds no place at its partner, though its outcome waits for the log.
#[actix_web::test]
#[ignore = "nightly: limits"]
async fn what_waits_for_the_log_does_not_make_a_partner_busy() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let away = Away::for_facts(&engines, &["O"]);
    let limits = payfold_checkout::Limits { calls_per_partner_max: 1, ..Default::default() };
    let made = Made { limits: Some(limits), ..Made::default() };
    let world = World::made(&engines.with_log(away), &partner.url, made).await;
    let first = actix_web::rt::spawn(world.post("k1", &asked("cart")).send());
    partner.asked_times(1).await;
    // The first waits 5 s for the log; the partner is free as soon as it has answered.
    let another = async {
        loop {
            tokio::select! {
                () = partner.asked_times(2) => break,
                busy = world.post("k2", &asked("another cart")).send() => {
                    assert_eq!(busy.unwrap().status(), 503);
                }
            }
        }
    };
    let called = tokio::time::timeout(Duration::from_secs(3), another).await;
    assert!(called.is_ok(), "the partner is busy with what it has answered");
    assert_eq!(first.await.unwrap().unwrap().status(), 202);
}

/// A log that is away for a moment is not seen.
#[actix_web::test]
async fn a_short_outage_is_bridged() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let away = Away::for_facts(&engines, &["C", "O"]);
    let world = World::new(&engines.with_log(away.clone()), &partner).await;
    let _folding = engines.fold();
    let body = asked("cart");
    let call = actix_web::rt::spawn(world.post("k", &body).send());
    while engines.store.claimed(claim_key("web/k")).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    away.is_back();
    assert_eq!(told(call.await.unwrap().unwrap()).await.0, 201);
    assert_eq!((engines.facts().await.as_str(), partner.count()), ("C O", 1));
}

/// A shop that hangs up in the middle of the call finds its payment afterwards.
#[actix_web::test]
async fn the_work_goes_on_when_the_shop_hangs_up() {
    let engines = Engines::new();
    let partner = Partner::start(Does::Waits(offer(&json!({})))).await;
    let world = World::new(&engines, &partner).await;
    let body = asked("cart").to_string();
    let mut socket = TcpStream::connect(world.url.trim_start_matches("http://")).await.unwrap();
    let request = format!(
        "POST /v1/payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nIdempotency-Key: k\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    partner.asked_times(1).await;
    // Reset, not merely closed: the library then drops the handler where it stands.
    socket.set_zero_linger().unwrap();
    drop(socket);
    while world.checkout.in_flight() > 1 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(world.checkout.in_flight() > 0);
    partner.let_go();
    facts_become(&engines, "C O").await;
    drained(&world).await;
    let _folding = engines.fold();
    assert_eq!(world.create("k", &asked("cart")).await.0, 201);
    assert_eq!(partner.count(), 1);
}
