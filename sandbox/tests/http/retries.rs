//! Retries of notices that are not acknowledged.

use std::time::Duration;

use crate::sink::ForcedAnswer;
use crate::world::{TestCall, TestWorld};

#[actix_web::test]
async fn only_200_without_a_body_is_an_acknowledgement() {
    let world = TestWorld::start();
    world.sink.force_answers(&[
        ForcedAnswer::Status(503),
        ForcedAnswer::OkWithBody,
        ForcedAnswer::Status(204),
    ]);
    world.call_and_drain("r", "x #pay").await;
    let received = world.sink.received("r");
    let answered: Vec<_> = received.iter().map(|one| one.answered).collect();
    assert_eq!(answered, [503, 299, 204, 200]);
    for pair in received.windows(2) {
        assert!(
            pair[0].time("timestamp") < pair[1].time("timestamp"),
            "each attempt has a new timestamp"
        );
        assert_ne!(pair[0].notice["signature"], pair[1].notice["signature"]);
        assert_eq!(pair[0].notice["paidAt"], pair[1].notice["paidAt"]);
    }
    let body = world.json("/sandbox/deliveries?orderId=r").await;
    let attempts = body["deliveries"][0]["attempts"].as_array().unwrap();
    let http: Vec<_> = attempts.iter().map(|attempt| attempt["http"].as_u64().unwrap()).collect();
    assert_eq!(http, [503, 200, 204, 200]);
    let acked: Vec<_> = attempts.iter().map(|a| a["acked"].as_bool().unwrap()).collect();
    assert_eq!(acked, [false, false, false, true]);
}

#[actix_web::test]
async fn an_unacknowledged_notice_is_sent_as_often_as_scheduled() {
    let world = TestWorld::start();
    world.sink.force_answers(&[ForcedAnswer::Status(500); 5]);
    world.call_and_drain("g", "x #pay").await;
    assert_eq!(world.sink.received("g").len(), 4, "as often as the schedule says");
    let body = world.json("/sandbox/deliveries?orderId=g").await;
    assert_eq!(body["deliveries"][0]["acked"], false);
    assert_eq!(body["finished"], true);
}

#[actix_web::test]
async fn a_drain_waits_no_longer_than_its_limit() {
    let world = TestWorld::with(|settings| {
        (settings.retry.first_ms, settings.retry.longest_ms) = (60_000, 60_000);
    });
    let call =
        TestCall { return_url: "shop://payment-result".to_owned(), ..TestCall::new("w", "x #pay") };
    world.sink.force_answers(&[ForcedAnswer::Status(500)]);
    world.call(&call).await;
    assert_eq!(world.sandbox.drain(Duration::from_millis(400)).await, 1);
    assert_eq!(world.sandbox.unfinished(), 1);
}

#[actix_web::test]
async fn too_many_unfinished_payments_are_refused() {
    let world = TestWorld::with(|settings| settings.unfinished_max = 1);
    world.call(&TestCall::new("first", "x #late")).await;
    let created = world.call(&TestCall::new("second", "x #pay")).await;
    let text = format!("{created:?}");
    assert!(text.contains("Refused(429)"), "{text}");
    world.drain().await;
    assert!(matches!(
        world.call(&TestCall::new("third", "x #pay")).await,
        payfold_partners::remote::CreateOutcome::Opened(_)
    ));
}
