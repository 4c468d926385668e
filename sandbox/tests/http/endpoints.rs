//! The create call's refusals over the wire, the query endpoint, the records, and what the sandbox tells of itself.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::mac::MacKey;
use payfold_partners::remote::Created;
use payfold_schemas::time::Time;
use serde_json::{Value, json};

use crate::world::{KEY, MERCHANT, Wanted, World, provider_ref};

async fn posted(world: &World, body: &Value) -> (u16, Value) {
    let request = world.browser.post(format!("{}/payments", world.url)).body(body.to_string());
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap())
}

fn signed(world: &World, wanted: &Wanted) -> Value {
    let profile = payfold_partners::profile::Profile::sandbox_for(
        &payfold_schemas::ids::PartnerCode::parse("sandbox").unwrap(),
    );
    let rule = profile.create().unwrap();
    let body = world.request(wanted).body(&profile, rule, &MacKey::new(KEY)).unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[actix_web::test]
async fn a_refusal_is_a_problem_document_that_names_what_is_wrong() {
    let world = World::start();
    let good = signed(&world, &Wanted::new("o", "x"));
    let mut altered = good.clone();
    altered["amount"] = json!(1);
    let (status, problem) = posted(&world, &altered).await;
    assert_eq!((status, problem["code"].as_str()), (401, Some("unauthenticated")));
    assert!(problem["detail"].as_str().unwrap().contains("merchantCode|orderId|amount"));
    assert!(!problem.to_string().contains(good["signature"].as_str().unwrap()));
    let (status, problem) = posted(&world, &json!({})).await;
    assert_eq!((status, problem["detail"].as_str()), (400, Some("merchantCode: is required")));
    let unknown = signed(&world, &Wanted::new("u", "x #chaos"));
    let (status, problem) = posted(&world, &unknown).await;
    assert_eq!((status, problem["code"].as_str()), (400, Some("unknown_trouble")));
    assert!(problem["detail"].as_str().unwrap().contains("create-past-expiry"), "{problem}");
    let large = world.browser.post(format!("{}/payments", world.url)).body("x".repeat(70_000));
    assert_eq!(large.send().await.unwrap().status(), 413);
    assert_eq!(world.get("/nothing").await.status(), 404);
}

#[actix_web::test]
async fn a_second_call_for_an_order_is_counted_and_refused() {
    let world = World::start();
    let good = signed(&world, &Wanted::new("twice", "x"));
    assert_eq!(posted(&world, &good).await.0, 200);
    let (status, problem) = posted(&world, &good).await;
    assert_eq!((status, problem["code"].as_str()), (409, Some("duplicate_order")));
    world.call(&Wanted::new("once", "x")).await;
    let mut forged = signed(&world, &Wanted::new("forged", "x"));
    forged["signature"] = json!("0".repeat(64));
    assert_eq!(posted(&world, &forged).await.0, 401);
    assert_eq!(world.json("/sandbox/creates").await, json!({"once": 1, "twice": 2}));
    assert_eq!(world.json("/sandbox/creates?min=2").await, json!({"twice": 2}));
    assert_eq!(world.json("/sandbox/creates?min=x").await["code"], "invalid_query");
    assert_eq!(world.json("/sandbox/deliveries?orderId=none").await["status"], 404);
}

/// Path and query of a signed question; `order` where no ref is named.
fn question(merchant: &str, provider_ref: &str, order: &str, at: Time) -> String {
    let key: &[u8] = if merchant == MERCHANT { KEY } else { b"another test key" };
    let text = format!("{merchant}|{provider_ref}|{order}|{at}");
    let signature = hex::encode(MacKey::new(key).sign(text.as_bytes()));
    let path = if provider_ref.is_empty() { String::new() } else { format!("/{provider_ref}") };
    let order = if order.is_empty() { String::new() } else { format!("&orderId={order}") };
    format!("/payments{path}?merchantCode={merchant}&timestamp={at}{order}&signature={signature}")
}

#[actix_web::test]
async fn a_query_tells_what_the_books_say() {
    let world = World::start();
    let now = SystemClock.now();
    let never = provider_ref(&world.play("n", "x #never").await);
    let told = world.json(&question(MERCHANT, &never, "", now)).await;
    assert_eq!(
        (told["status"].as_str(), told["amount"].as_i64()),
        (Some("SUCCESS"), Some(150_000))
    );
    assert_eq!(
        (told["providerRef"].as_str(), told["orderId"].as_str()),
        (Some(never.as_str()), Some("n"))
    );
    assert!(told["paidAt"].is_string());
    assert_eq!(world.json(&question(MERCHANT, "", "n", now)).await, told);

    let second = provider_ref(&world.play("s", "x #second-ref").await);
    let told = world.json(&question(MERCHANT, &format!("{second}-2"), "", now)).await;
    assert_eq!(told["providerRef"], format!("{second}-2"));
    assert_eq!(told["status"], "SUCCESS");
    let refunded = provider_ref(&world.play("r", "x #refund-part").await);
    let told = world.json(&question(MERCHANT, &refunded, "", now)).await;
    assert_eq!(
        (told["status"].as_str(), told["amount"].as_i64()),
        (Some("REFUNDED"), Some(75_000))
    );

    let open = provider_ref(&world.call(&Wanted::new("o", "x")).await);
    let told = world.json(&question(MERCHANT, &open, "", now)).await;
    assert_eq!((told["status"].as_str(), told.get("paidAt")), (Some("PENDING"), None));
    assert!(matches!(world.play("u", "x #create-500").await, Created::Unknown(_)));
    assert_eq!(world.json(&question(MERCHANT, "", "u", now)).await["status"], "SUCCESS");
}

#[actix_web::test]
async fn a_query_is_answered_to_its_account_alone() {
    let world = World::start();
    let now = SystemClock.now();
    let page = provider_ref(&world.play("n", "x #pay").await);
    let good = question(MERCHANT, &page, "", now);
    assert_eq!(world.get(&good).await.status(), 200);
    for (path, status) in [
        (question("OTHER", &page, "", now), 404),
        (question("OTHER", "", "n", now), 404),
        (question(MERCHANT, "sbx-none", "", now), 404),
        (question(MERCHANT, &format!("{page}-2"), "", now), 404),
        (question("NOBODY", &page, "", now), 401),
        (question(MERCHANT, &page, "", now.plus_ms(-301_000)), 401),
        (question(MERCHANT, &page, "", now.plus_ms(400_000)), 401),
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
async fn the_records_hold_every_call_and_what_became_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.jsonl");
    let world = World::with(|settings| settings.records = Some(path.clone()));
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // An open payment has only its call; it is there as soon as the call is answered.
    world.call(&Wanted::new("o", "x")).await;
    assert_eq!(lines().len(), 1);
    world.play("w", "x #refund-only").await;
    world.play("b", "x #create-both").await;
    assert_eq!(posted(&world, &signed(&world, &Wanted::new("o", "x"))).await.0, 409);
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
async fn the_words_are_listed_with_what_they_come_to() {
    let world = World::start();
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
async fn the_oldest_are_forgotten_when_there_are_too_many() {
    let world = World::with(|settings| settings.payments_max = 3);
    let first = provider_ref(&world.call(&Wanted::new("o1", "x")).await);
    for order in ["o2", "o3", "o4"] {
        world.call(&Wanted::new(order, "x")).await;
    }
    assert_eq!(world.get(&format!("/pay/{first}")).await.status(), 404);
    assert_eq!(world.json("/sandbox/creates").await, json!({"o2": 1, "o3": 1, "o4": 1}));
}

#[actix_web::test]
async fn an_answer_that_leaves_the_caller_not_knowing_does_so_for_its_reason() {
    let world = World::start();
    let raw = async |order: &str, words: &str| {
        let body = signed(&world, &Wanted::new(order, words)).to_string();
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
        let created = world.call(&Wanted::new(word, &format!("x #{word}"))).await;
        let Created::Unknown(told) = created else { panic!("{word}: {created:?}") };
        assert!(told.contains(reason), "{word}: {told}");
    }
}
