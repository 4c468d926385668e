//! The Idempotency-Key: one key is one payment, whoever asks however often, and from however many processes.

use std::sync::Arc;

use futures_util::future::join_all;
use payfold_engines::orders::{ClaimKey, Claimed};
use serde_json::json;

use crate::partner::{Does, Partner, offer};
use crate::reads::{append, paid, row};
use crate::world::{Engines, NOW, World, asked, asked_with, claim_key, told};

#[actix_web::test]
async fn the_same_key_and_body_is_answered_as_the_first_time() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let asked = asked_with(&json!({"description": "Two|tickets"}));
    let first = world.create("k", &asked).await;
    assert_eq!(first.1["description"], "Two tickets");
    partner.does(Does::Sends(offer(&json!({"providerRef": "GW-2"}))));
    // Another spelling of the same request is the same request.
    let spelt = world.post("k", &asked).body(
        r#"{"description":"Two\u007ctickets","currency":"EUR","amount": 1500 ,"reference":"cart",
            "merchantCode":"SHOP","partner":"acme","metadata":{}}"#,
    );
    assert_eq!(told(spelt.send().await.unwrap()).await, first);
    assert_eq!(world.create("k", &asked).await, first);
    assert_eq!((engines.facts().await.as_str(), partner.count()), ("C O", 1));
    assert_eq!(world.counted("payfold_checkout_creates_total", &["acme", "replayed"]), 2.0);
}

#[actix_web::test]
async fn the_same_key_with_another_body_is_refused() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    world.create("k", &asked("cart")).await;
    for members in [
        json!({"amount": 1_501}),
        json!({"merchantCode": null}),
        json!({"metadata": {"a": "b"}}),
        json!({"description": "two tickets"}),
    ] {
        let (status, body) = world.create("k", &asked_with(&members)).await;
        assert_eq!(
            (status, body["code"].as_str()),
            (422, Some("idempotency_key_reused")),
            "{members}"
        );
    }
    assert_eq!(partner.count(), 1);
}

#[actix_web::test]
async fn a_key_that_is_no_key_is_refused() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    let body = asked("cart");
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
        let (status, body) = told(world.client.execute(request).await.unwrap()).await;
        assert_eq!((status, body["code"].as_str()), (400, Some("idempotency_key_missing")));
    }
    let longest = "x".repeat(255);
    assert_eq!(world.create(&longest, &body).await.0, 201);
    assert_eq!(partner.count(), 1);
}

#[actix_web::test]
async fn of_many_at_once_one_calls() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    partner.does(Does::Waits(offer(&json!({}))));
    let body = asked("cart");
    let first = actix_web::rt::spawn(world.post("k", &body).send());
    partner.asked_times(1).await;
    for (status, body) in join_all((0..8).map(|_| world.create("k", &body))).await {
        assert_eq!((status, body["code"].as_str()), (409, Some("idempotency_key_in_flight")));
    }
    partner.let_go();
    let first = told(first.await.unwrap().unwrap()).await;
    assert_eq!(first.0, 201);
    assert_eq!(world.create("k", &body).await, first);
    assert_eq!((engines.facts().await.as_str(), partner.count()), ("C O", 1));
}

/// Two processes over one store: the loser is told that nobody knows yet, and later what the winner was told.
#[actix_web::test]
async fn of_two_processes_one_calls() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let _folding = engines.fold();
    let one = World::new(&engines, &partner).await;
    let other = World::new(&engines, &partner).await;
    for round in 0..20 {
        let (key, body) = (format!("k{round}"), asked(&format!("cart {round}")));
        let answers = join_all([one.create(&key, &body), other.create(&key, &body)]).await;
        assert!(answers.iter().all(|(status, _)| matches!(status, 201 | 202)), "{answers:?}");
        let ids: Vec<_> = answers.iter().map(|(_, body)| &body["orderId"]).collect();
        assert_eq!(ids[0], ids[1]);
        assert_eq!(partner.count(), round + 1, "one call a key");
        let settled = join_all([one.create(&key, &body), other.create(&key, &body)]).await;
        assert_eq!(settled[0], settled[1]);
        assert_eq!(settled[0].0, 201);
    }
}

/// What was right when it was asked is answered, though it would be refused now.
#[actix_web::test]
async fn a_late_retry_is_answered_though_its_time_is_over() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let body = asked_with(&json!({"expiresAt": NOW.plus_ms(10_000).to_string()}));
    let (status, first) = world.create("k", &body).await;
    assert_eq!(status, 201);
    engines.clock.set(NOW.plus_ms(60_000));
    let (status, again) = world.create("k", &body).await;
    assert_eq!((status, &again["orderId"]), (201, &first["orderId"]));
    let (status, body) = world.create("another", &body).await;
    assert_eq!((status, body["code"].as_str()), (422, Some("expires_at_past")));
    assert_eq!(partner.count(), 1);
}

/// One shop's key says nothing about another's.
#[actix_web::test]
async fn keys_are_a_shops_own() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    world.create("k", &asked("cart")).await;
    let mut request =
        world.post("k", &asked_with(&json!({"merchantCode": "OTHER"}))).build().unwrap();
    let bearer = format!("Bearer {}", crate::world::OTHER_TOKEN).parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let (status, body) = told(world.client.execute(request).await.unwrap()).await;
    assert_eq!((status, partner.count()), (201, 2), "{body}");
    let shared = Arc::clone(&engines.store);
    assert!(shared.claimed(claim_key("other/k")).await.unwrap().is_some());
}

/// From now on the web shop has this name.
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

/// A shop of any name takes no key of the build journal, or no process could read the journal any more.
#[actix_web::test]
async fn no_shop_takes_a_key_of_the_build_journal() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    rename_web_shop(&world, "generations");
    for key in ["1", "18446744073709551616", "007", "tables/2"] {
        let (status, body) = world.create(key, &asked("cart")).await;
        let journal = payfold_engines::generations::Journal::new(Arc::clone(&engines.store));
        journal.read().await.expect("the journal can be read");
        assert_eq!(
            (status, body["code"].as_str()),
            (400, Some("idempotency_key_missing")),
            "{key}"
        );
        assert!(body["detail"].as_str().unwrap().contains("order-17"), "{body}");
    }
    assert_eq!((engines.facts().await.as_str(), partner.count()), ("", 0));
    for (calls, key) in (1..).zip(["order-1", "1/", "tables/", "tables/x", "tables/2/"]) {
        let (status, body) = world.create(key, &asked("cart")).await;
        assert_eq!((status, partner.count()), (201, calls), "{key}: {body}");
    }
}

/// What an earlier version let such a shop claim is answered from its order, as ever.
#[actix_web::test]
async fn a_reserved_key_that_was_claimed_before_is_answered_from_its_order() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let first = world.create("17", &asked("cart")).await;
    let claim = engines.store.claimed(claim_key("web/17")).await.unwrap().expect("claimed");
    let before = ClaimKey::journal_entry(17);
    assert_eq!(engines.store.claim(before, claim).await, Ok(Claimed::Mine));
    rename_web_shop(&world, "generations");
    assert_eq!(world.create("17", &asked("cart")).await, first);
    assert_eq!(world.create("17", &asked("another cart")).await.0, 422, "the key is used");
    assert_eq!((engines.facts().await.as_str(), partner.count()), ("C O", 1));
    // The journal's own entry is no shop's.
    assert_eq!(engines.store.claim(ClaimKey::journal_entry(18), vec![1]).await, Ok(Claimed::Mine));
    assert_eq!(world.create("18", &asked("cart")).await.0, 400);
    assert_eq!(partner.count(), 1);
}

/// What a shop may see is what it lists now, under a known key too.
#[actix_web::test]
async fn a_known_key_tells_nothing_of_an_account_the_shop_has_no_more() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    assert_eq!(world.create("k", &asked("cart")).await.0, 201);
    let mut vault = payfold_partners::document::VaultDocument::default();
    let sha256 = payfold_schemas::digest::Digest::of_bytes(crate::world::TOKEN.as_bytes());
    let token = payfold_partners::shops::ShopToken { sha256, created_at: NOW, valid_until: None };
    let name = payfold_schemas::ids::ShopName::parse("web").unwrap();
    vault.add_shop_token(&name, &[], token, 0);
    world.shops.store(Arc::new(payfold_partners::shops::Shops::of(&vault)));
    let (status, body) = world.create("k", &asked("cart")).await;
    assert_eq!((status, body["code"].as_str()), (422, Some("unknown_account")), "{body}");
}

/// A partner whose answer broke the contract may have been paid all the same: nobody is told to try anew then.
#[actix_web::test]
async fn a_failed_call_that_is_paid_all_the_same_is_no_failure_any_more() {
    let answer = offer(&json!({"expiresAt": null}));
    let (engines, partner) = (Engines::new(), Partner::start(Does::Sends(answer)).await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let (status, body) = world.create("k", &asked("cart")).await;
    let code = "contract_violation.expires_at";
    assert_eq!((status, body["code"].as_str()), (502, Some(code)), "{body}");
    let order = format!("acme/SHOP/{}", body["orderId"].as_str().unwrap());
    let read =
        async || told(world.get(&format!("/v1/payments/{order}")).send().await.unwrap()).await.1;
    row(&engines, &order, 2).await;
    assert_eq!(read().await["failureCode"], code);

    append(&engines, &order, paid()).await;
    row(&engines, &order, 3).await;
    let (status, body) = world.create("k", &asked("cart")).await;
    assert_eq!((status, &body["state"]), (202, &json!("PAID")), "{body}");
    let payment = read().await;
    assert_eq!((&payment["state"], payment.get("failureCode")), (&json!("PAID"), None));
    assert_eq!((engines.facts().await.as_str(), partner.count()), ("C CF S", 1));
}
