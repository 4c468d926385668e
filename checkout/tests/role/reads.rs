//! Reading payments: by name with tags and long polls, by reference over accounts and pages, and the accounts.

use std::time::{Duration, Instant};

use payfold_schemas::fact::{Create, Fact};
use payfold_schemas::ids::Reference;
use payfold_schemas::ipn::{Ipn, IpnPolicy, MoneyContent, Status};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::Order;
use payfold_schemas::record::{FactRecord, encode_fact};
use serde_json::{Value, json};

use crate::by_hand;
use crate::partner::Partner;
use crate::world::{Engines, Made, NOW, OTHER_TOKEN, World, asked, key, profile, told};

/// Appends a fact of an order, as another role would.
pub async fn append(engines: &Engines, order: &str, fact: Fact) {
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
    };
    engines.log.append(payfold_engines::log::Topic::Intake, message).await.unwrap();
}

/// A notice that an order is paid.
pub fn paid() -> Fact {
    Fact::Ipn(Ipn {
        provider_ref: payfold_schemas::ids::ProviderRef::parse("GW-1").unwrap(),
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

pub fn create(reference: &str, attempt: u32) -> Fact {
    Fact::CreateRequested(Create {
        amount: Amount::from_minor(1_500).unwrap(),
        currency: Currency::parse("EUR").unwrap(),
        reference: Reference::parse(reference).unwrap(),
        attempt,
        deadline: NOW.plus_ms(1_800_000),
    })
}

/// The row of an order, once it is there in this version.
pub async fn row(engines: &Engines, order: &str, version: u64) -> Order {
    loop {
        let row = engines.store.load(vec![key(order)]).await.unwrap().pop().unwrap();
        if let Some(row) = row.filter(|row| row.version >= version) {
            return row;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[actix_web::test]
async fn a_payment_is_read_with_its_tag() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let (_, created) = world.create("k", &asked("cart")).await;
    let path = created["links"]["self"].as_str().unwrap().to_owned();
    let order = path.trim_start_matches("/v1/payments/").to_owned();
    append(&engines, &order, paid()).await;
    row(&engines, &order, 3).await;
    engines.clock.set(NOW.plus_ms(7_000));

    let response = world.get(&path).send().await.unwrap();
    assert_eq!(response.headers()["etag"], "\"1.3\"");
    let (status, body) = told(response).await;
    let expected = json!({
        "partner": "acme", "merchantCode": "SHOP", "orderId": created["orderId"], "reference": "cart",
        "attempt": 1, "state": "PAID", "fulfil": true, "attention": [], "version": "1.3", "amount": 1_500,
        "currency": "EUR", "paidAmount": 1_500, "refundedAmount": 0, "paidAt": NOW.to_string(),
        "providerRef": "GW-1", "paymentRef": "GW-1", "redirectUrl": "https://pay.partner.example/s/1",
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
async fn what_is_not_the_shops_is_not_there() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    append(&engines, "acme/OTHER/theirs", create("cart", 1)).await;
    row(&engines, "acme/OTHER/theirs", 1).await;
    let mut answers = std::collections::HashSet::new();
    for path in [
        "acme/OTHER/theirs",
        "acme/SHOP/none",
        "acme/OTHER/none",
        "nobody/SHOP/none",
        "ACME/SHOP/x",
        "acme/SHOP/a%2Fb",
        "acme/OTHER/theirs/events",
        "acme/SHOP/none/events",
    ] {
        let (status, mut body) =
            told(world.get(&format!("/v1/payments/{path}")).send().await.unwrap()).await;
        body.as_object_mut().unwrap().remove("requestId");
        answers.insert(format!("{status} {body}"));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(answers.iter().next().unwrap().starts_with("404 "));
    let theirs = world.client.get(format!("{}/v1/payments/acme/OTHER/theirs", world.url));
    let (status, _) = told(theirs.bearer_auth(OTHER_TOKEN).send().await.unwrap()).await;
    assert_eq!(status, 200);
}

#[actix_web::test]
async fn a_long_poll_ends_with_the_change_or_its_time() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, folding) = (World::new(&engines, &partner).await, engines.fold());
    let (_, created) = world.create("k", &asked("cart")).await;
    let path = created["links"]["self"].as_str().unwrap().to_owned();
    let order = path.trim_start_matches("/v1/payments/").to_owned();

    let started = Instant::now();
    let (status, body) =
        told(world.get(&format!("{path}?wait=30&version=1.1")).send().await.unwrap()).await;
    assert_eq!((status, &body["version"]), (200, &json!("1.2")), "older: answered at once");
    assert!(started.elapsed() < Duration::from_secs(25), "[time] not at the end of its wait");

    // At the end of the wait: 200 for who only gave a version, 304 for who gave a tag.
    let (status, body) =
        told(world.get(&format!("{path}?wait=1&version=1.2")).send().await.unwrap()).await;
    assert_eq!((status, &body["version"]), (200, &json!("1.2")));
    let tagged = world.get(&format!("{path}?wait=1")).header("If-None-Match", "\"1.2\"");
    assert_eq!(tagged.send().await.unwrap().status(), 304);

    let polling = actix_web::rt::spawn(world.get(&format!("{path}?wait=30&version=1.2")).send());
    append(&engines, &order, paid()).await;
    let (status, body) = told(polling.await.unwrap().unwrap()).await;
    assert_eq!((status, &body["state"]), (200, &json!("PAID")));

    // A payment that is not folded yet is waited for too.
    drop(folding);
    let unfolded = actix_web::rt::spawn(world.get("/v1/payments/acme/SHOP/later?wait=30").send());
    append(&engines, "acme/SHOP/later", create("later", 1)).await;
    let _folding = engines.fold();
    assert_eq!(told(unfolded.await.unwrap().unwrap()).await.0, 200);
}

#[actix_web::test]
async fn a_drain_ends_long_polls() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let (_, created) = world.create("k", &asked("cart")).await;
    let path = created["links"]["self"].as_str().unwrap();
    let polling = actix_web::rt::spawn(world.get(&format!("{path}?wait=60&version=1.2")).send());
    let topic = actix_web::rt::spawn(world.get("/v1/topics/findings?wait=60").send());
    while world.checkout.in_flight() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    world.checkout.drain();
    let (status, body) = told(polling.await.unwrap().unwrap()).await;
    assert_eq!((status, &body["version"]), (200, &json!("1.2")));
    assert_eq!(topic.await.unwrap().unwrap().status(), 200);
}

#[actix_web::test]
async fn parameters_that_can_t_be_used_are_named() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    for query in [
        "/v1/payments",
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
        let (status, body) = told(world.get(query).send().await.unwrap()).await;
        assert_eq!((status, body["code"].as_str()), (400, Some("bad_parameter")), "{query}");
    }
}

/// Attempts of several accounts are one listing, in the order of their ids, and pages neither repeat nor leave out.
#[actix_web::test]
async fn attempts_are_listed_over_accounts_and_pages() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let made =
        Made { partners: vec![("bolt", profile("bolt"), partner.url.clone())], ..Made::default() };
    let world = World::made(&engines, &partner.url, made).await;
    let mut expected = Vec::new();
    for n in 0..23_u32 {
        let account = if n % 3 == 0 { "bolt/SHOP" } else { "acme/SHOP" };
        let order = format!("{account}/ord-{n:03}");
        by_hand_row(&engines, &order, "cart", n + 1).await;
        expected.push(order);
    }
    by_hand_row(&engines, "acme/OTHER/ord-001", "cart", 1).await;
    by_hand_row(&engines, "acme/SHOP/ord-002x", "another cart", 1).await;
    for limit in [1, 4, 22, 23, 100] {
        let (mut seen, mut next) = (Vec::new(), None::<String>);
        loop {
            let after = next.as_ref().map_or(String::new(), |after| format!("&after={after}"));
            let path = format!("/v1/payments?reference=cart&limit={limit}{after}");
            let (status, body) = told(world.get(&path).send().await.unwrap()).await;
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
    let (_, none) = told(world.get("/v1/payments?reference=none").send().await.unwrap()).await;
    assert_eq!(none, json!({"payments": []}));
}

fn name_of(payment: &Value) -> String {
    let part = |name: &str| payment[name].as_str().unwrap();
    format!("{}/{}/{}", part("partner"), part("merchantCode"), part("orderId"))
}

/// Puts an order's row without a fold.
pub async fn by_hand_row(engines: &Engines, order: &str, reference: &str, attempt: u32) {
    let mut made = by_hand::requested(&key(order));
    made.summary.reference = Some(Reference::parse(reference).unwrap());
    made.summary.attempt = Some(attempt);
    by_hand::commit(&*engines.store, &made).await;
}

#[actix_web::test]
async fn a_shop_sees_its_accounts_and_what_they_can_do() {
    use payfold_partners::profile::{DEFAULT_PROFILE, Profile};
    use payfold_schemas::ids::PartnerCode;
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let plain = Profile::parse(&PartnerCode::parse("plain").unwrap(), DEFAULT_PROFILE).unwrap();
    let made = Made { partners: vec![("plain", plain, String::new())], ..Made::default() };
    let world = World::made(&engines, &partner.url, made).await;
    let (status, body) = told(world.get("/v1/partners").send().await.unwrap()).await;
    let expected = json!({"accounts": [
        {"partner": "acme", "merchantCode": "SHOP", "canCreate": true, "needsPayerIp": false, "presentations": ["page", "qr"]},
        {"partner": "plain", "merchantCode": "SHOP", "canCreate": false, "needsPayerIp": false, "presentations": []},
    ]});
    assert_eq!((status, body), (200, expected));
}
