//! Owns where notices go: a server that takes a notice as the contract says, with an HMAC of its own, and remembers
//! everything in the order it came. It can be told to refuse first.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use actix_web::web::{self, Bytes, Data};
use actix_web::{App, HttpResponse, HttpServer};
use hmac::{Hmac, Mac};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_schemas::time::Time;
use serde_json::Value;
use sha2::Sha256;

const SIGNED: [&str; 9] = [
    "merchantCode",
    "orderId",
    "providerRef",
    "status",
    "amount",
    "currency",
    "paidAt",
    "timestamp",
    "nonce",
];

/// A notice that came.
#[derive(Clone, Debug)]
pub struct Received {
    pub bytes: Bytes,
    pub notice: Value,
    pub answered: u16,
    pub at: Time,
}

impl Received {
    pub fn text(&self, field: &str) -> String {
        self.notice[field].as_str().unwrap_or_default().to_owned()
    }

    pub fn time(&self, field: &str) -> Time {
        Time::parse(&self.text(field)).unwrap()
    }
}

/// What is answered instead of what is right.
#[derive(Clone, Copy, Debug)]
pub enum Mood {
    Status(u16),
    /// 200 and a body.
    Chatty,
}

#[derive(Default)]
struct Ledger {
    received: Mutex<Vec<Received>>,
    moods: Mutex<VecDeque<Mood>>,
}

#[derive(Clone)]
pub struct Sink {
    pub url: String,
    ledger: Arc<Ledger>,
    key: &'static [u8],
}

impl Sink {
    pub fn start(key: &'static [u8]) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let sink = Self { url, ledger: Arc::default(), key };
        let data = Data::new(sink.clone());
        let server = HttpServer::new(move || {
            App::new().app_data(data.clone()).route("/api/payment/ipn", web::post().to(take))
        });
        let server = server.workers(1).disable_signals().listen(socket).unwrap().run();
        actix_web::rt::spawn(server);
        sink
    }

    /// The next notices are answered so.
    pub fn answer_first(&self, moods: &[Mood]) {
        self.ledger.moods.lock().unwrap().extend(moods);
    }

    /// What came for an order so far.
    pub fn of(&self, order: &str) -> Vec<Received> {
        let received = self.ledger.received.lock().unwrap();
        received.iter().filter(|one| one.notice["orderId"] == order).cloned().collect()
    }

    fn judge(&self, notice: &Value, now: Time) -> u16 {
        if notice["signature"] != signature(notice, self.key) {
            return 401;
        }
        if notice["merchantCode"] == "SOMEBODY-ELSE" {
            return 401;
        }
        if notice["status"] == "SUCCESS" && notice["paidAt"].is_null() {
            return 400;
        }
        if !notice["amount"].is_number() {
            return 400;
        }
        let timestamp = Time::parse(notice["timestamp"].as_str().unwrap()).unwrap();
        let off = now.nanos_since(timestamp).unsigned_abs() / 1_000_000_000;
        if off > 300 { 403 } else { 200 }
    }
}

/// Lower-case hex of HMAC-SHA256 over the fields of table 2.3, an empty slot for what is not there.
fn signature(notice: &Value, key: &[u8]) -> String {
    let slot = |field: &&str| match &notice[*field] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text = SIGNED.iter().map(slot).collect::<Vec<_>>().join("|");
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

async fn take(sink: Data<Sink>, bytes: Bytes) -> HttpResponse {
    let notice: Value = serde_json::from_slice(&bytes).unwrap();
    let at = SystemClock.now();
    let mood = sink.ledger.moods.lock().unwrap().pop_front();
    let answered = match mood {
        Some(Mood::Status(status)) => status,
        Some(Mood::Chatty) => 299,
        None => sink.judge(&notice, at),
    };
    sink.ledger.received.lock().unwrap().push(Received { bytes, notice, answered, at });
    match answered {
        200 => HttpResponse::Ok().finish(),
        299 => HttpResponse::Ok().body("OK"),
        other => {
            HttpResponse::build(actix_web::http::StatusCode::from_u16(other).unwrap()).finish()
        }
    }
}
