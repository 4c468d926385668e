//! Owns the load: what the shop and the partner do to a running program, and what they remember of
//! it. Invariant: an answer is remembered before the next request of its connection is sent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::faults::child::Addresses;
use crate::support::dice::Dice;
use crate::support::notice::{Notice, time};
use crate::support::wire::{Answer, Connection, bearer, notice_request, request};

/// The demo's account.
const PARTNER: &str = "sandbox";
const MERCHANT: &str = "DEMO";
/// Connections that post at the same time: enough for groups of several appends.
const CONNECTIONS: u64 = 12;
/// Notices go to so many of the newest orders, so that they meet.
const NEWEST: usize = 48;

/// The answers of all programs that ran over one data folder.
#[derive(Default)]
pub struct Seen {
    /// Bodies answered 200, and how often.
    pub acked: HashMap<Vec<u8>, u32>,
    /// Keys of orders that were created with the answer 201.
    pub opened: BTreeSet<String>,
    /// How often each status came.
    pub statuses: BTreeMap<u16, u64>,
}

impl Seen {
    /// Remembers the answer to a notice.
    pub fn answered(&mut self, body: &[u8], status: u16) {
        *self.statuses.entry(status).or_default() += 1;
        if status == 200 {
            *self.acked.entry(body.to_vec()).or_default() += 1;
        }
    }
}

/// An order as the partner knows it.
struct Known {
    order_id: String,
    provider_ref: String,
    amount: u64,
    paid_at: String,
    sent: Vec<Arc<Vec<u8>>>,
}

/// Shop and partner.
pub struct World {
    secret: String,
    token: String,
    orders: Mutex<Vec<Known>>,
    seen: Mutex<Seen>,
}

impl World {
    /// The shop and the partner of a data folder some program has made.
    pub fn of(data: &Path) -> Self {
        let read = |name: &str| fs::read_to_string(data.join(name)).expect("the demo made it");
        Self::with(read("sandbox.key").trim(), read("admin.token").trim())
    }

    /// A partner that signs with this secret, and a shop with that admin token.
    pub fn with(secret: &str, token: &str) -> Self {
        let (secret, token) = (secret.to_owned(), token.to_owned());
        Self { secret, token, orders: Mutex::default(), seen: Mutex::default() }
    }

    /// What was answered so far.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// Posts on every connection until the program is gone.
    pub fn press(self: &Arc<Self>, to: &Addresses, seed: u64) -> Vec<JoinHandle<()>> {
        let post = |connection| {
            let (world, to) = (Arc::clone(self), to.clone());
            let dice = Dice::new(seed, connection);
            // What ends it is the broken connection.
            thread::spawn(move || drop(world.press_one(&to, dice)))
        };
        (1..=CONNECTIONS).map(post).collect()
    }

    fn press_one(&self, to: &Addresses, mut dice: Dice) -> io::Result<()> {
        let mut public = Connection::try_open(&to.public)?;
        let mut admin = Connection::try_open(&to.admin)?;
        loop {
            if dice.roll(100) < 12 {
                self.open_order(&mut admin, 1_000 + dice.roll(1_000_000))?;
            }
            for body in self.say(&mut dice) {
                let answer = public.try_exchange(&notice_request(&body))?;
                self.seen().answered(&body, answer.status);
            }
        }
    }

    /// What the partner posts next: notices of the newest orders, of an unknown order, or bytes it
    /// sent before, answered or not. The second notice of one status is a re-stamped retry.
    pub fn say(&self, dice: &mut Dice) -> Vec<Arc<Vec<u8>>> {
        let signed: &[(&str, u64)] = match dice.roll(88) {
            0..8 => {
                let number = dice.roll(1_000_000);
                self.meet(format!("ghost-{number}"), format!("ref-{number}"), 5_000);
                &[]
            }
            8..33 => &[("SUCCESS", 0)],
            33..58 => return self.said_before(dice).into_iter().collect(),
            58..65 => &[("SUCCESS", 1)],
            65..75 => &[("REFUNDED", 0)],
            75..78 => &[("EXPIRED", 0)],
            _ => &[("FAILED", 0), ("SUCCESS", 0)],
        };
        signed.iter().filter_map(|notice| self.sign(dice, *notice)).collect()
    }

    /// Has the demo append the create fact and the session of a new order.
    pub fn open_order(&self, admin: &mut Connection, amount: u64) -> io::Result<()> {
        let body = format!(r#"{{"amount":{amount},"currency":"VND"}}"#);
        let (headers, body) = (bearer(&self.token), Some(body.as_bytes()));
        let answer = admin.try_exchange(&request("POST /v1/demo/orders", &headers, body))?;
        let mut seen = self.seen();
        *seen.statuses.entry(answer.status).or_default() += 1;
        if answer.status != 201 {
            return Ok(());
        }
        let opened = answer.json();
        let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
        let order_id = text(&opened["order"]["orderId"]);
        seen.opened.insert(format!("{PARTNER}/{MERCHANT}/{order_id}"));
        drop(seen);
        self.meet(order_id, text(&opened["providerRef"]), amount);
        Ok(())
    }

    /// An order the partner has to do with from now on.
    pub fn meet(&self, order_id: String, provider_ref: String, amount: u64) {
        let known = Known { order_id, provider_ref, amount, paid_at: time(0), sent: Vec::new() };
        lock(&self.orders).push(known);
    }

    /// Signs a notice of one of the newest orders now: its status, and what its amount is wrong by.
    fn sign(&self, dice: &mut Dice, (status, more): (&str, u64)) -> Option<Arc<Vec<u8>>> {
        let mut orders = lock(&self.orders);
        let order = newest(&mut orders, dice)?;
        let notice = Notice::paid(MERCHANT, &order.order_id, &order.provider_ref)
            .with_text("status", status)
            .with("amount", (order.amount + more).to_string());
        let notice = match status {
            "SUCCESS" => notice.with_text("paidAt", &order.paid_at),
            _ => notice.without("paidAt"),
        };
        let body = Arc::new(notice.signed(&self.secret));
        order.sent.push(Arc::clone(&body));
        Some(body)
    }

    /// Bytes that were sent before, answered or not.
    fn said_before(&self, dice: &mut Dice) -> Option<Arc<Vec<u8>>> {
        let mut orders = lock(&self.orders);
        let order = newest(&mut orders, dice)?;
        (!order.sent.is_empty()).then(|| Arc::clone(dice.pick(&order.sent)))
    }

    /// Posts a notice of a new, unknown order: distinct every time.
    pub fn post_fresh(&self, public: &mut Connection, number: u64) -> Answer {
        self.post(public, &self.sign_fresh(number, 0))
    }

    /// A notice of a new order, with a timestamp so many seconds from now.
    pub fn sign_fresh(&self, number: u64, sent: i64) -> Vec<u8> {
        let (order, provider_ref) = (format!("fresh-{number}"), format!("ref-{number}"));
        Notice::paid(MERCHANT, &order, &provider_ref).sent(sent).signed(&self.secret)
    }

    /// Posts these bytes to a program that answers.
    pub fn post(&self, public: &mut Connection, body: &[u8]) -> Answer {
        let answer = public.exchange(&notice_request(body));
        self.seen().answered(body, answer.status);
        answer
    }
}

fn newest<'a>(orders: &'a mut [Known], dice: &mut Dice) -> Option<&'a mut Known> {
    let from = orders.len().saturating_sub(NEWEST);
    let count = orders.len() - from;
    let place = dice.roll(u64::try_from(count.max(1)).ok()?);
    orders.get_mut(from + usize::try_from(place).ok()?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
