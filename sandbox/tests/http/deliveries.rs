//! What each kind of trouble puts into its notices.

use payfold_partners::remote::Created;
use payfold_schemas::time::Time;

use crate::sink::Received;
use crate::world::{Wanted, World, provider_ref};

/// `SUCCESS 150000 VND` of each notice, in the order they came.
fn said(received: &[Received]) -> Vec<String> {
    let line = |one: &Received| {
        format!("{} {} {}", one.text("status"), one.notice["amount"], one.text("currency"))
    };
    received.iter().map(line).collect()
}

#[actix_web::test]
async fn one_notice_of_each_ending_says_what_the_contract_asks() {
    let world = World::start();
    for (word, status) in
        [("pay", "SUCCESS"), ("fail", "FAILED"), ("cancel", "FAILED"), ("expire", "EXPIRED")]
    {
        let created = world.play(word, &format!("x #{word}")).await;
        let received = world.sink.of(word);
        assert_eq!(said(&received), [format!("{status} 150000 VND")], "{word}");
        let notice = &received[0].notice;
        assert_eq!(notice["merchantCode"], "DEMO");
        assert_eq!(notice["providerRef"], provider_ref(&created).as_str());
        assert_eq!(notice.get("paidAt").is_some(), word == "pay", "{word}");
        assert_eq!(notice.get("nonce"), None, "the profile does not ask for one");
    }
}

#[actix_web::test]
async fn wrong_money_is_signed_like_any_other() {
    let world = World::start();
    world.play("a", "x #wrong-amount").await;
    let amount = world.sink.of("a")[0].notice["amount"].as_i64().unwrap();
    assert!((150_001..=150_009).contains(&amount), "{amount}");
    world.play("c", "x #wrong-currency").await;
    assert_eq!(said(&world.sink.of("c")), ["SUCCESS 150000 EUR"]);
    world.play("v", "x #content-variant-amount").await;
    let variant = world.sink.of("v");
    assert_ne!(variant[0].notice["amount"], variant[1].notice["amount"]);
    assert_eq!(variant[0].notice["paidAt"], variant[1].notice["paidAt"]);
    world.play("t", "x #content-variant").await;
    let variant = world.sink.of("t");
    assert_eq!(variant[0].notice["amount"], variant[1].notice["amount"]);
    assert_ne!(variant[0].notice["paidAt"], variant[1].notice["paidAt"]);
}

#[actix_web::test]
async fn refunds_come_as_they_are_asked_for() {
    let world = World::start();
    for (word, expected) in [
        ("refund-first", vec!["REFUNDED 150000 VND", "SUCCESS 150000 VND"]),
        ("refund-only", vec!["REFUNDED 150000 VND"]),
        ("refund-part", vec!["SUCCESS 150000 VND", "REFUNDED 75000 VND"]),
        ("refund-after-fail", vec!["FAILED 150000 VND", "REFUNDED 150000 VND"]),
        ("disorder", vec!["REFUNDED 150000 VND", "REFUNDED 150000 VND", "SUCCESS 150000 VND"]),
    ] {
        world.play(word, &format!("x #{word}")).await;
        assert_eq!(said(&world.sink.of(word)), expected, "{word}");
    }
    let odd = Wanted { amount: 151, ..Wanted::new("odd", "x #refund-parts") };
    world.call(&odd).await;
    world.drain().await;
    let parts = world.sink.of("odd");
    assert_eq!(said(&parts), ["SUCCESS 151 VND", "REFUNDED 75 VND", "REFUNDED 76 VND"]);
    assert_ne!(parts[1].notice["paidAt"], parts[2].notice["paidAt"]);
    let one = Wanted { amount: 1, ..Wanted::new("one", "x #refund-part") };
    assert!(matches!(world.call(&one).await, Created::Failed(_)), "one unit has no halves");
}

#[actix_web::test]
async fn a_stale_notice_comes_again_with_a_new_stamp() {
    let world = World::start();
    world.play("s", "x #stale").await;
    let [old, new] = world.sink.of("s").try_into().unwrap();
    assert_eq!((old.answered, new.answered), (403, 200));
    let age_s = old.at.nanos_since(old.time("timestamp")) / 1_000_000_000;
    assert!((599..=605).contains(&age_s), "{age_s}");
    assert!(new.at.nanos_since(new.time("timestamp")) < 5_000_000_000);
    assert_eq!(old.notice["paidAt"], new.notice["paidAt"], "a retry is the same fact");
}

#[actix_web::test]
async fn a_forged_notice_contradicts_and_is_tried_once() {
    let world = World::start();
    world.play("k", "x #wrong-key").await;
    let received = world.sink.of("k");
    let expected = ["FAILED 150000 VND", "SUCCESS 150000 VND", "SUCCESS 150000 VND"];
    assert_eq!(said(&received), expected);
    let answered: Vec<_> = received.iter().map(|one| one.answered).collect();
    assert_eq!(answered, [401, 401, 200]);
}

#[actix_web::test]
async fn duplicates_are_the_same_bytes_or_signed_anew() {
    let world = World::start();
    let (mut same, mut anew) = (0, 0);
    for nth in 0..6 {
        let order = format!("d{nth}");
        world.play(&order, &format!("{nth} #duplicates")).await;
        let received = world.sink.of(&order);
        assert_eq!(received.len(), 4);
        let paid_at: Vec<_> = received.iter().map(|one| one.text("paidAt")).collect();
        assert!(paid_at.iter().all(|at| *at == paid_at[0]), "one fact");
        same += received[1..].iter().filter(|one| one.bytes == received[0].bytes).count();
        anew += received[1..].iter().filter(|one| one.bytes != received[0].bytes).count();
    }
    assert!(same > 0 && anew > 0, "{same} {anew}");
}

#[actix_web::test]
async fn late_notices_come_after_the_session_and_differ_in_when_it_was_paid() {
    let world = World::start();
    for (word, in_time) in [("late", true), ("paid-late", false)] {
        let Created::Opened(offer) = world.play(word, &format!("x #{word}")).await else {
            panic!("{word}")
        };
        let [notice] = world.sink.of(word).try_into().unwrap();
        assert!(notice.at > offer.expires_at, "{word}");
        assert_eq!(notice.time("paidAt") < offer.expires_at, in_time, "{word}");
    }
    world.play("never", "x #never").await;
    assert!(world.sink.of("never").is_empty());
}

#[actix_web::test]
async fn a_notice_before_its_create_is_taken_before_the_answer() {
    let world = World::start();
    world.call(&Wanted::new("b", "x #before-create")).await;
    // The call is back: whatever came has come.
    assert_eq!(said(&world.sink.of("b")), ["SUCCESS 150000 VND"]);
}

#[actix_web::test]
async fn refs_are_shared_and_doubled_as_asked() {
    let world = World::start();
    let one = provider_ref(&world.play("r1", "x #reused-ref").await);
    let two = provider_ref(&world.play("r2", "x #reused-ref").await);
    let three = provider_ref(&world.play("r3", "x #reused-ref").await);
    assert_eq!(one, two, "the second takes the first one's");
    assert_ne!(two, three, "a third begins another pair");
    for order in ["r1", "r2"] {
        assert_eq!(world.sink.of(order)[0].text("providerRef"), one);
    }
    let first = provider_ref(&world.play("d", "x #second-ref").await);
    let refs: Vec<_> = world.sink.of("d").iter().map(|one| one.text("providerRef")).collect();
    assert_eq!(refs, [first.clone(), format!("{first}-2")]);
}

#[actix_web::test]
async fn a_session_ends_when_the_shop_says_so_and_never_later_than_the_partner() {
    let world = World::start();
    let far = Wanted { expires_at: Some(in_s(86_400)), ..Wanted::new("far", "x #pay") };
    let near = Wanted { expires_at: Some(in_s(60)), ..Wanted::new("near", "x #pay") };
    let past = Wanted { expires_at: Some(in_s(-1)), ..Wanted::new("past", "x #pay") };
    let Created::Opened(offer) = world.call(&far).await else { panic!() };
    assert!(offer.expires_at <= in_s(15 * 60));
    let Created::Opened(offer) = world.call(&near).await else { panic!() };
    assert_eq!(Some(offer.expires_at), near.expires_at);
    assert!(matches!(world.call(&past).await, Created::Failed(_)));
}

fn in_s(seconds: i64) -> Time {
    use payfold_engines::clock::{Clock, SystemClock};
    Time::from_unix_ms(SystemClock.now().plus_ms(seconds * 1_000).unix_ms())
}
