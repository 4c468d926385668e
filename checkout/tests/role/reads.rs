//! Reading payments: one payment with entity tags and long polls, the attempts at a reference over
//! accounts and pages, and the list of accounts.

use std::time::Duration;

use payfold_schemas::fact::{Create, Fact};
use payfold_schemas::ids::{ProviderRef, Reference};
use payfold_schemas::ipn::{Ipn, IpnPolicy, MoneyContent, Status};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::Order;
use payfold_schemas::record::{FactRecord, encode_fact};
use payfold_testing::waits::{Stopwatch, eventually};
use serde_json::{Value, json};

use crate::manual_fold;
use crate::partner::Partner;
use crate::world::{
    Engines, NOW, OTHER_TOKEN, World, WorldOptions, key, payment_body, profile, read_answer,
    wait_until,
};

/// Appends a fact of an order, as another role does.
pub async fn append_fact(engines: &Engines, order: &str, fact: Fact) {
    let record = FactRecord {
        order: key(order),
        fact,
        request_id: "01939b1c-7a00-7000-8000-000000000001".parse().unwrap(),
        received_at: NOW,
        source: None,
    };
    let message = payfold_engines::log::Message {
        key: order.to_owned(),
        event: None,
        value: encode_fact(&record, b""),
        mac: None,
    };
    engines.log.append(payfold_engines::log::Topic::Intake, message).await.unwrap();
}

/// A notice that an order is paid.
pub fn paid_notice() -> Fact {
    Fact::Ipn(Ipn {
        provider_ref: ProviderRef::parse("GW-1").unwrap(),
        status: Status::Success,
        money: MoneyContent {
            amount: Amount::from_minor(1_500).unwrap(),
            currency: Currency::parse("EUR").unwrap(),
            paid_at: Some(NOW),
            event_ref: None,
        },
        timestamp: Some(NOW),
        nonce: None,
        policy: IpnPolicy::default(),
    })
}

pub fn create_fact(reference: &str, attempt: u32) -> Fact {
    Fact::CreateRequested(Create {
        amount: Amount::from_minor(1_500).unwrap(),
        currency: Currency::parse("EUR").unwrap(),
        reference: Reference::parse(reference).unwrap(),
        attempt,
        deadline: NOW.plus_ms(1_800_000),
    })
}

/// Waits for the row of an order in this version or a later one.
pub async fn wait_for_row(engines: &Engines, order: &str, version: u64) -> Order {
    eventually("the row is there", async || {
        match engines.store.load(vec![key(order)]).await.unwrap().pop().unwrap() {
            Some(row) if row.version >= version => Ok(row),
            earlier => Err(earlier.map(|row| row.version)),
        }
    })
    .await
}

#[actix_web::test]
async fn a_payment_is_read_with_its_tag() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let (_, created) = world.create("k", &payment_body("cart")).await;
    let path = created["links"]["self"].as_str().unwrap().to_owned();
    let order = path.trim_start_matches("/v1/payments/").to_owned();
    append_fact(&engines, &order, paid_notice()).await;
    wait_for_row(&engines, &order, 3).await;
    engines.clock.set(NOW.plus_ms(7_000));

    let response = world.get(&path).send().await.unwrap();
    assert_eq!(response.headers()["etag"], "\"1.3\"");
    let (status, body) = read_answer(response).await;
    let expected = json!({
        "partner": "acme", "merchantCode": "SHOP", "orderId": created["orderId"],
        "reference": "cart",
        "attempt": 1, "state": "PAID", "fulfil": true, "attention": [], "version": "1.3",
        "amount": 1_500,
        "currency": "EUR", "paidAmount": 1_500, "refundedAmount": 0, "paidAt": NOW.to_string(),
        "reported": [{
            "amount": 1_500, "currency": "EUR", "paidAt": NOW.to_string(), "paymentRef": "GW-1",
        }],
        "providerRef": "GW-1", "paymentRef": "GW-1",
        "redirectUrl": "https://pay.partner.example/s/1",
        "expiresAt": "2099-01-31T10:00:00Z", "deadline": "2099-01-31T10:00:01Z",
        "serverTime": NOW.plus_ms(7_000).to_string(), "links": created["links"],
    });
    assert_eq!((status, body), (200, expected));

    for (tags, status) in [
        ("\"1.3\"", 304),
        ("W/\"1.3\"", 304),
        ("\"1.2\", \"1.3\"", 304),
        ("*", 304),
        ("\"1.2\"", 200),
        ("1.3", 200),
        ("nonsense", 200),
    ] {
        let response = world.get(&path).header("If-None-Match", tags).send().await.unwrap();
        assert_eq!(response.status(), status, "{tags}");
        assert_eq!(response.headers()["etag"], "\"1.3\"", "{tags}");
    }
}

#[actix_web::test]
async fn a_payment_is_found_by_the_id_that_the_browser_returns_with() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let made = WorldOptions {
        partners: vec![("bolt", profile("bolt"), partner.url.clone())],
        ..WorldOptions::default()
    };
    let world = World::with_options(&engines, &partner.url, made).await;
    for order in ["acme/SHOP/ord-1", "bolt/SHOP/ord-2", "acme/OTHER/ord-3"] {
        commit_row(&engines, order, "cart", 1).await;
    }
    for (id, found) in
        [("ord-1", Some("acme/SHOP/ord-1")), ("ord-2", Some("bolt/SHOP/ord-2")), ("ord-3", None)]
    {
        let path = format!("/v1/payments?orderId={id}&limit=1");
        let (status, body) = read_answer(world.get(&path).send().await.unwrap()).await;
        let names: Vec<_> = body["payments"].as_array().unwrap().iter().map(name_of).collect();
        assert_eq!((status, body.get("next")), (200, None));
        assert_eq!(names, Vec::from_iter(found), "{id}");
    }
}

#[actix_web::test]
async fn payments_of_other_shops_are_not_found() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    append_fact(&engines, "acme/OTHER/theirs", create_fact("cart", 1)).await;
    wait_for_row(&engines, "acme/OTHER/theirs", 1).await;
    let mut answers = std::collections::HashSet::new();
    for path in [
        "acme/OTHER/theirs",
        "acme/SHOP/none",
        "acme/OTHER/none",
        "absent/SHOP/none",
        "ACME/SHOP/x",
        "acme/SHOP/a%2Fb",
        "acme/OTHER/theirs/events",
        "acme/SHOP/none/events",
    ] {
        let (status, mut body) =
            read_answer(world.get(&format!("/v1/payments/{path}")).send().await.unwrap()).await;
        body.as_object_mut().unwrap().remove("requestId");
        answers.insert(format!("{status} {body}"));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(answers.iter().next().unwrap().starts_with("404 "));
    let theirs = world.client.get(format!("{}/v1/payments/acme/OTHER/theirs", world.url));
    let (status, _) = read_answer(theirs.bearer_auth(OTHER_TOKEN).send().await.unwrap()).await;
    assert_eq!(status, 200);
}

#[actix_web::test]
async fn a_long_poll_ends_with_a_change_or_at_its_timeout() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, folding) = (World::new(&engines, &partner).await, engines.fold());
    let (_, created) = world.create("k", &payment_body("cart")).await;
    let path = created["links"]["self"].as_str().unwrap().to_owned();
    let order = path.trim_start_matches("/v1/payments/").to_owned();

    let watch = Stopwatch::start();
    let (status, body) =
        read_answer(world.get(&format!("{path}?wait=30&version=1.1")).send().await.unwrap()).await;
    assert_eq!((status, &body["version"]), (200, &json!("1.2")), "older: answered at once");
    watch.assert_within(Duration::from_secs(25), "an answer before the end of its wait");

    // At the end of the wait: 200 for a request with a version, 304 for one with a tag.
    let (status, body) =
        read_answer(world.get(&format!("{path}?wait=1&version=1.2")).send().await.unwrap()).await;
    assert_eq!((status, &body["version"]), (200, &json!("1.2")));
    let tagged = world.get(&format!("{path}?wait=1")).header("If-None-Match", "\"1.2\"");
    assert_eq!(tagged.send().await.unwrap().status(), 304);

    let polling = actix_web::rt::spawn(world.get(&format!("{path}?wait=30&version=1.2")).send());
    append_fact(&engines, &order, paid_notice()).await;
    let (status, body) = read_answer(polling.await.unwrap().unwrap()).await;
    assert_eq!((status, &body["state"]), (200, &json!("PAID")));

    // A long poll waits also for a payment that is not folded yet.
    drop(folding);
    let unfolded = actix_web::rt::spawn(world.get("/v1/payments/acme/SHOP/later?wait=30").send());
    append_fact(&engines, "acme/SHOP/later", create_fact("later", 1)).await;
    let _folding = engines.fold();
    assert_eq!(read_answer(unfolded.await.unwrap().unwrap()).await.0, 200);
}

#[actix_web::test]
async fn a_drain_ends_long_polls() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let (_, created) = world.create("k", &payment_body("cart")).await;
    let path = created["links"]["self"].as_str().unwrap();
    let polling = actix_web::rt::spawn(world.get(&format!("{path}?wait=60&version=1.2")).send());
    let topic = actix_web::rt::spawn(world.get("/v1/topics/findings?wait=60").send());
    wait_until("both requests wait", async || world.checkout.open_work_count() >= 2).await;
    world.checkout.drain();
    let (status, body) = read_answer(polling.await.unwrap().unwrap()).await;
    assert_eq!((status, &body["version"]), (200, &json!("1.2")));
    assert_eq!(topic.await.unwrap().unwrap().status(), 200);
}

#[actix_web::test]
async fn bad_parameters_are_refused() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    for query in [
        "/v1/payments",
        "/v1/payments?reference=a&orderId=b",
        "/v1/payments?orderId=%20",
        "/v1/payments?reference=",
        "/v1/payments?reference=caf%C3%A9",
        "/v1/payments?reference=a&limit=0",
        "/v1/payments?reference=a&limit=501",
        "/v1/payments?reference=a&limit=many",
        "/v1/payments?reference=a&after=x",
        "/v1/payments?reference=a&reference=b",
        "/v1/payments?reference=a&colour=red",
        "/v1/payments/acme/SHOP/x?wait=-1",
        "/v1/payments/acme/SHOP/x?wait=soon",
        "/v1/payments/acme/SHOP/x?version=3",
        "/v1/topics/orders?limit=1001",
        "/v1/topics/orders?until=1",
    ] {
        let (status, body) = read_answer(world.get(query).send().await.unwrap()).await;
        assert_eq!((status, body["code"].as_str()), (400, Some("bad_parameter")), "{query}");
    }
}

/// The attempts of several accounts are one list, ordered by order id. No page repeats or misses
/// one.
#[actix_web::test]
async fn attempts_are_listed_over_accounts_and_pages() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let made = WorldOptions {
        partners: vec![("bolt", profile("bolt"), partner.url.clone())],
        ..WorldOptions::default()
    };
    let world = World::with_options(&engines, &partner.url, made).await;
    let mut expected = Vec::new();
    for n in 0..23_u32 {
        let account = if n % 3 == 0 { "bolt/SHOP" } else { "acme/SHOP" };
        let order = format!("{account}/ord-{n:03}");
        commit_row(&engines, &order, "cart", n + 1).await;
        expected.push(order);
    }
    commit_row(&engines, "acme/OTHER/ord-001", "cart", 1).await;
    commit_row(&engines, "acme/SHOP/ord-002x", "another cart", 1).await;
    for limit in [1, 4, 22, 23, 100] {
        let (mut seen, mut next) = (Vec::new(), None::<String>);
        loop {
            let after = next.as_ref().map_or(String::new(), |after| format!("&after={after}"));
            let path = format!("/v1/payments?reference=cart&limit={limit}{after}");
            let (status, body) = read_answer(world.get(&path).send().await.unwrap()).await;
            assert_eq!(status, 200, "{body}");
            let page = body["payments"].as_array().unwrap();
            assert!(page.len() <= limit, "{limit}");
            seen.extend(page.iter().map(name_of));
            assert!(seen.len() <= expected.len(), "{seen:?}");
            next = body["next"].as_str().map(str::to_owned);
            if next.is_none() {
                break;
            }
        }
        assert_eq!(seen, expected, "limit {limit}");
    }
    let (_, none) =
        read_answer(world.get("/v1/payments?reference=none").send().await.unwrap()).await;
    assert_eq!(none, json!({"payments": []}));
}

fn name_of(payment: &Value) -> String {
    let part = |name: &str| payment[name].as_str().unwrap();
    format!("{}/{}/{}", part("partner"), part("merchantCode"), part("orderId"))
}

/// Commits an order's row without a fold.
pub async fn commit_row(engines: &Engines, order: &str, reference: &str, attempt: u32) {
    let mut made = manual_fold::requested_order(&key(order));
    made.summary.reference = Some(Reference::parse(reference).unwrap());
    made.summary.attempt = Some(attempt);
    manual_fold::commit_order(&*engines.store, &made).await;
}

#[actix_web::test]
async fn a_shop_lists_its_accounts_and_their_abilities() {
    use payfold_partners::profile::{DEFAULT_PROFILE, Profile};
    use payfold_schemas::ids::PartnerCode;
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let plain = Profile::parse(&PartnerCode::parse("plain").unwrap(), DEFAULT_PROFILE).unwrap();
    let made =
        WorldOptions { partners: vec![("plain", plain, String::new())], ..WorldOptions::default() };
    let world = World::with_options(&engines, &partner.url, made).await;
    let (status, body) = read_answer(world.get("/v1/partners").send().await.unwrap()).await;
    let expected = json!({"accounts": [
        {"partner": "acme", "merchantCode": "SHOP", "canCreate": true, "needsPayerIp": false,
            "presentations": ["page", "qr"]},
        {"partner": "plain", "merchantCode": "SHOP", "canCreate": false, "needsPayerIp": false,
            "presentations": []},
    ]});
    assert_eq!((status, body), (200, expected));
}
