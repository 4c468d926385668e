//! Owns the partner's routes: the whole HTTP surface on one screen.

use actix_web::error::QueryPayloadError;
use actix_web::http::header;
use actix_web::web::{self, Bytes, Data, Path, PayloadConfig, Query, QueryConfig, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, ResponseError};
use payfold_schemas::ipn::Status;

use crate::look::{self, Nonce};
use crate::partner::Partner;
use crate::payment::Payment;
use crate::problem::Problem;
use crate::{guide, hosting, observe, page, qr, query, shop};

/// A create call is a few hundred bytes.
const BODY_BYTES_MAX: usize = 64 * 1_024;

/// Adds the routes; the create call's path is the profile's.
pub(crate) fn routes(config: &mut ServiceConfig, create_path: &str) {
    let body = PayloadConfig::new(BODY_BYTES_MAX);
    let create = web::resource(create_path.to_owned()).app_data(body);
    let create = create.route(web::post().to(create_payment)).route(web::get().to(query_order));
    let one_payment = format!("{create_path}/{{providerRef}}");
    config
        .app_data(QueryConfig::default().error_handler(bad_query))
        .service(create)
        .route(&one_payment, web::get().to(query_payment))
        .route("/pay/{page}", web::get().to(show_page))
        .route("/pay/{page}/{action}", web::post().to(act))
        .route("/qr/{page}", web::get().to(show_code))
        .route("/qr/{page}/scan", web::post().to(scan))
        .route("/shop/result", web::get().to(shop::result))
        .route("/sandbox/creates", web::get().to(observe::creates))
        .route("/sandbox/deliveries", web::get().to(observe::deliveries))
        .route("/sandbox/troubles", web::get().to(observe::troubles))
        .route("/", web::get().to(guide::show))
        .default_service(web::to(unknown));
}

async fn unknown(request: HttpRequest) -> HttpResponse {
    let detail = format!("there is nothing at {} {}", request.method(), request.path());
    Problem::not_found(detail).error_response()
}

fn bad_query(error: QueryPayloadError, _: &HttpRequest) -> actix_web::Error {
    Problem::new(400, "invalid_query", error.to_string()).into()
}

/// The create call (contract 2.1, 2.2). Its content type is not looked at: the contract names none.
async fn create_payment(partner: Data<Partner>, body: Bytes) -> Result<HttpResponse, Problem> {
    partner.into_inner().create(&body).await
}

async fn query_order(
    partner: Data<Partner>,
    query: Query<query::Query>,
) -> Result<HttpResponse, Problem> {
    partner.tell(None, &query)
}

async fn query_payment(
    partner: Data<Partner>,
    provider_ref: Path<String>,
    query: Query<query::Query>,
) -> Result<HttpResponse, Problem> {
    partner.tell(Some(provider_ref.as_str()), &query)
}

async fn show_page(
    partner: Data<Partner>,
    page: Path<String>,
    request: HttpRequest,
) -> HttpResponse {
    let nonce = Nonce::new(partner.clock.request_id());
    match partner.payments.find(&page).filter(|payment| *payment.page == **page) {
        Some(payment) => {
            if let Some(instead) = hosting::instead(payment.hosting.page, &request, &nonce) {
                return instead;
            }
            let shown = page::shown(&partner, &payment);
            let mut response = look::html(200, &nonce, &page::page(&shown, &nonce));
            hosting::dress(payment.hosting.page, &mut response);
            response
        }
        None => look::html(404, &nonce, &page::unknown(&nonce)),
    }
}

/// What a person does at the page. Whoever comes back to a payment that has ended is sent on as it ended.
async fn act(
    partner: Data<Partner>,
    path: Path<(String, String)>,
    request: HttpRequest,
) -> HttpResponse {
    let (page, action) = path.into_inner();
    let status = match action.as_str() {
        "pay" => Status::Success,
        // The contract has no word of its own for a payer who gives up.
        "fail" | "cancel" => Status::Failed,
        _ => return page_not_found(&partner),
    };
    let partner = partner.into_inner();
    let Some(payment) = partner.payments.find(&page) else { return page_not_found(&partner) };
    let nonce = Nonce::new(partner.clock.request_id());
    if let Some(instead) = hosting::instead(payment.hosting.page, &request, &nonce) {
        return instead;
    }
    partner.end(&payment, status);
    match partner.way_back(&payment) {
        Some((_, Some(address))) => see_other(&address),
        // A plan pays it, not a person, or leads nobody back.
        Some((_, None)) | None => see_other(&format!("../{}", payment.page)),
    }
}

async fn show_code(partner: Data<Partner>, page: Path<String>) -> HttpResponse {
    let nonce = Nonce::new(partner.clock.request_id());
    match partner.payments.find(&page) {
        Some(payment) => {
            let shown = page::shown(&partner, &payment);
            look::html(200, &nonce, &qr::page(&shown, &code_of(&payment), &nonce))
        }
        None => look::html(404, &nonce, &page::unknown(&nonce)),
    }
}

fn code_of(payment: &Payment) -> String {
    crate::answer::qr_payload(payment.provider_ref.as_str(), payment.amount, payment.currency)
}

/// A payer's phone scans the code and pays; the page it is shown at tells so.
async fn scan(partner: Data<Partner>, page: Path<String>) -> HttpResponse {
    let partner = partner.into_inner();
    match partner.payments.find(&page) {
        Some(payment) => {
            partner.end(&payment, Status::Success);
            see_other(&format!("../{}", payment.page))
        }
        None => page_not_found(&partner),
    }
}

fn page_not_found(partner: &Partner) -> HttpResponse {
    let nonce = Nonce::new(partner.clock.request_id());
    look::html(404, &nonce, &page::unknown(&nonce))
}

fn see_other(address: &str) -> HttpResponse {
    HttpResponse::SeeOther()
        .insert_header((header::LOCATION, address))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .finish()
}
