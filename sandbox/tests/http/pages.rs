//! The pages and actions of a payer, and their results.

use std::sync::Arc;

use payfold_engines::clock::{Clock, FixedClock, SystemClock};
use payfold_partners::create::PresentationKind;
use payfold_partners::remote::CreateOutcome;
use payfold_schemas::fact::Presentation;
use payfold_schemas::time::Time;
use payfold_testing::waits::eventually;
use reqwest::Response;

use crate::world::{TestCall, TestWorld, provider_ref};

fn header(response: &Response, name: &str) -> String {
    let value = response.headers().get(name).map(|value| value.to_str().unwrap());
    value.unwrap_or_default().to_owned()
}

/// The order in a return address with a valid signature.
fn returned_order(world: &TestWorld, address: &str) -> Option<String> {
    let (_, query) = address.split_once('?').unwrap();
    world.directory.verify_return(query, SystemClock.now()).map(|order| order.to_string())
}

#[actix_web::test]
async fn a_page_allows_frames_and_sets_no_cookie() {
    let world = TestWorld::start();
    let created = world.call(&TestCall::new("p", "Two tickets")).await;
    let page = format!("/pay/{}", provider_ref(&created));
    let CreateOutcome::Opened(offer) = created else { panic!() };
    let address = Presentation::RedirectUrl(format!("{}{page}", world.url));
    assert_eq!(offer.presentation, address);
    for path in [page.as_str(), &page.replace("/pay/", "/qr/"), "/shop/result", "/", "/pay/none"] {
        let response = world.get(path).await;
        assert_eq!(header(&response, "set-cookie"), "", "{path}");
        assert_eq!(header(&response, "x-frame-options"), "", "{path}");
        assert_eq!(header(&response, "cache-control"), "no-store", "{path}");
        let policy = header(&response, "content-security-policy");
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert!(policy.contains("frame-ancestors *") && !policy.contains("unsafe"), "{policy}");
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap().to_owned();
        let text = response.text().await.unwrap();
        assert!(text.contains(&format!("<style nonce=\"{nonce}\">")), "{path}");
        assert!(text.contains("Sandbox: no real money"), "{path}");
    }
    let policy = |response: Response| header(&response, "content-security-policy");
    assert_ne!(policy(world.get(&page).await), policy(world.get(&page).await), "a nonce each");
}

#[actix_web::test]
async fn each_button_ends_the_payment_with_a_signed_return() {
    let world = TestWorld::start();
    for (action, status) in [("pay", "SUCCESS"), ("fail", "FAILED"), ("cancel", "FAILED")] {
        let page = format!("/pay/{}", provider_ref(&world.call(&TestCall::new(action, "x")).await));
        let response = world.post(&format!("{page}/{action}")).await;
        assert_eq!(response.status(), 303);
        let back = header(&response, "location");
        assert!(
            back.starts_with("http://127.0.0.1:9/api/payment/result?shop=1&merchantCode="),
            "{back}"
        );
        assert!(back.contains(&format!("&status={status}&")), "{back}");
        assert_eq!(returned_order(&world, &back).as_deref(), Some(action));
        assert_eq!(returned_order(&world, &back.replace(status, "REFUNDED")), None);
        // Another action does not change the outcome.
        for other in ["pay", "cancel"] {
            let again = header(&world.post(&format!("{page}/{other}")).await, "location");
            assert!(
                again.contains(&format!("&status={status}&")),
                "{action} then {other}: {again}"
            );
        }
        world.drain().await;
        let received = world.sink.received(action);
        assert_eq!(received.len(), 1, "one notice");
        assert_eq!(received[0].text("status"), status);
        let text = world.get(&page).await.text().await.unwrap();
        assert!(text.contains("Back to the shop") && !text.contains("<form"), "{action}");
    }
    assert_eq!(world.post("/pay/none/pay").await.status(), 404);
}

#[actix_web::test]
async fn an_app_is_returned_to_by_its_deep_link() {
    let world = TestWorld::start();
    let call = TestCall {
        return_url: "shop.app://payment-result".to_owned(),
        ..TestCall::new("app", "x")
    };
    let page = provider_ref(&world.call(&call).await);
    let back = header(&world.post(&format!("/pay/{page}/cancel")).await, "location");
    assert!(back.starts_with("shop.app://payment-result?merchantCode="), "{back}");
    assert_eq!(returned_order(&world, &back).as_deref(), Some("app"));
}

#[actix_web::test]
async fn a_payment_with_a_closed_tab_expires() {
    let begun = SystemClock.now();
    let clock = Arc::new(FixedClock::at(begun));
    let world = TestWorld::with_clock(clock.clone(), |_| {});
    let expires_at = Some(Time::from_unix_ms(begun.plus_ms(60_000).unix_ms()));
    let call = TestCall { expires_at, ..TestCall::new("tab", "x") };
    let page = provider_ref(&world.call(&call).await);
    clock.set(begun.plus_ms(60_000));
    let body = eventually("the session ends", async || {
        let body = world.json("/sandbox/deliveries?orderId=tab").await;
        if body["finished"] == true { Ok(body) } else { Err(body) }
    })
    .await;
    assert_eq!(body["deliveries"][0]["status"], "EXPIRED");
    assert_eq!(world.sink.received("tab")[0].text("status"), "EXPIRED");
    let text = world.get(&format!("/pay/{page}")).await.text().await.unwrap();
    assert!(text.contains("This session has ended"));
    let back = header(&world.post(&format!("/pay/{page}/pay")).await, "location");
    assert!(back.contains("&status=EXPIRED&"), "too late to pay: {back}");
}

#[actix_web::test]
async fn a_session_ends_by_the_servers_clock_and_is_removed_later() {
    let begun = SystemClock.now();
    let clock = Arc::new(FixedClock::at(begun));
    let world = TestWorld::with_clock(clock.clone(), |settings| {
        settings.session_ms = 60_000;
        settings.keep_ms = 60_000;
    });
    let page = format!("/pay/{}", provider_ref(&world.call(&TestCall::new("o", "x")).await));
    clock.set(begun.plus_ms(59_000));
    assert!(world.get(&page).await.text().await.unwrap().contains("<form"));
    clock.set(begun.plus_ms(60_000));
    // At once: too late, whether or not the expired session was already ended.
    let back = header(&world.post(&format!("{page}/pay")).await, "location");
    assert!(back.contains("&status=EXPIRED&"), "{back}");
    clock.set(begun.plus_ms(120_001));
    eventually("it is forgotten", async || {
        let status = world.get(&page).await.status();
        if status == 404 { Ok(()) } else { Err(status) }
    })
    .await;
    assert_eq!(world.json("/sandbox/creates").await, serde_json::json!({}));
}

#[actix_web::test]
async fn a_qr_code_is_shown_scanned_and_paid() {
    let world = TestWorld::start();
    let call = TestCall { presentation: Some(PresentationKind::Qr), ..TestCall::new("q", "x") };
    let created = world.call(&call).await;
    let page = provider_ref(&created);
    let CreateOutcome::Opened(offer) = created else { panic!() };
    let payload = format!("payfold-sandbox:{page}?amount=150000&currency=VND");
    assert_eq!(offer.presentation, Presentation::QrPayload(payload));
    let text = world.get(&format!("/qr/{page}")).await.text().await.unwrap();
    assert!(text.contains("Simulate scan and pay") && text.contains("<svg"), "{text}");
    let scanned = world.post(&format!("/qr/{page}/scan")).await;
    assert_eq!(
        (scanned.status().as_u16(), header(&scanned, "location")),
        (303, format!("../{page}"))
    );
    world.drain().await;
    assert_eq!(world.sink.received("q")[0].text("status"), "SUCCESS");
    let text = world.get(&format!("/qr/{page}")).await.text().await.unwrap();
    assert!(text.contains("Paid") && !text.contains("<form"));
}

#[actix_web::test]
async fn a_planned_payment_has_no_buttons() {
    let world = TestWorld::with(|settings| settings.short_session_ms = 60_000);
    let page = provider_ref(&world.call(&TestCall::new("s", "x #late")).await);
    let text = world.get(&format!("/pay/{page}")).await.text().await.unwrap();
    assert!(text.contains("made automatically") && !text.contains("<form"), "{text}");
    let pressed = world.post(&format!("/pay/{page}/fail")).await;
    assert_eq!(header(&pressed, "location"), format!("../{page}"));
    assert!(world.sink.received("s").is_empty(), "a press changes nothing");
}

#[actix_web::test]
async fn the_shop_page_is_escaped() {
    let world = TestWorld::start();
    let text = world.get("/shop/result?verified=true&orderId=%3Cb%3E1").await.text().await.unwrap();
    assert!(text.contains("&lt;b&gt;1") && text.contains("does not change the order"), "{text}");
}
