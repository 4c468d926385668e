//! Owns the story of an order: paid once whatever is repeated, flagged when the money differs,
//! parked while unknown.

use payfold_engines::log::Topic;
use payfold_schemas::record_mac::Writer;
use serde_json::{Value, json};

use crate::support::demo::Demo;
use crate::support::notice::Notice;
use crate::support::pair::{Pair, create_request, with_log};
use crate::support::system::{System, alone};

fn flags(order: &Value) -> Vec<&str> {
    let flags = order["attention"].as_array().expect("a list");
    flags.iter().map(|flag| flag.as_str().expect("a flag")).collect()
}

pub fn an_order_is_paid_once_whatever_is_resent(pair: Pair) {
    let Some(demo) = Demo::on(pair) else { return };
    let [order, provider_ref] = demo.open_order();
    let key = ["sandbox", "DEMO", order.as_str()];
    let pending = demo.system.order_when(key, |order| order["state"] == "PENDING");
    assert_eq!((&pending["fulfil"], &pending["amount"]), (&json!(false), &json!(150_000)));

    let notice = Notice::paid("DEMO", &order, &provider_ref);
    let body = notice.clone().signed(&demo.secret);
    demo.take(&body);
    let paid = demo.system.order_when(key, |order| order["state"] == "PAID");
    assert_eq!((&paid["fulfil"], &paid["paidAmount"]), (&json!(true), &json!(150_000)));
    assert_eq!(paid["paymentRef"], provider_ref.as_str());
    assert_eq!(flags(&paid), [""; 0]);
    let version = paid["version"].as_u64().expect("a number");
    assert_eq!(version, pending["version"].as_u64().expect("a number") + 1);

    demo.take(&body);
    demo.take(&notice.clone().sent(-60).reversed().signed(&demo.secret));
    demo.take(&notice.clone().sent(7).signed(&demo.secret));
    demo.catch_up();
    let again = demo.system.order_when(key, |_| true);
    assert_eq!((&again["version"], &again["state"]), (&paid["version"], &paid["state"]));

    let facts = ["order", "show", key[0], key[1], key[2], "--facts", "--output", "json"];
    let facts = demo.system.payfold(&facts).json();
    let kinds: Vec<_> =
        facts.as_array().expect("a list").iter().map(|fact| &fact["effect"]).collect();
    assert_eq!(kinds, ["→ REQUESTED", "REQUESTED → PENDING", "PENDING → PAID"]);
    let raw = demo
        .system
        .payfold(&[
            "order", "show", key[0], key[1], key[2], "--facts", "--raw", "--reason", "to see",
        ])
        .ok();
    assert_eq!(raw.trim_end().as_bytes(), body);
    read_events(&demo.system, &order, version);
    trace(&demo.system, &order, &provider_ref, &facts[2]);
}

/// Downstream reads each version once, in order, without a gap.
fn read_events(system: &System, order: &str, version: u64) {
    let events = system.home().tail("orders");
    let mine: Vec<_> = events.iter().filter(|event| event["data"]["orderId"] == order).collect();
    let versions: Vec<_> = mine.iter().map(|event| event["data"]["version"].as_u64()).collect();
    assert_eq!(versions, (1..=version).map(Some).collect::<Vec<_>>());
    let last = mine.last().expect("an event");
    assert_eq!(
        (&last["type"], &last["data"]["state"]),
        (&json!("payfold.order.changed.v1"), &json!("PAID"))
    );
    assert_eq!(last["subject"], format!("sandbox/DEMO/{order}"));
    assert_eq!(last["data"]["previousState"], "PENDING");
}

/// The same story is found by request, ref and order.
fn trace(system: &System, order: &str, provider_ref: &str, fact: &Value) {
    let request = fact["requestId"].as_str().expect("a request id");
    let steps = |what: &str| {
        let found = system.payfold(&["trace", what, "--output", "json"]).json();
        let steps = found.as_array().expect("a list").clone();
        steps.into_iter().map(|step| step["step"].as_str().expect("a step").to_owned())
    };
    let of_request: Vec<_> = steps(request).collect();
    assert_eq!(of_request, ["stored ipn SUCCESS, key sandbox-1", "published version 3"]);
    // Two for opening, the notice, two repeats that are signed anew, three events; not the
    // unchanged repeat.
    let of_order: Vec<_> = steps(order).collect();
    assert_eq!(of_order.len(), 2 + 1 + 2 + 3, "{of_order:?}");
    assert_eq!(steps(provider_ref).collect::<Vec<_>>(), of_order);
    assert_eq!(steps(&format!("sandbox/DEMO/{order}")).collect::<Vec<_>>(), of_order);
    let nothing = system.payfold(&["trace", "an-unknown-id"]);
    assert_eq!(nothing.code(), 1);
    assert!(nothing.stderr.contains("fix:"), "{nothing:?}");
}

pub fn other_money_is_flagged_and_does_not_settle(pair: Pair) {
    let Some(demo) = Demo::on(pair) else { return };
    let [order, provider_ref] = demo.open_order();
    let less = Notice::paid("DEMO", &order, &provider_ref).with("amount", "149999");
    demo.take(&less.signed(&demo.secret));
    let key = ["sandbox", "DEMO", order.as_str()];
    let flagged = demo.system.order_when(key, |order| !flags(order).is_empty());
    assert_eq!(flags(&flagged), ["AMOUNT_MISMATCH"]);
    assert_eq!((&flagged["state"], &flagged["fulfil"]), (&json!("PENDING"), &json!(false)));
    let traced = demo.system.payfold(&["trace", &order, "--output", "json"]).json();
    let last = traced.as_array().and_then(|steps| steps.last()).expect("a step");
    assert_eq!((&last["role"], &last["flags"]), (&json!("projector"), &json!(["AMOUNT_MISMATCH"])));
    let listed = ["order", "list", "--flag", "AMOUNT_MISMATCH", "--output", "json"];
    assert_eq!(demo.system.payfold(&listed).json()[0]["orderId"], order.as_str());
}

pub fn a_notice_before_its_create_request_waits_for_it(pair: Pair) {
    let Some(demo) = Demo::on(pair) else { return };
    demo.pay("early-1", "ref-1");
    let key = ["sandbox", "DEMO", "early-1"];
    let parked = demo.system.order_when(key, |_| true);
    assert_eq!((&parked["state"], &parked["fulfil"]), (&json!("UNMATCHED"), &json!(false)));
    let (home, status) = demo.system.stop();
    assert_eq!(status.code(), Some(0), "{}", home.log());
    let create = create_request(&key.join("/"), b"");
    alone(|| {
        with_log(&home, Writer::Checkout, async |log| log.append(Topic::Intake, create).await)
    })
    .expect("it can be appended to");
    let again = Demo::of(home.boot());
    let paid = again.system.order_when(key, |order| order["state"] == "PAID");
    assert_eq!(paid["version"], 2);
    let home = again.system.kill();
    home.boot().order_when(key, |order| order["state"] == "PAID");
    assert_eq!(home.payfold(&["log", "verify"]).code(), 0);
}
