//! A partner like Midtrans with a signature that leaves out fields that decide money. Its notices
//! count once its own answer about them was fetched, and not otherwise. The partner is a server of
//! this test.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use payfold_engines::clock::{Clock, SystemClock};
use payfold_schemas::time::Time;
use serde_json::json;
use sha2::{Digest, Sha512};

use super::{WAIT_MAX, World, flags, order_when, queries};
use crate::own_creates::shipped;
use crate::support::stub;
use crate::support::system::System;
use crate::support::waits::until;

#[derive(Default)]
struct Requests {
    /// By order: which one the answer names, its transaction and the word on it.
    answers: BTreeMap<String, [String; 3]>,
    asked: Vec<String>,
    credentials: Vec<String>,
}

/// A partner that answers `GET /v2/<order>/status`.
struct Gateway {
    requests: Arc<Mutex<Requests>>,
    url: String,
}

impl Gateway {
    fn start() -> Self {
        let requests = Arc::<Mutex<Requests>>::default();
        let served = Arc::clone(&requests);
        let url = stub::serve(move |stream| serve(stream, &served));
        Self { requests, url }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn script_answer(&self, order: &str, answer: [&str; 3]) {
        self.requests().answers.insert(order.to_owned(), answer.map(str::to_owned));
    }

    fn asked(&self, order: &str) -> usize {
        self.requests().asked.iter().filter(|asked| *asked == order).count()
    }

    /// Waits until it was asked for an order once more.
    fn wait_for_query(&self, order: &str) {
        let before = self.asked(order);
        until("the order is asked for", WAIT_MAX, || (self.asked(order) > before).then_some(()));
    }
}

fn serve(mut stream: TcpStream, requests: &Mutex<Requests>) {
    let Some(request) = stub::read(&mut stream) else { return };
    let order = request.target().strip_prefix("/v2/").and_then(|rest| rest.strip_suffix("/status"));
    let order = order.unwrap_or_default().to_owned();
    let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
    requests.credentials.push(request.header("authorization").unwrap_or_default().to_owned());
    let (head, body) = match requests.answers.get(&order) {
        None => ("404 Not Found", json!({"status_code": "404"})),
        Some([named, transaction, word]) => (
            "200 OK",
            json!({
                "status_code": "200", "order_id": named, "transaction_id": transaction,
                "transaction_status": word, "gross_amount": "150000.00", "currency": "VND",
            }),
        ),
    };
    requests.asked.push(order);
    drop(requests);
    stub::answer(&mut stream, &format!("{head}\r\nconnection: close"), &body.to_string());
}

/// A notice that says paid, signed as the partner signs: neither the transaction nor the word is
/// covered.
fn paid_notice(order: &str, transaction: &str, secret: &str) -> String {
    let there = Time::from_unix_ms(SystemClock.now().unix_ms()).plus_ms(7 * 3_600_000);
    let local = there.to_rfc3339().replace('T', " ").chars().take(19).collect::<String>();
    let digest = Sha512::digest(format!("{order}200150000.00{secret}"));
    json!({
        "transaction_time": local, "settlement_time": local, "transaction_status": "settlement",
        "transaction_id": transaction, "status_code": "200", "signature_key": hex::encode(digest),
        "order_id": order, "gross_amount": "150000.00", "currency": "VND", "fraud_status": "accept",
    })
    .to_string()
}

fn notify(system: &System, order: &str, transaction: &str, secret: &str) {
    let notice = paid_notice(order, transaction, secret);
    let answer = system.post("/api/payment/ipn/acme", notice.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn is_unconfirmed(order: &serde_json::Value) -> bool {
    order["state"] == "UNCONFIRMED"
}

#[test]
fn a_notice_counts_once_the_partners_own_answer_was_fetched() {
    let (world, gateway) = (World::new(), Gateway::start());
    // The payments are made while the partner uses the default scheme; then it gets its own
    // profile.
    let system = world.home.boot();
    let orders = ["confirmed", "denied", "mixed"].map(|name| world.create(&system, name));
    let [confirmed, denied, mixed] = orders.each_ref().map(String::as_str);
    let (home, _) = system.stop();
    let settings =
        home.read("payfold.toml").replace("profile = \"sandbox\"", "profile = \"acme.toml\"");
    home.write("payfold.toml", &settings.replace(&world.partner.url(), &gateway.url));
    let shipped = shipped("midtrans");
    home.write("acme.toml", &shipped.replace("stage = \"draft\"", "stage = \"sandbox\""));
    let check = home.payfold(&["check"]);
    assert!(check.stdout.contains("about a stuck payment: acme"), "{}", check.stdout);

    let of = |order: &str| format!("t-{order}");
    for order in orders.each_ref() {
        gateway.script_answer(order, [order, &of(order), "pending"]);
    }
    let system = home.boot();
    for order in orders.each_ref() {
        notify(&system, order, &of(order), &world.secret);
        order_when(&system, order, is_unconfirmed);
        gateway.wait_for_query(order);
        order_when(&system, order, is_unconfirmed);
    }
    gateway.script_answer(confirmed, [confirmed, &of(confirmed), "settlement"]);
    gateway.script_answer(denied, [denied, &of(denied), "deny"]);
    // Nothing is believed of an answer about another order.
    gateway.script_answer(mixed, [confirmed, &of(mixed), "settlement"]);
    let paid = order_when(&system, confirmed, |order| order["state"] == "PAID");
    assert_eq!(
        (&paid["paymentRef"], &paid["fulfil"]),
        (&of(confirmed).into(), &true.into()),
        "{paid}"
    );
    assert!(!flags(&paid).contains(&"UNCONFIRMED".to_owned()), "{paid}");
    let version = paid["version"].clone();
    let refused = order_when(&system, denied, |order| order["state"] == "FAILED");
    assert_ne!(refused["fulfil"], true, "{refused}");
    gateway.wait_for_query(mixed);
    gateway.wait_for_query(mixed);
    order_when(&system, mixed, is_unconfirmed);
    assert!(queries(&system, "wrong_answer") >= 1);
    assert_eq!(queries(&system, "not_asked"), 0);

    // A forged transaction of a true payment: the partner names its own transaction, and that one
    // counts as paid.
    gateway.script_answer(mixed, [mixed, "t-9", "settlement"]);
    let paid = order_when(&system, mixed, |order| order["state"] == "PAID");
    assert_eq!(paid["paymentRef"], "t-9", "{paid}");

    // A forged notice of another order names the transaction of a true payment: it takes nothing
    // from it.
    notify(&system, denied, &of(confirmed), &world.secret);
    order_when(&system, denied, |order| flags(order).contains(&"UNCONFIRMED".to_owned()));
    gateway.wait_for_query(denied);
    gateway.wait_for_query(denied);
    let paid = order_when(&system, confirmed, |_| true);
    assert_eq!((&paid["fulfil"], &paid["version"]), (&true.into(), &version), "{paid}");

    let requests = gateway.requests();
    assert!(requests.credentials.iter().all(|credential| credential.starts_with("Basic ")));
    drop(requests);
    let (home, _) = system.stop();
    assert!(!home.log().contains(&world.secret), "the log holds no secret");
}
