//! Owns the receiver of notices: a server that checks a notice as the contract says, with its own
//! HMAC, and remembers all notices in order of arrival. Tests can force its first answers.

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

const SIGNED_FIELDS: [&str; 9] = [
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

/// A received notice.
#[derive(Clone, Debug)]
pub struct ReceivedNotice {
    pub bytes: Bytes,
    pub notice: Value,
    pub answered: u16,
    pub at: Time,
}

impl ReceivedNotice {
    pub fn text(&self, field: &str) -> String {
        self.notice[field].as_str().unwrap_or_default().to_owned()
    }

    pub fn time(&self, field: &str) -> Time {
        Time::parse(&self.text(field)).unwrap()
    }
}

/// A forced answer in place of the correct one.
#[derive(Clone, Copy, Debug)]
pub enum ForcedAnswer {
    Status(u16),
    /// 200 with a body.
    OkWithBody,
}

#[derive(Default)]
struct SinkState {
    received: Mutex<Vec<ReceivedNotice>>,
    forced_answers: Mutex<VecDeque<ForcedAnswer>>,
}

#[derive(Clone)]
pub struct Sink {
    pub url: String,
    state: Arc<SinkState>,
    key: &'static [u8],
}

impl Sink {
    pub fn start(key: &'static [u8]) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let sink = Self { url, state: Arc::default(), key };
        let data = Data::new(sink.clone());
        let server = HttpServer::new(move || {
            App::new().app_data(data.clone()).route("/api/payment/ipn", web::post().to(receive))
        });
        let server = server.workers(1).disable_signals().listen(socket).unwrap().run();
        actix_web::rt::spawn(server);
        sink
    }

    /// Forces the answers to the next notices.
    pub fn force_answers(&self, forced_answers: &[ForcedAnswer]) {
        self.state.forced_answers.lock().unwrap().extend(forced_answers);
    }

    /// The notices received for an order so far.
    pub fn received(&self, order: &str) -> Vec<ReceivedNotice> {
        let received = self.state.received.lock().unwrap();
        received.iter().filter(|one| one.notice["orderId"] == order).cloned().collect()
    }

    fn choose_status(&self, notice: &Value, now: Time) -> u16 {
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

/// Lower-case hex of HMAC-SHA256 over the fields of table 2.3; a missing field is empty.
fn signature(notice: &Value, key: &[u8]) -> String {
    let slot = |field: &&str| match &notice[*field] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text = SIGNED_FIELDS.iter().map(slot).collect::<Vec<_>>().join("|");
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

async fn receive(sink: Data<Sink>, bytes: Bytes) -> HttpResponse {
    let notice: Value = serde_json::from_slice(&bytes).unwrap();
    let at = SystemClock.now();
    let forced_answer = sink.state.forced_answers.lock().unwrap().pop_front();
    let answered = match forced_answer {
        Some(ForcedAnswer::Status(status)) => status,
        Some(ForcedAnswer::OkWithBody) => 299,
        None => sink.choose_status(&notice, at),
    };
    sink.state.received.lock().unwrap().push(ReceivedNotice { bytes, notice, answered, at });
    match answered {
        200 => HttpResponse::Ok().finish(),
        299 => HttpResponse::Ok().body("OK"),
        other => {
            HttpResponse::build(actix_web::http::StatusCode::from_u16(other).unwrap()).finish()
        }
    }
}
