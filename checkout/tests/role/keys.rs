//! The Idempotency-Key: one key makes one payment, however often it is sent and to however many
//! processes.

use std::sync::Arc;

use futures_util::future::join_all;
use payfold_engines::orders::{ClaimKey, Claimed};
use serde_json::json;

use crate::partner::{Behaviour, Partner, offer};
use crate::reads::{append_fact, paid_notice, wait_for_row};
use crate::world::{Engines, NOW, World, claim_key, payment_body, payment_body_with, read_answer};

#[actix_web::test]
async fn the_same_key_and_body_get_the_same_answer() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let wanted = payment_body_with(&json!({"description": "Two|tickets"}));
    let first = world.create("k", &wanted).await;
    assert_eq!(first.1["description"], "Two tickets");
    partner.set_behaviour(Behaviour::Sends(offer(&json!({"providerRef": "GW-2"}))));
    // Another spelling of the same request is the same request.
    let spelt = world.post("k", &wanted).body(
        r#"{"description":"Two\u007ctickets","currency":"EUR","amount": 1500 ,"reference":"cart",
            "merchantCode":"SHOP","partner":"acme","metadata":{}}"#,
    );
    assert_eq!(read_answer(spelt.send().await.unwrap()).await, first);
    assert_eq!(world.create("k", &wanted).await, first);
    assert_eq!(
        (engines.facts().await.as_str(), partner.request_count()),
        ("createRequested sessionOpened", 1)
    );
    assert_eq!(world.metric("payfold_checkout_creates_total", &["acme", "replayed"]), 2.0);
}

#[actix_web::test]
async fn the_same_key_with_another_body_is_refused() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    world.create("k", &payment_body("cart")).await;
    for members in [
        json!({"amount": 1_501}),
        json!({"merchantCode": null}),
        json!({"metadata": {"a": "b"}}),
        json!({"description": "two tickets"}),
    ] {
        let (status, body) = world.create("k", &payment_body_with(&members)).await;
        assert_eq!(
            (status, body["code"].as_str()),
            (422, Some("idempotency_key_reused")),
            "{members}"
        );
    }
    assert_eq!(partner.request_count(), 1);
}

#[actix_web::test]
async fn a_malformed_key_is_refused() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    let body = payment_body("cart");
    let bare = |request: reqwest::RequestBuilder| {
        let mut request = request.build().unwrap();
        request.headers_mut().remove("idempotency-key");
        request
    };
    let mut requests = vec![bare(world.post("k", &body))];
    for key in [&b""[..], b"caf\xc3\xa9", b"a\tb", &[b'x'; 256]] {
        let mut request = bare(world.post("k", &body));
        let value = reqwest::header::HeaderValue::from_bytes(key).unwrap();
        request.headers_mut().insert("idempotency-key", value);
        requests.push(request);
    }
    let mut twice = world.post("k", &body).build().unwrap();
    twice.headers_mut().append("idempotency-key", "l".parse().unwrap());
    requests.push(twice);
    for request in requests {
        let (status, body) = read_answer(world.client.execute(request).await.unwrap()).await;
        assert_eq!((status, body["code"].as_str()), (400, Some("idempotency_key_missing")));
    }
    let longest = "x".repeat(255);
    assert_eq!(world.create(&longest, &body).await.0, 201);
    assert_eq!(partner.request_count(), 1);
}

#[actix_web::test]
async fn of_many_concurrent_requests_one_calls() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    partner.set_behaviour(Behaviour::Waits(offer(&json!({}))));
    let body = payment_body("cart");
    let first = actix_web::rt::spawn(world.post("k", &body).send());
    partner.wait_for_requests(1).await;
    for (status, body) in join_all((0..8).map(|_| world.create("k", &body))).await {
        assert_eq!((status, body["code"].as_str()), (409, Some("idempotency_key_in_flight")));
    }
    partner.release();
    let first = read_answer(first.await.unwrap().unwrap()).await;
    assert_eq!(first.0, 201);
    assert_eq!(world.create("k", &body).await, first);
    assert_eq!(
        (engines.facts().await.as_str(), partner.request_count()),
        ("createRequested sessionOpened", 1)
    );
}

/// Two processes over one store: the second is answered that the outcome is unknown, and later gets
/// the same answer as the first.
#[actix_web::test]
async fn of_two_processes_one_calls() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let _folding = engines.fold();
    let one = World::new(&engines, &partner).await;
    let other = World::new(&engines, &partner).await;
    for round in 0..20 {
        let (key, body) = (format!("k{round}"), payment_body(&format!("cart {round}")));
        let answers = join_all([one.create(&key, &body), other.create(&key, &body)]).await;
        assert!(answers.iter().all(|(status, _)| matches!(status, 201 | 202)), "{answers:?}");
        let ids: Vec<_> = answers.iter().map(|(_, body)| &body["orderId"]).collect();
        assert_eq!(ids[0], ids[1]);
        assert_eq!(partner.request_count(), round + 1, "one call a key");
        let settled = join_all([one.create(&key, &body), other.create(&key, &body)]).await;
        assert_eq!(settled[0], settled[1]);
        assert_eq!(settled[0].0, 201);
    }
}

/// A request that was valid when it was first sent is answered, although it would be refused now.
#[actix_web::test]
async fn a_late_retry_is_answered_after_its_expires_at() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let body = payment_body_with(&json!({"expiresAt": NOW.plus_ms(10_000).to_string()}));
    let (status, first) = world.create("k", &body).await;
    assert_eq!(status, 201);
    engines.clock.set(NOW.plus_ms(60_000));
    let (status, again) = world.create("k", &body).await;
    assert_eq!((status, &again["orderId"]), (201, &first["orderId"]));
    let (status, body) = world.create("another", &body).await;
    assert_eq!((status, body["code"].as_str()), (422, Some("expires_at_past")));
    assert_eq!(partner.request_count(), 1);
}

/// The same key of two shops is two keys.
#[actix_web::test]
async fn each_shop_has_its_own_keys() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    world.create("k", &payment_body("cart")).await;
    let mut request =
        world.post("k", &payment_body_with(&json!({"merchantCode": "OTHER"}))).build().unwrap();
    let bearer = format!("Bearer {}", crate::world::OTHER_TOKEN).parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let (status, body) = read_answer(world.client.execute(request).await.unwrap()).await;
    assert_eq!((status, partner.request_count()), (201, 2), "{body}");
    let shared = Arc::clone(&engines.store);
    assert!(shared.claimed(claim_key("other/k")).await.unwrap().is_some());
}

/// Gives the web shop this name.
fn rename_web_shop(world: &World, name: &str) {
    let mut vault = payfold_partners::document::VaultDocument::default();
    let sha256 = payfold_schemas::digest::Digest::of_bytes(crate::world::TOKEN.as_bytes());
    let token = payfold_partners::shops::ShopToken { sha256, created_at: NOW, valid_until: None };
    let account = payfold_partners::shops::ShopAccount {
        partner: payfold_schemas::ids::PartnerCode::parse("acme").unwrap(),
        merchant_code: payfold_schemas::ids::MerchantCode::parse("SHOP").unwrap(),
    };
    let name = payfold_schemas::ids::ShopName::parse(name).unwrap();
    vault.add_shop_token(&name, &[account], token, 0);
    world.shops.store(Arc::new(payfold_partners::shops::Shops::of(&vault)));
}

/// The name that gives a shop's keys the prefix of the build journal's keys.
fn journal_shop_name() -> String {
    let key = ClaimKey::journal_entry(1);
    key.as_str().split_once('/').unwrap().0.to_owned()
}

/// No shop can claim a key of the build journal, also with the journal's name. Such a claim would
/// make the journal unreadable.
#[actix_web::test]
async fn no_shop_can_claim_a_key_of_the_build_journal() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    rename_web_shop(&world, &journal_shop_name());
    for key in ["1", "18446744073709551616", "007", "tables/2"] {
        let (status, body) = world.create(key, &payment_body("cart")).await;
        for reserved in [ClaimKey::journal_entry(1), ClaimKey::table_making(2)] {
            assert_eq!(engines.store.claimed(reserved).await, Ok(None), "{key}");
        }
        assert_eq!(
            (status, body["code"].as_str()),
            (400, Some("idempotency_key_missing")),
            "{key}"
        );
        assert!(body["detail"].as_str().unwrap().contains("order-17"), "{body}");
    }
    assert_eq!((engines.facts().await.as_str(), partner.request_count()), ("", 0));
    for (calls, key) in (1..).zip(["order-1", "1/", "tables/", "tables/x", "tables/2/"]) {
        let (status, body) = world.create(key, &payment_body("cart")).await;
        assert_eq!((status, partner.request_count()), (201, calls), "{key}: {body}");
    }
}

/// A reserved key that a shop claimed with an earlier version is answered from its order.
#[actix_web::test]
async fn a_reserved_key_that_was_claimed_before_is_answered_from_its_order() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let first = world.create("17", &payment_body("cart")).await;
    let claim = engines.store.claimed(claim_key("web/17")).await.unwrap().expect("claimed");
    let before = ClaimKey::journal_entry(17);
    assert_eq!(engines.store.claim(before, claim).await, Ok(Claimed::Mine));
    rename_web_shop(&world, &journal_shop_name());
    assert_eq!(world.create("17", &payment_body("cart")).await, first);
    assert_eq!(world.create("17", &payment_body("another cart")).await.0, 422, "the key is used");
    assert_eq!(
        (engines.facts().await.as_str(), partner.request_count()),
        ("createRequested sessionOpened", 1)
    );
    // An entry of the journal itself belongs to no shop.
    assert_eq!(engines.store.claim(ClaimKey::journal_entry(18), vec![1]).await, Ok(Claimed::Mine));
    assert_eq!(world.create("18", &payment_body("cart")).await.0, 400);
    assert_eq!(partner.request_count(), 1);
}

/// A shop sees only the accounts in its present list, also with a known key.
#[actix_web::test]
async fn a_known_key_of_an_account_the_shop_lost_is_refused() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    assert_eq!(world.create("k", &payment_body("cart")).await.0, 201);
    let mut vault = payfold_partners::document::VaultDocument::default();
    let sha256 = payfold_schemas::digest::Digest::of_bytes(crate::world::TOKEN.as_bytes());
    let token = payfold_partners::shops::ShopToken { sha256, created_at: NOW, valid_until: None };
    let name = payfold_schemas::ids::ShopName::parse("web").unwrap();
    vault.add_shop_token(&name, &[], token, 0);
    world.shops.store(Arc::new(payfold_partners::shops::Shops::of(&vault)));
    let (status, body) = world.create("k", &payment_body("cart")).await;
    assert_eq!((status, body["code"].as_str()), (422, Some("unknown_account")), "{body}");
}

/// A payment can be paid although the partner's answer broke the contract. The shop must not make a
/// new attempt then.
#[actix_web::test]
async fn a_paid_order_is_not_answered_as_failed_after_a_failed_call() {
    let answer = offer(&json!({"expiresAt": null}));
    let (engines, partner) = (Engines::new(), Partner::start(Behaviour::Sends(answer)).await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let (status, body) = world.create("k", &payment_body("cart")).await;
    let code = "contract_violation.expires_at";
    assert_eq!((status, body["code"].as_str()), (502, Some(code)), "{body}");
    let order = format!("acme/SHOP/{}", body["orderId"].as_str().unwrap());
    let read = async || {
        read_answer(world.get(&format!("/v1/payments/{order}")).send().await.unwrap()).await.1
    };
    wait_for_row(&engines, &order, 2).await;
    assert_eq!(read().await["failureCode"], code);

    append_fact(&engines, &order, paid_notice()).await;
    wait_for_row(&engines, &order, 3).await;
    let (status, body) = world.create("k", &payment_body("cart")).await;
    assert_eq!((status, &body["state"]), (202, &json!("PAID")), "{body}");
    let payment = read().await;
    assert_eq!((&payment["state"], payment.get("failureCode")), (&json!("PAID"), None));
    assert_eq!(
        (engines.facts().await.as_str(), partner.request_count()),
        ("createRequested createFailed ipn", 1)
    );
}
