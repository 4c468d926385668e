//! Owns the certifier's own IPN endpoint and return address: it records what comes and answers as the payment's case
//! needs, 200, 503 once, or once nothing. It stores nothing and settles nothing.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::web::{self, Bytes, Data, Path, PayloadConfig, ServiceConfig};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use payfold_engines::clock::Clock;
use payfold_partners::directory::Directory;
use payfold_partners::profile::Profile;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{OrderId, PartnerCode};
use tokio::time::sleep;

use super::seen::{Answered, Case, Delivery, Return};
use super::signed;

/// A notice is a few hundred bytes; a profile may allow up to this.
const BODY_BYTES_MAX: usize = 1_048_576;
/// What is kept of one payment, so that nobody fills the memory.
const KEPT_MAX: usize = 200;
/// What a payer is shown who comes back.
const BACK: &str = "<!doctype html><meta charset=utf-8><title>Back</title><p>You are back. You may close this page.";

/// The receiver of one run.
pub(super) struct Receiver {
    pub(super) directory: Arc<Directory>,
    pub(super) partner: PartnerCode,
    pub(super) profile: Arc<Profile>,
    pub(super) clock: Arc<dyn Clock>,
    /// How long an IPN that gets no answer is held.
    pub(super) hang: Duration,
    pub(super) orders: Mutex<HashMap<OrderId, Received>>,
}

/// What came for one payment.
#[derive(Clone, Debug)]
pub(super) struct Received {
    case: Case,
    /// Its first IPN has been answered as the case needs.
    disturbed: Disturbed,
    pub(super) deliveries: Vec<Delivery>,
    pub(super) returns: Vec<Return>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbed {
    Not,
    Yes,
}

impl Receiver {
    /// Serves it on a socket, until it is stopped.
    pub(super) fn serve(self: &Arc<Self>, socket: TcpListener) -> std::io::Result<ServerHandle> {
        let receiver = Data::from(Arc::clone(self));
        let server = HttpServer::new(move || {
            let receiver = receiver.clone();
            App::new().configure(move |config| routes(config, receiver))
        });
        let server = server.workers(1).shutdown_timeout(1).disable_signals().listen(socket)?.run();
        let handle = server.handle();
        actix_web::rt::spawn(server);
        Ok(handle)
    }

    fn orders(&self) -> MutexGuard<'_, HashMap<OrderId, Received>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on IPNs and returns of this order are taken.
    pub(super) fn expect(&self, order_id: &OrderId, case: Case) {
        let (deliveries, returns) = (Vec::new(), Vec::new());
        let received = Received { case, disturbed: Disturbed::Not, deliveries, returns };
        self.orders().insert(order_id.clone(), received);
    }

    /// What came for an order so far.
    pub(super) fn of(&self, order_id: &OrderId) -> (Vec<Delivery>, Vec<Return>) {
        let orders = self.orders();
        let received = orders.get(order_id);
        received.map(|one| (one.deliveries.clone(), one.returns.clone())).unwrap_or_default()
    }

    /// Records an IPN and says how it is answered; `None` if it is about no payment of this run.
    fn take(&self, at_address: Option<&str>, body: &[u8]) -> Option<Answered> {
        let at = self.clock.now();
        let reading = signed::ipn(&self.directory, &self.partner, body, at);
        // A partner that knows one address only names the order in the body alone.
        let named = || signed::text_of(body, "orderId");
        let order = at_address.map(str::to_owned).or_else(named)?;
        let mut orders = self.orders();
        let received = orders.get_mut(&OrderId::parse(&order).ok()?)?;
        let answered = match signed::refusal(&reading, &self.profile, at) {
            Some(status) => Answered::Refused(status),
            None => received.answer(),
        };
        if received.deliveries.len() < KEPT_MAX {
            let digest = Digest::of_bytes(body);
            received.deliveries.push(Delivery { at, digest, reading, answered });
        }
        Some(answered)
    }

    fn take_back(&self, order: Option<&str>, query: &str) {
        let seen = signed::browser_return(&self.directory, query, self.clock.now());
        let order = order.or_else(|| seen.text("orderId")).and_then(|id| OrderId::parse(id).ok());
        let Some(order) = order else { return };
        if let Some(received) = self.orders().get_mut(&order)
            && received.returns.len() < KEPT_MAX
        {
            received.returns.push(seen);
        }
    }
}

impl Received {
    fn answer(&mut self) -> Answered {
        match (self.case, self.disturbed) {
            (Case::Busy, Disturbed::Not) => {
                self.disturbed = Disturbed::Yes;
                Answered::Busy
            }
            (Case::Silent, Disturbed::Not) => {
                self.disturbed = Disturbed::Yes;
                Answered::Silent
            }
            _ => Answered::Taken,
        }
    }
}

/// The addresses are those of the system, so that a partner which lets only registered ones pass can be certified
/// through the real host name.
fn routes(config: &mut ServiceConfig, receiver: Data<Receiver>) {
    config
        .app_data(receiver)
        .app_data(PayloadConfig::new(BODY_BYTES_MAX))
        .route("/api/payment/ipn", web::post().to(ipn))
        .route("/api/payment/ipn/{order}", web::post().to(ipn_at))
        .route("/api/payment/result", web::get().to(back))
        .route("/api/payment/result/{order}", web::get().to(back_at));
}

async fn ipn(receiver: Data<Receiver>, body: Bytes) -> HttpResponse {
    answer(&receiver, receiver.take(None, &body)).await
}

async fn ipn_at(receiver: Data<Receiver>, order: Path<String>, body: Bytes) -> HttpResponse {
    answer(&receiver, receiver.take(Some(&order), &body)).await
}

async fn answer(receiver: &Receiver, answered: Option<Answered>) -> HttpResponse {
    match answered {
        Some(Answered::Taken) => HttpResponse::Ok().finish(),
        Some(Answered::Busy) => {
            HttpResponse::ServiceUnavailable().insert_header(("retry-after", "1")).finish()
        }
        Some(Answered::Silent) => {
            // Whoever waits shorter than this hangs up, which ends this future.
            sleep(receiver.hang).await;
            HttpResponse::GatewayTimeout().finish()
        }
        Some(Answered::Refused(400)) => HttpResponse::BadRequest().finish(),
        Some(Answered::Refused(403)) => HttpResponse::Forbidden().finish(),
        Some(Answered::Refused(_)) => HttpResponse::Unauthorized().finish(),
        None => HttpResponse::NotFound().finish(),
    }
}

async fn back(receiver: Data<Receiver>, request: HttpRequest) -> HttpResponse {
    receiver.take_back(None, request.query_string());
    welcome()
}

async fn back_at(
    receiver: Data<Receiver>,
    order: Path<String>,
    request: HttpRequest,
) -> HttpResponse {
    receiver.take_back(Some(&order), request.query_string());
    welcome()
}

fn welcome() -> HttpResponse {
    HttpResponse::Ok().content_type("text/html; charset=utf-8").body(BACK)
}
