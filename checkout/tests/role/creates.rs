//! Creating a payment: what the partner is asked, what its answers lead to, and what is refused before it is asked.

use std::collections::HashSet;
use std::time::Duration;

use payfold_schemas::fact::Fact;
use serde_json::{Value, json};

use crate::lines::Lines;
use crate::partner::{Does, Partner, http, offer};
use crate::world::{Engines, Made, NOW, OTHER_TOKEN, World, asked, asked_with, claim_key, told};

#[actix_web::test]
async fn a_payment_is_created_with_all_its_shop_needs() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let members = json!({
        "description": "Two\ttickets|now", "returnTo": "app", "presentation": "page",
        "expiresAt": "2026-01-31T10:10:00Z", "metadata": {"cart": "7"},
    });
    let response = world.post("k1", &asked_with(&members)).send().await.unwrap();
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    assert_eq!(response.headers()["cache-control"], "no-store");
    let (status, body) = told(response).await;
    assert_eq!(status, 201, "{body}");
    let order_id = body["orderId"].as_str().unwrap().to_owned();
    assert!(order_id.starts_with("ord-") && order_id.len() == 40, "{order_id}");
    assert_eq!(location, format!("/v1/payments/acme/SHOP/{order_id}"));
    let expected = json!({
        "orderId": order_id, "partner": "acme", "merchantCode": "SHOP", "reference": "cart", "attempt": 1,
        "state": "PENDING", "version": "1.2", "description": "Two tickets now", "providerRef": "GW-1",
        "redirectUrl": "https://pay.partner.example/s/1", "expiresAt": "2099-01-31T10:00:00Z",
        "serverTime": NOW.to_string(),
        "links": {"self": location, "events": format!("{location}/events")},
    });
    assert_eq!(body, expected);

    let mut sent = partner.asked().pop().unwrap();
    let signature = sent.as_object_mut().unwrap().remove("signature").unwrap();
    assert_eq!(signature.as_str().unwrap().len(), 64);
    let expected = json!({
        "merchantCode": "SHOP", "orderId": order_id, "amount": 1_500, "currency": "EUR",
        "description": "Two tickets now", "returnUrl": "https://shop.example/api/payment/result/app",
        "ipnUrl": "https://shop.example/api/payment/ipn", "expiresAt": "2026-01-31T10:10:00Z",
        "presentation": "page",
    });
    assert_eq!(sent, expected);
    assert_eq!(engines.facts().await, "C O");
    assert_eq!(create_deadline(&engines).await, "2026-01-31T10:10:01Z", "the shop's, and grace");
    assert_eq!(world.counted("payfold_checkout_creates_total", &["acme", "opened"]), 1.0);

    let (status, body) = told(world.get(&location).send().await.unwrap()).await;
    assert_eq!((status, &body["deadline"]), (200, &json!("2099-01-31T10:00:01Z")), "grace is 1 s");
}

/// The deadline of the first C.
async fn create_deadline(engines: &Engines) -> String {
    match &engines.records().await[0].fact {
        Fact::CreateRequested(create) => create.deadline.to_string(),
        other => panic!("{other:?}"),
    }
}

#[actix_web::test]
async fn attempts_at_one_reference_are_counted_and_a_qr_code_is_handed_on() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    partner.does(Does::Sends(offer(&json!({"redirectUrl": null, "qrPayload": "0002"}))));
    let (_, first) = world.create("k1", &asked("cart")).await;
    assert_eq!((&first["qrPayload"], first.get("redirectUrl")), (&json!("0002"), None));
    let (_, second) = world.create("k2", &asked_with(&json!({"merchantCode": null}))).await;
    let (_, other) = world.create("k3", &asked("another cart")).await;
    let attempts = [&first, &second, &other].map(|body| body["attempt"].clone());
    assert_eq!(attempts, [json!(1), json!(2), json!(1)]);
    assert_eq!(partner.asked()[1]["returnUrl"], "https://shop.example/api/payment/result");
}

#[actix_web::test]
async fn without_a_projector_the_answer_comes_all_the_same() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    let (status, body) = world.create("k", &asked("cart")).await;
    assert_eq!((status, &body["state"], body.get("version")), (201, &json!("PENDING"), None));
    assert_eq!(create_deadline(&engines).await, "2026-01-31T10:30:00Z", "half an hour");
}

/// What the partner does => the answer. `status`: a status line; `offer`: members of a good answer put in or taken out
/// (null); `body`: another body; `bytes`: on the socket, with \r and \n; `slow`: a good answer after so many ms.
const HOSTILE: &str = r#"
    status 400 Bad Request                                  => 502 partner_refused
    status 401 Unauthorized                                 => 502 partner_refused
    status 409 Conflict                                     => 502 partner_refused
    status 429 Too Many Requests                            => 502 partner_refused
    status 408 Request Timeout                              => 202
    status 500 Internal Server Error                        => 202
    status 502 Bad Gateway                                  => 202
    status 503 Service Unavailable                          => 202
    status 307 Temporary Redirect                           => 502 contract_violation.redirect
    bytes  HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n => 502 contract_violation.redirect
    body   <html>                                           => 502 contract_violation.not_json
    body   [1]                                              => 502 contract_violation.not_json
    body   {"providerRef":"a","providerRef":"b"}            => 502 contract_violation.not_json
    body                                                    => 502 contract_violation.not_json
    offer  {"providerRef":null}                             => 502 contract_violation.provider_ref
    offer  {"redirectUrl":null}                             => 502 contract_violation.no_presentation
    offer  {"qrPayload":"x"}                                => 502 contract_violation.two_presentations
    offer  {"redirectUrl":"/pay"}                           => 502 contract_violation.redirect_url
    offer  {"redirectUrl":"http://pay.example/x"}           => 502 contract_violation.redirect_url_not_https
    offer  {"redirectUrl":"https://me@pay.example/x"}       => 502 contract_violation.redirect_url_userinfo
    offer  {"redirectUrl":null,"qrPayload":"\u0000"}        => 502 contract_violation.qr_payload
    offer  {"expiresAt":null}                               => 502 contract_violation.expires_at
    offer  {"expiresAt":1769853600}                         => 502 contract_violation.expires_at
    offer  {"expiresAt":"2026-01-31T10:00:00Z"}             => 502 contract_violation.expires_at_past
    nothing                                                 => 202
    slow   3000                                             => 202
    bytes  HTTP/1.1 200 OK\r\nContent-                      => 202
    bytes  HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"providerRef": => 202
    bytes                                                   => 202
    bytes  hello\r\n\r\n                                    => 202
    over-size                                               => 202
"#;

fn does(what: &str) -> Does {
    let (kind, rest) = what.split_once(' ').map_or((what, ""), |(kind, rest)| (kind, rest.trim()));
    match kind {
        "status" => Does::Sends(http(rest, "{}")),
        "body" => Does::Sends(http("200 OK", rest)),
        "offer" => Does::Sends(offer(&serde_json::from_str(rest).unwrap())),
        "bytes" => Does::Sends(rest.replace("\\r", "\r").replace("\\n", "\n").into_bytes()),
        "over-size" => Does::Sends(offer(&json!({"padding": "x".repeat(70_000)}))),
        "slow" => Does::SendsAfter(Duration::from_millis(rest.parse().unwrap()), offer(&json!({}))),
        "nothing" => Does::Nothing,
        other => panic!("{other}"),
    }
}

/// Whatever the partner does leads to the right facts and the right answer, the same when the shop asks again, and
/// the partner is asked exactly once.
#[actix_web::test]
async fn a_hostile_partner_is_asked_once_and_its_answer_is_worth_what_it_is() {
    for case in HOSTILE.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (what, expected) = case.rsplit_once("=> ").unwrap();
        let facts = if expected == "202" { "C" } else { "C CF" };
        let (engines, partner) = (Engines::new(), Partner::start(does(what.trim())).await);
        let is_late = what.starts_with("nothing") || what.starts_with("slow");
        let profile = is_late.then(|| crate::world::hasty("acme"));
        let made = Made { profile, ..Made::default() };
        let (world, _folding) = (World::made(&engines, &partner.url, made).await, engines.fold());
        let (status, first) = world.create("k", &asked("cart")).await;
        let code = first["code"].as_str().unwrap_or_default();
        assert_eq!(format!("{status} {code}").trim(), expected, "{case}: {first}");
        assert!(first["orderId"].as_str().is_some_and(|id| id.starts_with("ord-")), "{first}");
        if status == 202 {
            assert_eq!((&first["state"], first.get("redirectUrl")), (&json!("REQUESTED"), None));
        }
        assert_eq!(engines.facts().await, facts, "{case}");

        let (again, second) = world.create("k", &asked("cart")).await;
        assert_eq!((again, &second["orderId"]), (status, &first["orderId"]), "{case}: {second}");
        assert_eq!(second["code"], first["code"], "{case}");
        assert_eq!(engines.facts().await, facts, "{case}: nothing more is known");
        assert_eq!(partner.count(), 1, "{case}");
    }
}

/// An address that refuses connections, and what keeps others from getting it.
fn nobody_listens() -> (tokio::net::TcpSocket, String) {
    let bound = tokio::net::TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", bound.local_addr().unwrap());
    (bound, url)
}

#[actix_web::test]
async fn a_partner_that_is_not_there_was_sent_nothing() {
    let engines = Engines::new();
    let (_bound, url) = nobody_listens();
    let (world, _folding) = (World::made(&engines, &url, Made::default()).await, engines.fold());
    for _ in 0..2 {
        let (status, body) = world.create("k", &asked("cart")).await;
        assert_eq!((status, body["code"].as_str()), (502, Some("partner_unreachable")), "{body}");
    }
    assert_eq!(engines.facts().await, "C CF");
    let (_, page) = told(world.get("/v1/payments?reference=cart").send().await.unwrap()).await;
    let payment = &page["payments"][0];
    assert_eq!(
        (&payment["state"], &payment["failureCode"]),
        (&json!("FAILED"), &json!("partner_unreachable"))
    );
}

/// Members of the body => status, code, pointer.
const REFUSED: &str = r#"
    {"partner":"nobody"}                              => 422 unknown_account /merchantCode
    {"partner":"nobody","merchantCode":null}          => 422 unknown_account /partner
    {"merchantCode":"OTHER"}                          => 422 unknown_account /merchantCode
    {"merchantCode":"NOBODY"}                         => 422 unknown_account /merchantCode
    {"partner":"plain","presentation":"qr"}           => 422 presentation_not_supported /presentation
    {"partner":"plain"}                               => 503 account_not_ready -
    {"partner":"uncalled"}                            => 422 create_not_supported /partner
    {"partner":"uncreated"}                           => 422 create_not_supported /partner
    {"partner":"slash"}                               => 503 account_not_ready -
    {"returnTo":"elsewhere"}                          => 422 unknown_return_to /returnTo
    {"expiresAt":"2026-01-31T10:00:00Z"}              => 422 expires_at_past /expiresAt
    {"expiresAt":"2026-01-31T09:00:00Z"}              => 422 expires_at_past /expiresAt
    {"amount":0}                                      => 422 amount_out_of_range /amount
    {"description":" |||\t"}                          => 422 empty_field /description
    {"surprise":1}                                    => 422 unknown_field /surprise
"#;

/// What can be known to be wrong before the claim claims nothing: the same key can be used for it mended.
#[actix_web::test]
async fn what_is_refused_claims_nothing_and_asks_nobody() {
    use payfold_partners::profile::{DEFAULT_PROFILE, Profile, SANDBOX_PROFILE};
    use payfold_schemas::ids::PartnerCode;
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let made =
        |code: &str, text: &str| Profile::parse(&PartnerCode::parse(code).unwrap(), text).unwrap();
    let uncreated = DEFAULT_PROFILE.split("[create]").next().unwrap();
    let slash = SANDBOX_PROFILE.replace("separator = \"|\"", "separator = \"/\"");
    let partners = vec![
        // A public profile may not call this machine.
        ("plain", made("plain", DEFAULT_PROFILE), "https://127.0.0.1:1".to_owned()),
        ("uncalled", made("uncalled", SANDBOX_PROFILE), String::new()),
        ("uncreated", made("uncreated", uncreated), partner.url.clone()),
        ("slash", made("slash", &slash), partner.url.clone()),
    ];
    let made = Made { partners, ..Made::default() };
    let world = World::made(&engines, &partner.url, made).await;
    for case in REFUSED.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (members, expected) = case.split_once(" => ").unwrap();
        let members: Value = serde_json::from_str(members.trim()).unwrap();
        let (status, body) = world.create("k", &asked_with(&members)).await;
        let pointer = body["pointer"].as_str().unwrap_or("-");
        let told = format!("{status} {} {pointer}", body["code"].as_str().unwrap_or_default());
        assert_eq!(told, expected, "{case}");
    }
    assert_eq!((engines.facts().await.as_str(), partner.count()), ("", 0));
    assert_eq!(engines.store.claimed(claim_key("web/k")).await, Ok(None));
    let (status, body) = world.create("k", &asked("cart")).await;
    assert_eq!(status, 201, "{body}");
}

#[actix_web::test]
async fn an_account_of_another_shop_is_as_unknown_as_none() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    let mut answers = HashSet::new();
    for merchant in ["OTHER", "NOBODY"] {
        let (status, mut body) =
            world.create("k", &asked_with(&json!({"merchantCode": merchant}))).await;
        body.as_object_mut().unwrap().remove("requestId");
        answers.insert(format!("{status} {body}"));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    let request = world.post("k", &asked_with(&json!({"merchantCode": "OTHER"})));
    let request = request.header("x-unused", "1").build().unwrap();
    let mut request = request;
    let bearer = format!("Bearer {OTHER_TOKEN}").parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let (status, body) = told(world.client.execute(request).await.unwrap()).await;
    assert_eq!(status, 201, "{body}");
}

#[actix_web::test]
async fn a_slow_partner_holds_no_other() {
    let (engines, quick) = (Engines::new(), Partner::opens().await);
    let slow = Partner::start(Does::Waits(offer(&json!({})))).await;
    let limits = payfold_checkout::Limits { calls_per_partner_max: 2, ..Default::default() };
    let partners = vec![("quick", crate::world::profile("quick"), quick.url.clone())];
    let made = Made { limits: Some(limits), partners, ..Made::default() };
    let (world, _folding) = (World::made(&engines, &slow.url, made).await, engines.fold());
    let held: Vec<_> = (0..2)
        .map(|n| actix_web::rt::spawn(world.post(&format!("held {n}"), &asked("cart")).send()))
        .collect();
    slow.asked_times(2).await;

    let response = world.post("one more", &asked("cart")).send().await.unwrap();
    assert_eq!(response.headers()["retry-after"], "1");
    let (status, body) = told(response).await;
    assert_eq!((status, body["code"].as_str()), (503, Some("partner_busy")));
    assert_eq!(engines.store.claimed(claim_key("web/one more")).await, Ok(None));
    let (status, _) = world.create("other", &asked_with(&json!({"partner": "quick"}))).await;
    assert_eq!((status, slow.count()), (201, 2), "another partner is called meanwhile");

    slow.let_go();
    for call in held {
        assert_eq!(told(call.await.unwrap().unwrap()).await.0, 201);
    }
    assert_eq!(world.create("one more", &asked("cart")).await.0, 201, "the key was not used up");
}

/// A partner that is down or refuses is told of once a second, not for every payment.
#[actix_web::test]
async fn a_failing_partner_is_told_of_once_a_second() {
    let engines = Engines::new();
    let partner = Partner::start(Does::Sends(http("403 Forbidden", "{}"))).await;
    let (_bound, url) = nobody_listens();
    let partners = vec![("gone", crate::world::profile("gone"), url)];
    let world = World::made(&engines, &partner.url, Made { partners, ..Made::default() }).await;
    let lines = Lines::start();
    let gone = asked_with(&json!({"partner": "gone"}));
    let mut orders = Vec::new();
    for second in 0..2 {
        engines.clock.set(NOW.plus_ms(second * 1_000));
        for n in 0..3 {
            let (refused, body) = world.create(&format!("r {second} {n}"), &asked("cart")).await;
            let (unreachable, _) = world.create(&format!("u {second} {n}"), &gone).await;
            assert_eq!((refused, unreachable), (502, 502));
            orders.push(body["orderId"].as_str().unwrap().to_owned());
        }
    }
    let told = lines.with("partner=acme");
    assert_eq!(told.len(), 2, "{told:?}");
    for (line, (order, passed_over)) in told.iter().zip([(&orders[0], 0), (&orders[3], 2)]) {
        assert!(line.starts_with("WARN ") && line.contains("status=403"), "{line}");
        assert!(line.contains(&format!("order.id={order} ")), "{line}");
        assert!(line.contains(&format!("since_last={passed_over}")), "{line}");
    }
    let told = lines.with("partner=gone");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("WARN ") && told[0].contains("reason="), "{told:?}");
}
