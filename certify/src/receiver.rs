//! Owns the certifier's IPN endpoint and return address. They record IPNs and returns. An IPN is
//! answered as its payment's case requires: with 200, once with 503, or once not at all. Nothing is
//! stored on disk, and no order changes.

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

use super::observations::{IpnAnswer, IpnDelivery, PaymentCase, ReceivedReturn};
use super::reading;

/// The largest body that any profile can allow, in bytes.
const BODY_BYTES_MAX: usize = 1_048_576;
/// The most IPNs, and the most returns, recorded for one payment. It bounds the memory.
const RECORDED_MAX: usize = 200;
/// The page for a returning payer.
const RETURN_PAGE: &str = "<!doctype html><meta charset=utf-8><title>Back</title>\
    <p>You are back. You may close this page.";

/// The receiver of one run.
pub(super) struct Receiver {
    pub(super) directory: Arc<Directory>,
    pub(super) partner: PartnerCode,
    pub(super) profile: Arc<Profile>,
    pub(super) clock: Arc<dyn Clock>,
    /// How long an IPN without an answer is held.
    pub(super) hang: Duration,
    pub(super) orders: Mutex<HashMap<OrderId, ReceivedForOrder>>,
}

/// The IPNs and returns of one payment.
#[derive(Clone, Debug)]
pub(super) struct ReceivedForOrder {
    case: PaymentCase,
    /// Whether an IPN got the special answer of the case.
    case_answer: CaseAnswer,
    pub(super) deliveries: Vec<IpnDelivery>,
    pub(super) returns: Vec<ReceivedReturn>,
}

/// Whether the special answer of a case (503, or none) is given. It is given once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaseAnswer {
    Pending,
    Given,
}

impl Receiver {
    /// Serves the endpoints on a socket until the returned handle stops them.
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

    fn lock_orders(&self) -> MutexGuard<'_, HashMap<OrderId, ReceivedForOrder>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an order, so that its IPNs and returns are recorded.
    pub(super) fn register_order(&self, order_id: &OrderId, case: PaymentCase) {
        let (deliveries, returns) = (Vec::new(), Vec::new());
        let received =
            ReceivedForOrder { case, case_answer: CaseAnswer::Pending, deliveries, returns };
        self.lock_orders().insert(order_id.clone(), received);
    }

    /// The IPNs and returns of an order so far.
    pub(super) fn received_for(
        &self,
        order_id: &OrderId,
    ) -> (Vec<IpnDelivery>, Vec<ReceivedReturn>) {
        let orders = self.lock_orders();
        let received = orders.get(order_id);
        received.map(|one| (one.deliveries.clone(), one.returns.clone())).unwrap_or_default()
    }

    /// Records an IPN and returns its answer. `None` if it belongs to no payment of this run.
    fn record_ipn(&self, at_address: Option<&str>, body: &[u8]) -> Option<IpnAnswer> {
        let at = self.clock.now();
        let reading = reading::read_ipn(&self.directory, &self.partner, body, at);
        // A partner that uses one registered address names the order only in the body.
        let named = || reading::unsigned_text(body, "orderId");
        let order = at_address.map(str::to_owned).or_else(named)?;
        let mut orders = self.lock_orders();
        let received = orders.get_mut(&OrderId::parse(&order).ok()?)?;
        let answer = match reading::refusal_status(&reading, &self.profile, at) {
            Some(status) => IpnAnswer::Refused(status),
            None => received.choose_answer(),
        };
        if received.deliveries.len() < RECORDED_MAX {
            let digest = Digest::of_bytes(body);
            received.deliveries.push(IpnDelivery { at, digest, reading, answer });
        }
        Some(answer)
    }

    fn record_return(&self, order: Option<&str>, query: &str) {
        let browser_return = reading::read_return(&self.directory, query, self.clock.now());
        let order =
            order.or_else(|| browser_return.text("orderId")).and_then(|id| OrderId::parse(id).ok());
        let Some(order) = order else { return };
        if let Some(received) = self.lock_orders().get_mut(&order)
            && received.returns.len() < RECORDED_MAX
        {
            received.returns.push(browser_return);
        }
    }
}

impl ReceivedForOrder {
    /// The answer to an admissible IPN.
    fn choose_answer(&mut self) -> IpnAnswer {
        match (self.case, self.case_answer) {
            (PaymentCase::Busy, CaseAnswer::Pending) => {
                self.case_answer = CaseAnswer::Given;
                IpnAnswer::Unavailable
            }
            (PaymentCase::Silent, CaseAnswer::Pending) => {
                self.case_answer = CaseAnswer::Given;
                IpnAnswer::NoAnswer
            }
            _ => IpnAnswer::Acknowledged,
        }
    }
}

/// Registers the routes. The paths are those of the system in service, so that a partner that calls
/// only registered addresses can be certified through the real host name.
fn routes(config: &mut ServiceConfig, receiver: Data<Receiver>) {
    config
        .app_data(receiver)
        .app_data(PayloadConfig::new(BODY_BYTES_MAX))
        .route("/api/payment/ipn", web::post().to(handle_ipn))
        .route("/api/payment/ipn/{order}", web::post().to(handle_ipn_at))
        .route("/api/payment/result", web::get().to(handle_return))
        .route("/api/payment/result/{order}", web::get().to(handle_return_at));
}

async fn handle_ipn(receiver: Data<Receiver>, body: Bytes) -> HttpResponse {
    send_answer(&receiver, receiver.record_ipn(None, &body)).await
}

async fn handle_ipn_at(receiver: Data<Receiver>, order: Path<String>, body: Bytes) -> HttpResponse {
    send_answer(&receiver, receiver.record_ipn(Some(&order), &body)).await
}

async fn send_answer(receiver: &Receiver, answer: Option<IpnAnswer>) -> HttpResponse {
    match answer {
        Some(IpnAnswer::Acknowledged) => HttpResponse::Ok().finish(),
        Some(IpnAnswer::Unavailable) => {
            HttpResponse::ServiceUnavailable().insert_header(("retry-after", "1")).finish()
        }
        Some(IpnAnswer::NoAnswer) => {
            // A sender with a shorter timeout closes the connection, which drops this future.
            sleep(receiver.hang).await;
            HttpResponse::GatewayTimeout().finish()
        }
        Some(IpnAnswer::Refused(400)) => HttpResponse::BadRequest().finish(),
        Some(IpnAnswer::Refused(403)) => HttpResponse::Forbidden().finish(),
        Some(IpnAnswer::Refused(_)) => HttpResponse::Unauthorized().finish(),
        None => HttpResponse::NotFound().finish(),
    }
}

async fn handle_return(receiver: Data<Receiver>, request: HttpRequest) -> HttpResponse {
    receiver.record_return(None, request.query_string());
    respond_return_page()
}

async fn handle_return_at(
    receiver: Data<Receiver>,
    order: Path<String>,
    request: HttpRequest,
) -> HttpResponse {
    receiver.record_return(Some(&order), request.query_string());
    respond_return_page()
}

fn respond_return_page() -> HttpResponse {
    HttpResponse::Ok().content_type("text/html; charset=utf-8").body(RETURN_PAGE)
}
