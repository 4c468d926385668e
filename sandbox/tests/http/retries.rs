//! What happens to a notice that is not taken.

use std::time::Duration;

use crate::sink::Mood;
use crate::world::{Wanted, World};

#[actix_web::test]
async fn only_200_without_a_body_is_an_acknowledgement() {
    let world = World::start();
    world.sink.answer_first(&[Mood::Status(503), Mood::Chatty, Mood::Status(204)]);
    world.play("r", "x #pay").await;
    let received = world.sink.of("r");
    let answered: Vec<_> = received.iter().map(|one| one.answered).collect();
    assert_eq!(answered, [503, 299, 204, 200]);
    for pair in received.windows(2) {
        assert!(pair[0].time("timestamp") < pair[1].time("timestamp"), "stamped anew");
        assert_ne!(pair[0].notice["signature"], pair[1].notice["signature"]);
        assert_eq!(pair[0].notice["paidAt"], pair[1].notice["paidAt"]);
    }
    let told = world.json("/sandbox/deliveries?orderId=r").await;
    let attempts = told["deliveries"][0]["attempts"].as_array().unwrap();
    let http: Vec<_> = attempts.iter().map(|attempt| attempt["http"].as_u64().unwrap()).collect();
    assert_eq!(http, [503, 200, 204, 200]);
    let acked: Vec<_> = attempts.iter().map(|a| a["acked"].as_bool().unwrap()).collect();
    assert_eq!(acked, [false, false, false, true]);
}

#[actix_web::test]
async fn a_notice_that_is_never_taken_is_given_up() {
    let world = World::start();
    world.sink.answer_first(&[Mood::Status(500); 5]);
    world.play("g", "x #pay").await;
    assert_eq!(world.sink.of("g").len(), 4, "as often as the schedule says");
    let told = world.json("/sandbox/deliveries?orderId=g").await;
    assert_eq!(told["deliveries"][0]["acked"], false);
    assert_eq!(told["finished"], true);
}

#[actix_web::test]
async fn a_drain_waits_no_longer_than_it_is_told() {
    let world = World::with(|settings| {
        (settings.retry.first_ms, settings.retry.longest_ms) = (60_000, 60_000);
    });
    let wanted =
        Wanted { return_url: "shop://payment-result".to_owned(), ..Wanted::new("w", "x #pay") };
    world.sink.answer_first(&[Mood::Status(500)]);
    world.call(&wanted).await;
    assert_eq!(world.sandbox.drain(Duration::from_millis(400)).await, 1);
    assert_eq!(world.sandbox.unfinished(), 1);
}

#[actix_web::test]
async fn too_many_unfinished_payments_are_refused() {
    let world = World::with(|settings| settings.unfinished_max = 1);
    world.call(&Wanted::new("first", "x #late")).await;
    let created = world.call(&Wanted::new("second", "x #pay")).await;
    let text = format!("{created:?}");
    assert!(text.contains("Refused(429)"), "{text}");
    world.drain().await;
    assert!(matches!(
        world.call(&Wanted::new("third", "x #pay")).await,
        payfold_partners::remote::Created::Opened(_)
    ));
}
