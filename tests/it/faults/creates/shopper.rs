//! Owns a shop that never gives up: it asks under one key until the answer is definite, and holds
//! that every answer under one key names one order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::bench::{Bench, Shop};

/// A definite answer.
#[derive(Clone, Debug)]
pub struct CreateAnswer {
    pub key: String,
    pub order_id: String,
    pub status: u16,
}

pub struct Shopper(thread::JoinHandle<Vec<CreateAnswer>>);

impl Shopper {
    /// Creates payment after payment until it is signalled to stop.
    pub fn start(bench: &Bench, n: usize) -> Self {
        let (shop, stop) = (bench.shop(), bench.stop_flag());
        Self(thread::spawn(move || ask_on(&shop, &stop, n)))
    }

    /// Every definite answer it got, once its last payment has one.
    pub fn finish(self) -> Vec<CreateAnswer> {
        self.0.join().expect("a shopper ends without a panic")
    }
}

fn ask_on(shop: &Shop, stop: &Arc<AtomicBool>, shopper: usize) -> Vec<CreateAnswer> {
    let mut answers = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let key = format!("shopper-{shopper}-{}", answers.len());
        let first = ask(shop, &key);
        let again = ask(shop, &key);
        assert_eq!(first.order_id, again.order_id, "{key}: one key has one order");
        answers.push(first);
    }
    answers
}

/// Asks until the answer is definite, then once more: every answer under one key names one order.
/// A broken connection, 409 and 503 are not definite, so the shop asks again under the key.
fn ask(shop: &Shop, key: &str) -> CreateAnswer {
    let body = json!({
        "partner": "sandbox", "merchantCode": "DEMO", "reference": key, "amount": 150_000,
        "currency": "VND", "description": format!("{key} #pay"),
    });
    loop {
        let Some((status, answer)) = shop.post(key, &body) else {
            // It is being killed and started: there is nothing to wait for but time.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        match status {
            201 | 202 => {
                let key = key.to_owned();
                return CreateAnswer { key, order_id: id(&answer), status };
            }
            409 | 503 => thread::sleep(Duration::from_millis(20)),
            other => panic!("{key}: {other} {answer}"),
        }
    }
}

fn id(answer: &Value) -> String {
    answer["orderId"].as_str().expect("an answer names its order").to_owned()
}
