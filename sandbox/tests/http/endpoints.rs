//! Refusals of create calls, the query endpoint, the records file, and the introspection endpoints,
//! over HTTP.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::mac::MacKey;
use payfold_partners::remote::CreateOutcome;
use payfold_schemas::time::Time;
use serde_json::{Value, json};

use crate::world::{KEY, MERCHANT, OTHER_KEY, TestCall, TestWorld, provider_ref};

async fn post_create(world: &TestWorld, body: &Value) -> (u16, Value) {
    let request = world.browser.post(format!("{}/payments", world.url)).body(body.to_string());
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap())
}

fn signed(world: &TestWorld, call: &TestCall) -> Value {
    let (account, request) = (&world.directory.accounts()[0], world.request(call));
    let draft = account.draft_create(&world.url, &request, SystemClock.now()).unwrap();
    serde_json::from_str(&draft.create.body).unwrap()
}

#[actix_web::test]
async fn a_refusal_is_a_problem_document_with_the_wrong_field() {
    let world = TestWorld::start();
    let good = signed(&world, &TestCall::new("o", "x"));
    let mut altered = good.clone();
    altered["amount"] = json!(1);
    let (status, problem) = post_create(&world, &altered).await;
    assert_eq!((status, problem["code"].as_str()), (401, Some("unauthenticated")));
    assert!(problem["detail"].as_str().unwrap().contains("merchantCode|orderId|amount"));
    assert!(!problem.to_string().contains(good["signature"].as_str().unwrap()));
    let (status, problem) = post_create(&world, &json!({})).await;
    assert_eq!((status, problem["detail"].as_str()), (400, Some("merchantCode: is required")));
    let unknown = signed(&world, &TestCall::new("u", "x #chaos"));
    let (status, problem) = post_create(&world, &unknown).await;
    assert_eq!((status, problem["code"].as_str()), (400, Some("unknown_trouble")));
    assert!(problem["detail"].as_str().unwrap().contains("create-past-expiry"), "{problem}");
    let large = world.browser.post(format!("{}/payments", world.url)).body("x".repeat(70_000));
    assert_eq!(large.send().await.unwrap().status(), 413);
    assert_eq!(world.get("/nothing").await.status(), 404);
}

#[actix_web::test]
async fn a_second_call_for_an_order_is_counted_and_refused() {
    let world = TestWorld::start();
    let good = signed(&world, &TestCall::new("twice", "x"));
    assert_eq!(post_create(&world, &good).await.0, 200);
    let (status, problem) = post_create(&world, &good).await;
    assert_eq!((status, problem["code"].as_str()), (409, Some("duplicate_order")));
    world.call(&TestCall::new("once", "x")).await;
    let mut forged = signed(&world, &TestCall::new("forged", "x"));
    forged["signature"] = json!("0".repeat(64));
    assert_eq!(post_create(&world, &forged).await.0, 401);
    assert_eq!(world.json("/sandbox/creates").await, json!({"once": 1, "twice": 2}));
    assert_eq!(world.json("/sandbox/creates?min=2").await, json!({"twice": 2}));
    assert_eq!(world.json("/sandbox/creates?min=x").await["code"], "invalid_query");
    assert_eq!(world.json("/sandbox/deliveries?orderId=none").await["status"], 404);
}

/// Path and query of a signed status query; `order` is for a query without a providerRef.
fn signed_query(merchant: &str, provider_ref: &str, order: &str, at: Time) -> String {
    let key: &[u8] = if merchant == MERCHANT { KEY } else { OTHER_KEY };
    let text = format!("{merchant}|{provider_ref}|{order}|{at}");
    let signature = hex::encode(MacKey::new(key).sign(text.as_bytes()));
    let path = if provider_ref.is_empty() { String::new() } else { format!("/{provider_ref}") };
    let order = if order.is_empty() { String::new() } else { format!("&orderId={order}") };
    format!("/payments{path}?merchantCode={merchant}&timestamp={at}{order}&signature={signature}")
}

#[actix_web::test]
async fn a_query_returns_the_recorded_outcome() {
    let world = TestWorld::start();
    let now = SystemClock.now();
    let never = provider_ref(&world.call_and_drain("n", "x #never").await);
    let body = world.json(&signed_query(MERCHANT, &never, "", now)).await;
    assert_eq!(
        (body["status"].as_str(), body["amount"].as_i64()),
        (Some("SUCCESS"), Some(150_000))
    );
    assert_eq!(
        (body["providerRef"].as_str(), body["orderId"].as_str()),
        (Some(never.as_str()), Some("n"))
    );
    assert_eq!(world.json(&signed_query(MERCHANT, "", "n", now)).await, body);

    let second = provider_ref(&world.call_and_drain("s", "x #second-ref").await);
    let body = world.json(&signed_query(MERCHANT, &format!("{second}-2"), "", now)).await;
    assert_eq!(body["providerRef"], format!("{second}-2"));
    assert_eq!(body["status"], "SUCCESS");
    let refunded = provider_ref(&world.call_and_drain("r", "x #refund-part").await);
    let body = world.json(&signed_query(MERCHANT, &refunded, "", now)).await;
    assert_eq!(
        (body["status"].as_str(), body["amount"].as_i64()),
        (Some("REFUNDED"), Some(75_000))
    );

    let open = provider_ref(&world.call(&TestCall::new("o", "x")).await);
    let body = world.json(&signed_query(MERCHANT, &open, "", now)).await;
    assert_eq!((body["status"].as_str(), body.get("paidAt")), (Some("PENDING"), None));
    assert!(matches!(world.call_and_drain("u", "x #create-500").await, CreateOutcome::Unknown(_)));
    assert_eq!(world.json(&signed_query(MERCHANT, "", "u", now)).await["status"], "SUCCESS");
}

#[actix_web::test]
async fn a_query_is_answered_only_to_its_account() {
    let world = TestWorld::start();
    let now = SystemClock.now();
    let page = provider_ref(&world.call_and_drain("n", "x #pay").await);
    let good = signed_query(MERCHANT, &page, "", now);
    assert_eq!(world.get(&good).await.status(), 200);
    for (path, status) in [
        (signed_query("OTHER", &page, "", now), 404),
        (signed_query("OTHER", "", "n", now), 404),
        (signed_query(MERCHANT, "sbx-none", "", now), 404),
        (signed_query(MERCHANT, &format!("{page}-2"), "", now), 404),
        (signed_query("ABSENT", &page, "", now), 401),
        (signed_query(MERCHANT, &page, "", now.plus_ms(-301_000)), 401),
        (signed_query(MERCHANT, &page, "", now.plus_ms(400_000)), 401),
        (good.replace(&page, "sbx-other"), 401),
        (good.replace("merchantCode=DEMO", "merchantCode=OTHER"), 401),
        (good.replace("signature=", "signature=0"), 401),
        (format!("{good}&orderId=n"), 401),
        (format!("/payments/{page}"), 400),
    ] {
        assert_eq!(world.get(&path).await.status(), status, "{path}");
    }
}

#[actix_web::test]
async fn the_records_have_every_call_and_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.jsonl");
    let world = TestWorld::with(|settings| settings.records = Some(path.clone()));
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // An open payment has only its call. The line exists before the create response.
    world.call(&TestCall::new("o", "x")).await;
    assert_eq!(lines().len(), 1);
    world.call_and_drain("w", "x #refund-only").await;
    world.call_and_drain("b", "x #create-both").await;
    assert_eq!(post_create(&world, &signed(&world, &TestCall::new("o", "x"))).await.0, 409);
    world.drain().await;
    let short: Vec<_> = lines()
        .iter()
        .map(|line| match line["record"].as_str() {
            Some("create") => format!("create {} {}", line["orderId"], line["call"]),
            _ => format!("{} {} {}", line["orderId"], line["status"], line["amount"]),
        })
        .collect();
    let expected = [
        "create \"o\" 1",
        "create \"w\" 1",
        "\"w\" \"SUCCESS\" 150000",
        "\"w\" \"REFUNDED\" 150000",
        "create \"b\" 1",
        "create \"o\" 2",
    ];
    assert_eq!(short, expected);
    let paid = &lines()[2];
    for column in ["at", "merchantCode", "orderId", "providerRef", "currency", "paidAt"] {
        assert!(paid[column].is_string(), "{column}");
    }
}

#[actix_web::test]
async fn the_keywords_are_listed_with_their_expected_results() {
    let world = TestWorld::start();
    let words = world.json("/sandbox/troubles").await;
    assert_eq!(words.as_array().unwrap().len(), payfold_sandbox::trouble::Trouble::ALL.len());
    let word = |name| words.as_array().unwrap().iter().find(|word| word["word"] == name).unwrap();
    assert_eq!(
        word("second-ref")["flags"][0],
        json!({"flag": "DOUBLE_PAYMENT", "severity": "critical"})
    );
    assert_eq!(word("create-both")["create"]["code"], "contract_violation.two_presentations");
    let guide = world.get("/").await.text().await.unwrap();
    assert!(guide.contains("#second-ref") && guide.contains("DOUBLE_PAYMENT"));
}

#[actix_web::test]
async fn the_oldest_payments_are_removed_above_the_limit() {
    let world = TestWorld::with(|settings| settings.payments_max = 3);
    let first = provider_ref(&world.call(&TestCall::new("o1", "x")).await);
    for order in ["o2", "o3", "o4"] {
        world.call(&TestCall::new(order, "x")).await;
    }
    assert_eq!(world.get(&format!("/pay/{first}")).await.status(), 404);
    assert_eq!(world.json("/sandbox/creates").await, json!({"o2": 1, "o3": 1, "o4": 1}));
}

#[actix_web::test]
async fn an_unknown_outcome_has_the_planned_reason() {
    let world = TestWorld::start();
    let raw = async |order: &str, words: &str| {
        let body = signed(&world, &TestCall::new(order, words)).to_string();
        let request = world.browser.post(format!("{}/payments", world.url)).body(body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.bytes().await)
    };
    let (status, huge) = raw("huge", "x #create-huge").await;
    let huge = huge.unwrap();
    assert_eq!(status, 200);
    assert!(huge.len() > 5 * 1_024 * 1_024, "{}", huge.len());
    let huge: Value = serde_json::from_slice(&huge).unwrap();
    assert!(huge["providerRef"].is_string() && huge["expiresAt"].is_string(), "a good answer");
    let (status, cut) = raw("cut", "x #create-cut").await;
    assert!(status == 200 && cut.is_err(), "it never comes to its end");
    for (word, reason) in [("create-slow", "no whole answer"), ("create-huge", "over 65536 bytes")]
    {
        let created = world.call(&TestCall::new(word, &format!("x #{word}"))).await;
        let CreateOutcome::Unknown(body) = created else { panic!("{word}: {created:?}") };
        assert!(body.contains(reason), "{word}: {body}");
    }
}
