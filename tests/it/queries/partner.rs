//! Owns a partner that a test scripts: it opens every payment and gives scripted answers to
//! queries. It verifies their signatures with code of its own, and records when it was asked for
//! which payment.

use std::collections::{BTreeMap, HashMap};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hmac::Hmac;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::notice::hmac;
use crate::support::stub;

/// The answer to a query for a payment.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptedAnswer {
    /// 404.
    Nothing,
    /// This status with the money that was asked for.
    Status(&'static str),
    /// The same of another order.
    OfAnotherOrder,
    /// SUCCESS over one unit more.
    OtherAmount,
    /// 429 with so many seconds.
    Busy(u64),
    /// A redirect.
    Redirect,
}

/// What was asked: a path's ref or an order, and when.
#[derive(Clone, Debug)]
pub struct Asked {
    pub what: String,
    pub at: Instant,
}

#[derive(Default)]
struct PartnerState {
    secret: String,
    /// By order: its ref, amount, currency.
    payments: BTreeMap<String, (String, u64, String)>,
    answers: HashMap<String, ScriptedAnswer>,
    asked: Vec<Asked>,
    badly_signed: Vec<String>,
    /// Create calls are answered 500, and make the payment all the same.
    silent: bool,
}

pub struct Partner {
    state: Arc<Mutex<PartnerState>>,
    url: String,
    is_away: Arc<AtomicBool>,
}

impl Partner {
    /// One that serves until this process ends.
    pub fn start() -> Self {
        let (state, is_away) = (Arc::<Mutex<PartnerState>>::default(), Arc::default());
        let (served, away) = (Arc::clone(&state), Arc::<AtomicBool>::clone(&is_away));
        let url = stub::serve(move |stream| {
            if !away.load(Ordering::SeqCst) {
                serve(stream, &served);
            }
        });
        Self { state, url, is_away }
    }

    fn state(&self) -> MutexGuard<'_, PartnerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes every new connection at once. It keeps its port: another test could get a free one.
    pub fn goes_away(&self) {
        self.is_away.store(true, Ordering::SeqCst);
    }

    pub fn comes_back(&self) {
        self.is_away.store(false, Ordering::SeqCst);
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The key of the account here.
    pub fn knows_secret(&self, secret: &str) {
        secret.clone_into(&mut self.state().secret);
    }

    /// From now on create calls are answered 500; the payments are made all the same.
    pub fn opens_in_silence(&self) {
        self.state().silent = true;
    }

    /// Sets the answer for an order from now on.
    pub fn script_answer(&self, order: &str, answer: ScriptedAnswer) {
        self.state().answers.insert(order.to_owned(), answer);
    }

    /// The ref of an order.
    pub fn ref_of(&self, order: &str) -> String {
        self.state().payments[order].0.clone()
    }

    /// The orders it has, in the order of their ids.
    pub fn orders(&self) -> Vec<String> {
        self.state().payments.keys().cloned().collect()
    }

    /// When an order was asked for, by its ref or itself.
    pub fn asked(&self, order: &str) -> Vec<Asked> {
        let state = self.state();
        let provider_ref = &state.payments[order].0;
        let of_order = |asked: &&Asked| asked.what == order || asked.what == *provider_ref;
        state.asked.iter().filter(of_order).cloned().collect()
    }

    pub fn badly_signed(&self) -> Vec<String> {
        self.state().badly_signed.clone()
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<PartnerState>) {
    let Some(request) = stub::read(&mut stream) else { return };
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let (head, body) = match request.head.starts_with("POST ") {
        true => state.create(&request.body),
        false => state.query(request.target()),
    };
    drop(state);
    stub::answer(&mut stream, &format!("{head}\r\nconnection: close"), &body);
}

impl PartnerState {
    fn create(&mut self, body: &str) -> (String, String) {
        let asked: Value = serde_json::from_str(body).expect("a create call is JSON");
        let text = |name: &str| asked[name].as_str().expect("a text").to_owned();
        let provider_ref = format!("ref-{}", self.payments.len());
        let amount = asked["amount"].as_u64().expect("an amount");
        let payment = (provider_ref.clone(), amount, text("currency"));
        self.payments.insert(text("orderId"), payment);
        if self.silent {
            return ("500 Oops".to_owned(), String::new());
        }
        let answer = json!({
            "providerRef": provider_ref, "qrPayload": "qr", "expiresAt": "2100-01-01T00:00:00Z",
        });
        ("200 OK".to_owned(), answer.to_string())
    }

    fn query(&mut self, target: &str) -> (String, String) {
        let url = url::Url::parse(&format!("http://x{target}")).expect("a target");
        let parameters: HashMap<String, String> = url.query_pairs().into_owned().collect();
        let parameter = |name: &str| parameters.get(name).cloned().unwrap_or_default();
        let provider_ref = url.path().strip_prefix("/payments").expect("the profile's path");
        let provider_ref = provider_ref.trim_start_matches('/').to_owned();
        let order = parameter("orderId");
        let text = [
            parameter("merchantCode"),
            provider_ref.clone(),
            order.clone(),
            parameter("timestamp"),
        ];
        if parameter("signature") != hmac::<Hmac<Sha256>>(&self.secret, &text.join("|")) {
            self.badly_signed.push(target.to_owned());
        }
        let what = if provider_ref.is_empty() { order.clone() } else { provider_ref.clone() };
        self.asked.push(Asked { what, at: Instant::now() });
        let of_question = |(id, (known, ..)): &(&String, &(String, u64, String))| {
            **id == order || *known == provider_ref
        };
        let Some((order, (provider_ref, amount, currency))) =
            self.payments.iter().find(of_question)
        else {
            return ("404 Not Found".to_owned(), "{}".to_owned());
        };
        let payment_answer = |order: &str, status: &str, amount: u64| {
            let body = json!({
                "merchantCode": "M", "orderId": order, "providerRef": provider_ref,
                "status": status, "amount": amount, "currency": currency,
            });
            ("200 OK".to_owned(), body.to_string())
        };
        match self.answers.get(order).unwrap_or(&ScriptedAnswer::Status("PENDING")) {
            ScriptedAnswer::Nothing => ("404 Not Found".to_owned(), "{}".to_owned()),
            ScriptedAnswer::Status(status) => payment_answer(order, status, *amount),
            ScriptedAnswer::OfAnotherOrder => {
                payment_answer("ord-somebody-else's", "SUCCESS", *amount)
            }
            ScriptedAnswer::OtherAmount => payment_answer(order, "SUCCESS", *amount + 1),
            ScriptedAnswer::Busy(seconds) => {
                (format!("429 Too Many Requests\r\nretry-after: {seconds}"), String::new())
            }
            ScriptedAnswer::Redirect => ("302 Found\r\nlocation: /else".to_owned(), String::new()),
        }
    }
}
