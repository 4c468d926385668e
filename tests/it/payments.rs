//! Owns whole payments on the real binary: driven through checkout and the sandbox partner as
//! `payfold demo pay` does.

use serde_json::{Value, json};

use crate::support::notice::Notice;
use crate::support::pair::{Inside, Pair};
use crate::support::system::System;
use crate::support::wire::get_request;

/// Every trouble the sandbox knows ends as it must, every acknowledged notice is in the log, and a
/// second run of the same command prints the same table.
pub fn every_trouble_ends_as_it_must(pair: Pair) {
    let Some(home) = pair.home() else { return };
    let system = home.boot();
    let pay = ["demo", "pay", "--count", "90", "--trouble", "all", "--seed", "11"];
    let first = system.payfold(&pay);
    assert_eq!(
        first.code(),
        0,
        "{}\nsandbox/src/expectation.rs says what is expected",
        first.stdout
    );
    assert!(first.stdout.contains("seed 11") && first.stdout.contains(" 0 not as expected"));
    assert!(first.stdout.contains(" 0 of them not in the log"), "{}", first.stdout);
    let second = system.payfold(&pay);
    assert_eq!(second.code(), 0, "{}", second.stdout);
    assert_eq!(table(&first.stdout), table(&second.stdout));
    let metrics = system.get("/metrics").text();
    for name in
        ["payfold_checkout_creates_total{", "payfold_checkout_partner_call_duration_seconds_count{"]
    {
        assert!(metrics.contains(name), "{name} in\n{metrics}");
    }
    // Words that go together, with another seed.
    let some = "late+wrong-key,duplicates+disorder+refund-parts,second-ref+stale";
    let some = ["demo", "pay", "--count", "6", "--trouble", some, "--seed", "12"];
    let mixed = system.payfold(&some);
    assert_eq!(mixed.code(), 0, "{}", mixed.stdout);
}

/// The troubles that ended as they must, and the number of payments of each. The states are left
/// out: an order with only refused notices is PENDING, or PAID if its partner was queried before
/// the order was read.
fn table(printed: &str) -> Vec<Vec<&str>> {
    let rows = printed.lines().filter(|line| line.ends_with("  ok"));
    rows.map(|line| line.split_whitespace().take(2).collect()).collect()
}

#[test]
fn an_unknown_trouble_is_named() {
    let system = System::demo();
    system.payfold(&["demo", "pay", "--trouble", "rain"]).fails(&["#rain", "fix:"]);
}

/// A payment of the demo's shop that waits for its payer.
fn pending(system: &System) -> Value {
    let payment = json!({
        "partner": "sandbox", "reference": "r", "amount": 150_000, "currency": "VND",
        "description": "Two tickets",
    });
    let answer = system.create_payment(&system.home().data_file("demo.key"), "one", &payment);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

/// The same fields and signature that would pay an order as a notice, brought back by a browser.
pub fn a_return_settles_nothing_even_when_signed(pair: Pair) {
    let Some(home) = pair.home() else { return };
    let system = home.boot();
    let payment = pending(&system);
    let text = |name: &str| payment[name].as_str().expect("a text").to_owned();
    let (order, provider_ref) = (text("orderId"), text("providerRef"));
    let secret = home.data_file("sandbox.key");
    let notice = Notice::paid("DEMO", &order, &provider_ref).signed(&secret);
    let fields: serde_json::Map<String, Value> = serde_json::from_slice(&notice).expect("JSON");
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in &fields {
        query.append_pair(name, value.as_str().unwrap_or(&value.to_string()));
    }
    let query = query.finish();
    let inside = Inside::of(&home);
    let before = inside.heads();
    for (query, verified) in
        [(query.clone(), "true"), (query.replace("SUCCESS", "FAILED"), "false")]
    {
        let answer = system.ask(&get_request(&format!("/api/payment/result?{query}")));
        assert_eq!(answer.status, 303, "{}", answer.text());
        let location = answer.header("location").expect("where to go on").to_owned();
        assert!(location.contains(&format!("verified={verified}")), "{location}");
        assert!(!location.contains("SUCCESS") && !location.contains("amount"), "{location}");
    }
    assert_eq!(inside.heads(), before, "a return appends nothing");
    let key = ["sandbox", "DEMO", order.as_str()];
    system.order_when(key, |order| order["state"] == "PENDING");
    // As a notice the same bytes do settle it: they were good.
    assert_eq!(system.post_ipn(&notice).status, 200);
    system.order_when(key, |order| order["state"] == "PAID");
}
