//! Creating a payment: what is sent to the partner, what its answers lead to, and which requests
//! are refused before the partner is called.

use std::collections::HashSet;
use std::time::Duration;

use payfold_schemas::fact::Fact;
use serde_json::{Value, json};

use crate::log_lines::LogLines;
use crate::partner::{Behaviour, Partner, http, offer};
use crate::reads::wait_for_row;
use crate::world::{
    Engines, NOW, OTHER_TOKEN, World, WorldOptions, claim_key, payment_body, payment_body_with,
    read_answer,
};

#[actix_web::test]
async fn a_payment_is_created_and_answered_in_full() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    let members = json!({
        "description": "Two\ttickets|now", "returnTo": "app", "presentation": "page",
        "expiresAt": "2026-01-31T10:10:00Z", "metadata": {"cart": "7"},
    });
    let response = world.post("k1", &payment_body_with(&members)).send().await.unwrap();
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    assert_eq!(response.headers()["cache-control"], "no-store");
    let (status, body) = read_answer(response).await;
    assert_eq!(status, 201, "{body}");
    let order_id = body["orderId"].as_str().unwrap().to_owned();
    assert!(order_id.starts_with("ord-") && order_id.len() == 40, "{order_id}");
    assert_eq!(location, format!("/v1/payments/acme/SHOP/{order_id}"));
    let expected = json!({
        "orderId": order_id, "partner": "acme", "merchantCode": "SHOP", "reference": "cart",
        "attempt": 1,
        "state": "PENDING", "version": "1.2", "description": "Two tickets now", "fulfil": false,
        "attention": [], "amount": 1_500, "currency": "EUR", "paidAmount": 0, "refundedAmount": 0,
        "reported": [], "providerRef": "GW-1",
        "redirectUrl": "https://pay.partner.example/s/1", "expiresAt": "2099-01-31T10:00:00Z",
        "deadline": "2099-01-31T10:00:01Z", "serverTime": NOW.to_string(),
        "links": {"self": location, "events": format!("{location}/events")},
    });
    assert_eq!(body, expected);

    let mut sent = partner.requests().pop().unwrap();
    let signature = sent.as_object_mut().unwrap().remove("signature").unwrap();
    assert_eq!(signature.as_str().unwrap().len(), 64);
    let expected = json!({
        "merchantCode": "SHOP", "orderId": order_id, "amount": 1_500, "currency": "EUR",
        "description": "Two tickets now",
        "returnUrl": "https://shop.example/api/payment/result/app",
        "ipnUrl": "https://shop.example/api/payment/ipn", "expiresAt": "2026-01-31T10:10:00Z",
        "presentation": "page",
    });
    assert_eq!(sent, expected);
    assert_eq!(engines.facts().await, "createRequested sessionOpened");
    assert_eq!(
        create_deadline(&engines).await,
        "2026-01-31T10:10:01Z",
        "the shop's expiresAt and the grace time"
    );
    assert_eq!(world.metric("payfold_checkout_creates_total", &["acme", "opened"]), 1.0);

    let (status, body) = read_answer(world.get(&location).send().await.unwrap()).await;
    assert_eq!((status, &body["deadline"]), (200, &json!("2099-01-31T10:00:01Z")), "grace is 1 s");
}

/// The deadline of the first `CreateRequested`.
async fn create_deadline(engines: &Engines) -> String {
    match &engines.records().await[0].fact {
        Fact::CreateRequested(create) => create.deadline.to_string(),
        other => panic!("{other:?}"),
    }
}

#[actix_web::test]
async fn attempts_at_one_reference_are_counted_and_a_qr_code_is_passed_on() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let (world, _folding) = (World::new(&engines, &partner).await, engines.fold());
    partner
        .set_behaviour(Behaviour::Sends(offer(&json!({"redirectUrl": null, "qrPayload": "0002"}))));
    let (_, first) = world.create("k1", &payment_body("cart")).await;
    assert_eq!((&first["qrPayload"], first.get("redirectUrl")), (&json!("0002"), None));
    let (_, second) = world.create("k2", &payment_body_with(&json!({"merchantCode": null}))).await;
    let (_, other) = world.create("k3", &payment_body("another cart")).await;
    let attempts = [&first, &second, &other].map(|body| body["attempt"].clone());
    assert_eq!(attempts, [json!(1), json!(2), json!(1)]);
    assert_eq!(partner.requests()[1]["returnUrl"], "https://shop.example/api/payment/result");
}

#[actix_web::test]
async fn a_create_request_is_answered_without_a_projector() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    let (status, mut body) = world.create("k", &payment_body("cart")).await;
    assert_eq!((status, &body["state"], body.get("version")), (201, &json!("PENDING"), None));
    partner.set_behaviour(Behaviour::Sends(http("500 Internal Server Error", "")));
    let (status, mut unknown) = world.create("k2", &payment_body("cart 2")).await;
    assert_eq!((status, unknown.get("version")), (202, None));
    let _folding = engines.fold();
    for (answer, opened) in [(&mut body, true), (&mut unknown, false)] {
        let path = answer["links"]["self"].as_str().expect("a path").to_owned();
        // The create request, and the session if there is one: they may be folded one by one.
        let version = 1 + u64::from(opened);
        wait_for_row(&engines, path.trim_start_matches("/v1/payments/"), version).await;
        let (_, mut read) =
            read_answer(world.get(&format!("{path}?wait=1")).send().await.unwrap()).await;
        assert_eq!(read["redirectUrl"].is_string(), opened);
        read.as_object_mut().unwrap().remove("version");
        let said = answer.as_object_mut().unwrap().remove("description");
        assert_eq!((said, answer), (Some(json!("Two tickets")), &mut read), "all else is alike");
    }
    assert_eq!(create_deadline(&engines).await, "2026-01-31T10:30:00Z", "half an hour");
}

/// What the partner does => the answer to the shop. `status`: answers with this status line;
/// `offer`: a good answer with members replaced or removed (null); `body`: another body; `bytes`:
/// raw bytes on the socket, with \r and \n; `slow`: a good answer after this many ms.
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

fn behaviour(what: &str) -> Behaviour {
    let (kind, rest) = what.split_once(' ').map_or((what, ""), |(kind, rest)| (kind, rest.trim()));
    match kind {
        "status" => Behaviour::Sends(http(rest, "{}")),
        "body" => Behaviour::Sends(http("200 OK", rest)),
        "offer" => Behaviour::Sends(offer(&serde_json::from_str(rest).unwrap())),
        "bytes" => Behaviour::Sends(rest.replace("\\r", "\r").replace("\\n", "\n").into_bytes()),
        "over-size" => Behaviour::Sends(offer(&json!({"padding": "x".repeat(70_000)}))),
        "slow" => {
            Behaviour::SendsAfter(Duration::from_millis(rest.parse().unwrap()), offer(&json!({})))
        }
        "nothing" => Behaviour::Nothing,
        other => panic!("{other}"),
    }
}

/// Every behaviour leads to the right facts and the right answer. A retry of the shop gets the same
/// answer, and the partner is called exactly once.
#[actix_web::test]
async fn a_hostile_partner_is_called_once_and_every_answer_has_its_outcome() {
    for case in HOSTILE.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (what, expected) = case.rsplit_once("=> ").unwrap();
        let facts =
            if expected == "202" { "createRequested" } else { "createRequested createFailed" };
        let (engines, partner) = (Engines::new(), Partner::start(behaviour(what.trim())).await);
        let is_late = what.starts_with("nothing") || what.starts_with("slow");
        let profile = is_late.then(|| crate::world::hasty("acme"));
        let options = WorldOptions { profile, ..WorldOptions::default() };
        let (world, _folding) =
            (World::with_options(&engines, &partner.url, options).await, engines.fold());
        let (status, first) = world.create("k", &payment_body("cart")).await;
        let code = first["code"].as_str().unwrap_or_default();
        assert_eq!(format!("{status} {code}").trim(), expected, "{case}: {first}");
        assert!(first["orderId"].as_str().is_some_and(|id| id.starts_with("ord-")), "{first}");
        if status == 202 {
            assert_eq!((&first["state"], first.get("redirectUrl")), (&json!("REQUESTED"), None));
        }
        assert_eq!(engines.facts().await, facts, "{case}");

        let (again, second) = world.create("k", &payment_body("cart")).await;
        assert_eq!((again, &second["orderId"]), (status, &first["orderId"]), "{case}: {second}");
        assert_eq!(second["code"], first["code"], "{case}");
        assert_eq!(engines.facts().await, facts, "{case}: nothing more is known");
        assert_eq!(partner.request_count(), 1, "{case}");
    }
}

/// An address that refuses connections, and the socket that keeps the port.
fn refusing_address() -> (tokio::net::TcpSocket, String) {
    let bound = tokio::net::TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", bound.local_addr().unwrap());
    (bound, url)
}

#[actix_web::test]
async fn an_unreachable_partner_fails_the_attempt() {
    let engines = Engines::new();
    let (_bound, url) = refusing_address();
    let (world, _folding) =
        (World::with_options(&engines, &url, WorldOptions::default()).await, engines.fold());
    for _ in 0..2 {
        let (status, body) = world.create("k", &payment_body("cart")).await;
        assert_eq!((status, body["code"].as_str()), (502, Some("partner_unreachable")), "{body}");
    }
    assert_eq!(engines.facts().await, "createRequested createFailed");
    let (_, page) =
        read_answer(world.get("/v1/payments?reference=cart").send().await.unwrap()).await;
    let payment = &page["payments"][0];
    assert_eq!(
        (&payment["state"], &payment["failureCode"]),
        (&json!("FAILED"), &json!("partner_unreachable"))
    );
}

/// Members of the body => status, code, pointer.
const REFUSED: &str = r#"
    {"partner":"absent"}                              => 422 unknown_account /merchantCode
    {"partner":"absent","merchantCode":null}          => 422 unknown_account /partner
    {"merchantCode":"OTHER"}                          => 422 unknown_account /merchantCode
    {"merchantCode":"ABSENT"}                         => 422 unknown_account /merchantCode
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

/// A request that is refused before the claim claims nothing: the same key can be used again for
/// the corrected request.
#[actix_web::test]
async fn a_refused_request_claims_nothing_and_calls_no_partner() {
    use payfold_partners::profile::{DEFAULT_PROFILE, Profile, SANDBOX_PROFILE};
    use payfold_schemas::ids::PartnerCode;
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let made =
        |code: &str, text: &str| Profile::parse(&PartnerCode::parse(code).unwrap(), text).unwrap();
    let uncreated = DEFAULT_PROFILE.split("[create]").next().unwrap();
    let slash = SANDBOX_PROFILE.replace("separator = \"|\"", "separator = \"/\"");
    let partners = vec![
        // Only a sandbox profile may call an address of this machine.
        ("plain", made("plain", DEFAULT_PROFILE), "https://127.0.0.1:1".to_owned()),
        ("uncalled", made("uncalled", SANDBOX_PROFILE), String::new()),
        ("uncreated", made("uncreated", uncreated), partner.url.clone()),
        ("slash", made("slash", &slash), partner.url.clone()),
    ];
    let made = WorldOptions { partners, ..WorldOptions::default() };
    let world = World::with_options(&engines, &partner.url, made).await;
    for case in REFUSED.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (members, expected) = case.split_once(" => ").unwrap();
        let members: Value = serde_json::from_str(members.trim()).unwrap();
        let (status, body) = world.create("k", &payment_body_with(&members)).await;
        let pointer = body["pointer"].as_str().unwrap_or("-");
        let outcome = format!("{status} {} {pointer}", body["code"].as_str().unwrap_or_default());
        assert_eq!(outcome, expected, "{case}");
    }
    assert_eq!((engines.facts().await.as_str(), partner.request_count()), ("", 0));
    assert_eq!(engines.store.claimed(claim_key("web/k")).await, Ok(None));
    let (status, body) = world.create("k", &payment_body("cart")).await;
    assert_eq!(status, 201, "{body}");
}

#[actix_web::test]
async fn another_shops_account_is_answered_like_an_unknown_one() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    let mut answers = HashSet::new();
    for merchant in ["OTHER", "ABSENT"] {
        let (status, mut body) =
            world.create("k", &payment_body_with(&json!({"merchantCode": merchant}))).await;
        body.as_object_mut().unwrap().remove("requestId");
        answers.insert(format!("{status} {body}"));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    let request = world.post("k", &payment_body_with(&json!({"merchantCode": "OTHER"})));
    let request = request.header("x-unused", "1").build().unwrap();
    let mut request = request;
    let bearer = format!("Bearer {OTHER_TOKEN}").parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let (status, body) = read_answer(world.client.execute(request).await.unwrap()).await;
    assert_eq!(status, 201, "{body}");
}

#[actix_web::test]
async fn a_slow_partner_does_not_block_another() {
    let (engines, quick) = (Engines::new(), Partner::opens().await);
    let slow = Partner::start(Behaviour::Waits(offer(&json!({})))).await;
    let limits = payfold_checkout::Limits { calls_per_partner_max: 2, ..Default::default() };
    let partners = vec![("quick", crate::world::profile("quick"), quick.url.clone())];
    let made = WorldOptions { limits: Some(limits), partners, ..WorldOptions::default() };
    let (world, _folding) = (World::with_options(&engines, &slow.url, made).await, engines.fold());
    let held: Vec<_> = (0..2)
        .map(|n| {
            actix_web::rt::spawn(world.post(&format!("held {n}"), &payment_body("cart")).send())
        })
        .collect();
    slow.wait_for_requests(2).await;

    let response = world.post("one more", &payment_body("cart")).send().await.unwrap();
    assert_eq!(response.headers()["retry-after"], "1");
    let (status, body) = read_answer(response).await;
    assert_eq!((status, body["code"].as_str()), (503, Some("partner_busy")));
    assert_eq!(engines.store.claimed(claim_key("web/one more")).await, Ok(None));
    let (status, _) = world.create("other", &payment_body_with(&json!({"partner": "quick"}))).await;
    assert_eq!((status, slow.request_count()), (201, 2), "another partner is called meanwhile");

    slow.release();
    for call in held {
        assert_eq!(read_answer(call.await.unwrap().unwrap()).await.0, 201);
    }
    assert_eq!(
        world.create("one more", &payment_body("cart")).await.0,
        201,
        "the key was not used up"
    );
}

/// Failures of a partner that is down or refuses are logged once a second, not for every payment.
#[actix_web::test]
async fn a_failing_partner_is_logged_once_a_second() {
    let engines = Engines::new();
    let partner = Partner::start(Behaviour::Sends(http("403 Forbidden", "{}"))).await;
    let (_bound, url) = refusing_address();
    let partners = vec![("gone", crate::world::profile("gone"), url)];
    let world = World::with_options(
        &engines,
        &partner.url,
        WorldOptions { partners, ..WorldOptions::default() },
    )
    .await;
    let lines = LogLines::start();
    let gone = payment_body_with(&json!({"partner": "gone"}));
    let mut orders = Vec::new();
    for second in 0..2 {
        engines.clock.set(NOW.plus_ms(second * 1_000));
        for n in 0..3 {
            let (refused, body) =
                world.create(&format!("r {second} {n}"), &payment_body("cart")).await;
            let (unreachable, _) = world.create(&format!("u {second} {n}"), &gone).await;
            assert_eq!((refused, unreachable), (502, 502));
            orders.push(body["orderId"].as_str().unwrap().to_owned());
        }
    }
    let logged = lines.with("partner=acme");
    assert_eq!(logged.len(), 2, "{logged:?}");
    for (line, (order, skipped)) in logged.iter().zip([(&orders[0], 0), (&orders[3], 2)]) {
        assert!(line.starts_with("WARN ") && line.contains("status=403"), "{line}");
        assert!(line.contains(&format!("order.id={order} ")), "{line}");
        assert!(line.contains(&format!("since_last={skipped}")), "{line}");
    }
    let logged = lines.with("partner=gone");
    assert_eq!(logged.len(), 2, "{logged:?}");
    assert!(logged[0].starts_with("WARN ") && logged[0].contains("reason="), "{logged:?}");
}
