//! Owns the certifier's IPN endpoint and return address. They record IPNs and returns. An IPN is
//! answered as its payment's case requires: acknowledged, once asked to come again, or once not
//! answered at all; in the words of the profile, if it has its own. Nothing is stored on disk, and
//! no order changes.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::http::StatusCode;
use actix_web::web::{self, Bytes, Data, Path, PayloadConfig, ServiceConfig};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use payfold_engines::clock::Clock;
use payfold_partners::directory::{Account, Directory};
use payfold_partners::scheme::{AckKind, AckResponse, NoticeRequest};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::OrderId;
use tokio::time::sleep;

use super::observations::{IpnAnswer, IpnDelivery, IpnReading, PaymentCase, ReceivedReturn};
use super::reading::{self, ReadIpn};

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
    /// The certified account.
    pub(super) account: Arc<Account>,
    /// The base URL that partner and browsers call, without a `/` at its end.
    pub(super) public_url: String,
    pub(super) clock: Arc<dyn Clock>,
    /// How long an IPN without an answer is held.
    pub(super) hang: Duration,
    pub(super) received: Mutex<Received>,
}

/// The requests of a run so far.
#[derive(Default)]
pub(super) struct Received {
    orders: HashMap<OrderId, ReceivedForOrder>,
    /// Notices that belong to no payment of the run, signed or not.
    strangers: usize,
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

/// Whether the special answer of a case (come again, or none) is given. It is given once.
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

    fn lock(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of a payment's IPNs: the profile's own, with the order behind it.
    pub(super) fn ipn_url(&self, order_id: &OrderId) -> String {
        format!("{}{}/{order_id}", self.public_url, self.account.profile().ipn_path())
    }

    /// The address that a payer's browser returns to.
    pub(super) fn return_url(&self, order_id: &OrderId) -> String {
        format!("{}/api/payment/result/{order_id}", self.public_url)
    }

    /// Registers an order, so that its IPNs and returns are recorded.
    pub(super) fn register_order(&self, order_id: &OrderId, case: PaymentCase) {
        let (deliveries, returns) = (Vec::new(), Vec::new());
        let received =
            ReceivedForOrder { case, case_answer: CaseAnswer::Pending, deliveries, returns };
        self.lock().orders.insert(order_id.clone(), received);
    }

    /// The IPNs and returns of an order so far.
    pub(super) fn received_for(
        &self,
        order_id: &OrderId,
    ) -> (Vec<IpnDelivery>, Vec<ReceivedReturn>) {
        let all = self.lock();
        let received = all.orders.get(order_id);
        received.map(|one| (one.deliveries.clone(), one.returns.clone())).unwrap_or_default()
    }

    /// The number of notices so far that belong to no payment of the run.
    pub(super) fn count_strangers(&self) -> usize {
        self.lock().strangers
    }

    /// Whether IPNs of the partner may come to this path.
    fn takes_path(&self, path: &str) -> bool {
        let rest = path.strip_prefix(&self.account.profile().ipn_path());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Records the IPNs of a request and returns its answer. `None` if no IPN belongs to a payment
    /// of this run.
    fn record_ipns(&self, request: &NoticeRequest<'_>) -> Option<IpnReply> {
        let at = self.clock.now();
        let ipns = reading::read_ipns(&self.directory, &self.account, request, at);
        let content = if request.body.is_empty() { request.query.as_bytes() } else { request.body };
        let digest = Digest::of_bytes(content);
        let mut all = self.lock();
        let at_address = all.order_in(&request.target());
        let in_body = all.order_in(&String::from_utf8_lossy(request.body));
        let mut known = Vec::new();
        for ipn in &ipns {
            // A partner that uses one registered address names the order only in the content.
            let content = ipn.reading.as_ref().and_then(IpnReading::admissible);
            let named = content.map(|content| content.order_id.clone());
            let order = at_address.clone().or(named).or_else(|| in_body.clone());
            match order.filter(|order| all.orders.contains_key(order)).zip(ipn.reading.clone()) {
                Some(known_ipn) => known.push(known_ipn),
                None => all.strangers += 1,
            }
        }
        let reply = all.reply_to(&ipns, &known)?;
        for (order, reading) in known {
            let Some(received) = all.orders.get_mut(&order) else { continue };
            if received.deliveries.len() < RECORDED_MAX {
                let answer = reply.answer;
                received.deliveries.push(IpnDelivery { at, digest, reading, answer });
            }
        }
        Some(reply)
    }

    fn record_return(&self, order: Option<&str>, query: &str) {
        let browser_return = reading::read_return(&self.directory, query, self.clock.now());
        let mut all = self.lock();
        let order = order.and_then(|path| all.order_in(path)).or_else(|| all.order_in(query));
        if let Some(received) = order.and_then(|order| all.orders.get_mut(&order))
            && received.returns.len() < RECORDED_MAX
        {
            received.returns.push(browser_return);
        }
    }
}

impl Received {
    /// The only order of this run that a text names: by its id, or by the UUID of its id without
    /// hyphens, which is shorter than some partners' limits.
    fn order_in(&self, text: &str) -> Option<OrderId> {
        let is_named = |order: &&OrderId| {
            let uuid = order.as_str().split_once('-').unwrap_or_default().1;
            text.contains(order.as_str()) || text.contains(&uuid.replace('-', ""))
        };
        let mut named = self.orders.keys().filter(is_named);
        named.next().filter(|_| named.next().is_none()).cloned()
    }

    /// The one answer to a request with these IPNs, of which `known` belong to payments. As in
    /// service, the first refusal outranks any other answer.
    fn reply_to(&mut self, ipns: &[ReadIpn], known: &[(OrderId, IpnReading)]) -> Option<IpnReply> {
        let is_ignored = ipns.iter().all(|ipn| ipn.reading.is_none());
        let first = ipns.first().filter(|_| is_ignored || !known.is_empty())?;
        if let Some(ack) = ipns.iter().find_map(|ipn| ipn.refusal.clone()) {
            return Some(IpnReply { answer: IpnAnswer::Refused(ack.status), ack });
        }
        let mut answers =
            known.iter().filter_map(|(order, _)| Some(self.orders.get_mut(order)?.choose_answer()));
        let special = answers.find(|answer| *answer != IpnAnswer::Acknowledged);
        let answer = special.unwrap_or(IpnAnswer::Acknowledged);
        let kind = match answer {
            IpnAnswer::Unavailable => AckKind::Unavailable,
            _ if is_ignored => AckKind::Ignored,
            _ => AckKind::Accepted,
        };
        Some(IpnReply { answer, ack: first.ack(kind) })
    }
}

/// The answer to an IPN, and how it is written.
struct IpnReply {
    answer: IpnAnswer,
    ack: AckResponse,
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
        .route("/api/payment/ipn{rest:.*}", web::route().to(handle_ipn))
        .route("/api/payment/result", web::get().to(handle_return))
        .route("/api/payment/result/{order}", web::get().to(handle_return_at));
}

async fn handle_ipn(receiver: Data<Receiver>, request: HttpRequest, body: Bytes) -> HttpResponse {
    let (path, method) = (request.uri().path(), request.method().as_str());
    if !receiver.takes_path(path) {
        return HttpResponse::NotFound().finish();
    }
    if !receiver.account.profile().scheme().takes_method(method) {
        return HttpResponse::MethodNotAllowed().finish();
    }
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| (name.as_str(), value.as_bytes()));
    let reply = receiver.record_ipns(&NoticeRequest {
        method,
        base_url: &receiver.public_url,
        path,
        query: request.uri().query().unwrap_or_default(),
        headers: NoticeRequest::text_headers(headers),
        body: &body,
    });
    let Some(reply) = reply else { return HttpResponse::NotFound().finish() };
    if reply.answer == IpnAnswer::NoAnswer {
        // A sender with a shorter timeout closes the connection, which drops this future.
        sleep(receiver.hang).await;
        return HttpResponse::GatewayTimeout().finish();
    }
    write_reply(reply)
}

fn write_reply(reply: IpnReply) -> HttpResponse {
    let IpnReply { answer, ack: AckResponse { status, content_type, body } } = reply;
    let status = StatusCode::from_u16(status).expect("a profile's statuses are checked");
    let mut response = HttpResponse::build(status);
    if answer == IpnAnswer::Unavailable {
        response.insert_header(("retry-after", "1"));
    }
    if let Some(content_type) = content_type {
        response.content_type(content_type);
    }
    if body.is_empty() { response.finish() } else { response.body(body) }
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
