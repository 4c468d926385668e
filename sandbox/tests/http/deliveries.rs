//! The notices of each type of trouble.

use payfold_partners::remote::CreateOutcome;
use payfold_schemas::time::Time;

use crate::sink::ReceivedNotice;
use crate::world::{TestCall, TestWorld, provider_ref};

/// The content of each notice, such as `SUCCESS 150000 VND`, in order of arrival.
fn describe_notices(received: &[ReceivedNotice]) -> Vec<String> {
    let line = |one: &ReceivedNotice| {
        format!("{} {} {}", one.text("status"), one.notice["amount"], one.text("currency"))
    };
    received.iter().map(line).collect()
}

#[actix_web::test]
async fn one_notice_of_each_outcome_has_the_contract_fields() {
    let world = TestWorld::start();
    for (word, status) in
        [("pay", "SUCCESS"), ("fail", "FAILED"), ("cancel", "FAILED"), ("expire", "EXPIRED")]
    {
        let created = world.call_and_drain(word, &format!("x #{word}")).await;
        let received = world.sink.received(word);
        assert_eq!(describe_notices(&received), [format!("{status} 150000 VND")], "{word}");
        let notice = &received[0].notice;
        assert_eq!(notice["merchantCode"], "DEMO");
        assert_eq!(notice["providerRef"], provider_ref(&created).as_str());
        assert_eq!(notice.get("paidAt").is_some(), word == "pay", "{word}");
        assert_eq!(notice.get("nonce"), None, "the profile requires no nonce");
    }
}

#[actix_web::test]
async fn wrong_amounts_are_signed_correctly() {
    let world = TestWorld::start();
    world.call_and_drain("a", "x #wrong-amount").await;
    let amount = world.sink.received("a")[0].notice["amount"].as_i64().unwrap();
    assert!((150_001..=150_009).contains(&amount), "{amount}");
    world.call_and_drain("c", "x #wrong-currency").await;
    assert_eq!(describe_notices(&world.sink.received("c")), ["SUCCESS 150000 EUR"]);
    world.call_and_drain("v", "x #content-variant-amount").await;
    let variant = world.sink.received("v");
    assert_ne!(variant[0].notice["amount"], variant[1].notice["amount"]);
    assert_eq!(variant[0].notice["paidAt"], variant[1].notice["paidAt"]);
    world.call_and_drain("t", "x #content-variant").await;
    let variant = world.sink.received("t");
    assert_eq!(variant[0].notice["amount"], variant[1].notice["amount"]);
    assert_ne!(variant[0].notice["paidAt"], variant[1].notice["paidAt"]);
}

#[actix_web::test]
async fn refunds_are_sent_as_requested() {
    let world = TestWorld::start();
    for (word, expected) in [
        ("refund-first", vec!["REFUNDED 150000 VND", "SUCCESS 150000 VND"]),
        ("refund-only", vec!["REFUNDED 150000 VND"]),
        ("refund-part", vec!["SUCCESS 150000 VND", "REFUNDED 75000 VND"]),
        ("refund-after-fail", vec!["FAILED 150000 VND", "REFUNDED 150000 VND"]),
        ("disorder", vec!["REFUNDED 150000 VND", "REFUNDED 150000 VND", "SUCCESS 150000 VND"]),
    ] {
        world.call_and_drain(word, &format!("x #{word}")).await;
        assert_eq!(describe_notices(&world.sink.received(word)), expected, "{word}");
    }
    let odd = TestCall { amount: 151, ..TestCall::new("odd", "x #refund-parts") };
    world.call(&odd).await;
    world.drain().await;
    let parts = world.sink.received("odd");
    assert_eq!(describe_notices(&parts), ["SUCCESS 151 VND", "REFUNDED 75 VND", "REFUNDED 76 VND"]);
    assert_ne!(parts[1].notice["paidAt"], parts[2].notice["paidAt"]);
    let one = TestCall { amount: 1, ..TestCall::new("one", "x #refund-part") };
    assert!(matches!(world.call(&one).await, CreateOutcome::Failed(_)), "one unit has no halves");
}

#[actix_web::test]
async fn a_stale_notice_is_retried_with_a_new_timestamp() {
    let world = TestWorld::start();
    world.call_and_drain("s", "x #stale").await;
    let [old, new] = world.sink.received("s").try_into().unwrap();
    assert_eq!((old.answered, new.answered), (403, 200));
    let age_s = old.at.nanos_since(old.time("timestamp")) / 1_000_000_000;
    assert!((599..=605).contains(&age_s), "{age_s}");
    assert!(new.at.nanos_since(new.time("timestamp")) < 5_000_000_000);
    assert_eq!(old.notice["paidAt"], new.notice["paidAt"], "a retry is the same fact");
}

#[actix_web::test]
async fn a_forged_notice_contradicts_and_is_sent_once() {
    let world = TestWorld::start();
    world.call_and_drain("k", "x #wrong-key").await;
    let received = world.sink.received("k");
    let expected = ["FAILED 150000 VND", "SUCCESS 150000 VND", "SUCCESS 150000 VND"];
    assert_eq!(describe_notices(&received), expected);
    let answered: Vec<_> = received.iter().map(|one| one.answered).collect();
    assert_eq!(answered, [401, 401, 200]);
}

#[actix_web::test]
async fn duplicates_are_the_same_bytes_or_have_a_new_signature() {
    let world = TestWorld::start();
    let (mut same, mut signed_again) = (0, 0);
    for nth in 0..6 {
        let order = format!("d{nth}");
        world.call_and_drain(&order, &format!("{nth} #duplicates")).await;
        let received = world.sink.received(&order);
        assert_eq!(received.len(), 4);
        let paid_at: Vec<_> = received.iter().map(|one| one.text("paidAt")).collect();
        assert!(paid_at.iter().all(|at| *at == paid_at[0]), "one fact");
        same += received[1..].iter().filter(|one| one.bytes == received[0].bytes).count();
        signed_again += received[1..].iter().filter(|one| one.bytes != received[0].bytes).count();
    }
    assert!(same > 0 && signed_again > 0, "{same} {signed_again}");
}

#[actix_web::test]
async fn late_notices_come_after_the_session_and_differ_in_paid_at() {
    let world = TestWorld::start();
    for (word, in_time) in [("late", true), ("paid-late", false)] {
        let CreateOutcome::Opened(offer) = world.call_and_drain(word, &format!("x #{word}")).await
        else {
            panic!("{word}")
        };
        let [notice] = world.sink.received(word).try_into().unwrap();
        assert!(notice.at > offer.expires_at, "{word}");
        assert_eq!(notice.time("paidAt") < offer.expires_at, in_time, "{word}");
    }
    world.call_and_drain("never", "x #never").await;
    assert!(world.sink.received("never").is_empty());
}

#[actix_web::test]
async fn a_notice_before_the_create_response_arrives_before_it() {
    let world = TestWorld::start();
    world.call(&TestCall::new("b", "x #before-create")).await;
    // The create call has returned, so the notice has arrived.
    assert_eq!(describe_notices(&world.sink.received("b")), ["SUCCESS 150000 VND"]);
}

#[actix_web::test]
async fn provider_refs_are_shared_and_doubled_as_requested() {
    let world = TestWorld::start();
    let one = provider_ref(&world.call_and_drain("r1", "x #reused-ref").await);
    let two = provider_ref(&world.call_and_drain("r2", "x #reused-ref").await);
    let three = provider_ref(&world.call_and_drain("r3", "x #reused-ref").await);
    assert_eq!(one, two, "the second takes the first one's");
    assert_ne!(two, three, "a third begins another pair");
    for order in ["r1", "r2"] {
        assert_eq!(world.sink.received(order)[0].text("providerRef"), one);
    }
    let first = provider_ref(&world.call_and_drain("d", "x #second-ref").await);
    let refs: Vec<_> = world.sink.received("d").iter().map(|one| one.text("providerRef")).collect();
    assert_eq!(refs, [first.clone(), format!("{first}-2")]);
}

#[actix_web::test]
async fn a_session_ends_at_the_earlier_of_shop_and_partner_limits() {
    let world = TestWorld::start();
    let far = TestCall { expires_at: Some(in_s(86_400)), ..TestCall::new("far", "x #pay") };
    let near = TestCall { expires_at: Some(in_s(60)), ..TestCall::new("near", "x #pay") };
    let past = TestCall { expires_at: Some(in_s(-1)), ..TestCall::new("past", "x #pay") };
    let CreateOutcome::Opened(offer) = world.call(&far).await else { panic!() };
    assert!(offer.expires_at <= in_s(15 * 60));
    let CreateOutcome::Opened(offer) = world.call(&near).await else { panic!() };
    assert_eq!(Some(offer.expires_at), near.expires_at);
    assert!(matches!(world.call(&past).await, CreateOutcome::Failed(_)));
}

fn in_s(seconds: i64) -> Time {
    use payfold_engines::clock::{Clock, SystemClock};
    Time::from_unix_ms(SystemClock.now().plus_ms(seconds * 1_000).unix_ms())
}
