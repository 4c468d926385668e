//! Owns the partner's HTTP routes and their handlers.

use actix_web::error::QueryPayloadError;
use actix_web::http::header;
use actix_web::web::{self, Bytes, Data, Path, PayloadConfig, Query, QueryConfig, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, ResponseError};
use payfold_partners::profile::Profile;
use payfold_schemas::ipn::Status;

use crate::layout::{self, Nonce};
use crate::partner::Partner;
use crate::payment::Payment;
use crate::problem::RequestProblem;
use crate::{guide, hosting, observe, page, qr, query, shop};

/// The largest create call, in bytes. A usual one has a few hundred.
const BODY_BYTES_MAX: usize = 64 * 1_024;

/// Registers the routes. Calls of the contract have the path of the profile; a request that no
/// route takes may be a call of any other profile.
pub(crate) fn routes(config: &mut ServiceConfig, profile: &Profile) {
    config
        .app_data(QueryConfig::default().error_handler(refuse_query))
        .app_data(PayloadConfig::new(BODY_BYTES_MAX));
    match profile.create() {
        Some(rule) => {
            let create = web::resource(rule.path.clone());
            let create = create.route(web::post().to(create_payment));
            let one_payment = format!("{}/{{providerRef}}", rule.path);
            if profile.query_pace().is_some() {
                config
                    .service(create.route(web::get().to(query_order)))
                    .route(&one_payment, web::get().to(query_payment));
            } else {
                config.service(create);
            }
            config.default_service(web::to(respond_not_found))
        }
        None => config.default_service(web::to(handle_call)),
    };
    config
        .route("/pay/{page}", web::get().to(show_page))
        .route("/pay/{page}/{action}", web::post().to(handle_action))
        .route("/qr/{page}", web::get().to(show_qr_code))
        .route("/qr/{page}/scan", web::post().to(handle_scan))
        .route("/shop/result", web::get().to(shop::show_result))
        .route("/sandbox/creates", web::get().to(observe::list_creates))
        .route("/sandbox/deliveries", web::get().to(observe::list_deliveries))
        .route("/sandbox/troubles", web::get().to(observe::list_troubles))
        .route("/", web::get().to(guide::show));
}

async fn respond_not_found(request: HttpRequest) -> HttpResponse {
    let detail = format!("this partner does not serve {} {}", request.method(), request.path());
    RequestProblem::not_found(detail).error_response()
}

fn refuse_query(error: QueryPayloadError, _: &HttpRequest) -> actix_web::Error {
    RequestProblem::new(400, "invalid_query", error.to_string()).into()
}

/// Handles the create call (contract 2.1, 2.2). Its content type is not checked: the contract names
/// none.
async fn create_payment(
    partner: Data<Partner>,
    body: Bytes,
) -> Result<HttpResponse, RequestProblem> {
    partner.into_inner().handle_create(&body).await
}

async fn handle_call(
    partner: Data<Partner>,
    request: HttpRequest,
    body: Bytes,
) -> Result<HttpResponse, RequestProblem> {
    partner.into_inner().handle_call(&request, &body).await
}

async fn query_order(
    partner: Data<Partner>,
    query: Query<query::StatusQuery>,
) -> Result<HttpResponse, RequestProblem> {
    partner.answer_query(None, &query)
}

async fn query_payment(
    partner: Data<Partner>,
    provider_ref: Path<String>,
    query: Query<query::StatusQuery>,
) -> Result<HttpResponse, RequestProblem> {
    partner.answer_query(Some(provider_ref.as_str()), &query)
}

async fn show_page(
    partner: Data<Partner>,
    page: Path<String>,
    request: HttpRequest,
) -> HttpResponse {
    let nonce = Nonce::new(partner.clock.request_id());
    match partner.payments.find(&page).filter(|payment| *payment.page == **page) {
        Some(payment) => {
            if let Some(instead) = hosting::replace_page(payment.hosting.page, &request, &nonce) {
                return instead;
            }
            let view = page::view_payment(&partner, &payment);
            let mut response = layout::respond_html(200, &nonce, &page::render_page(&view, &nonce));
            hosting::add_defect_headers(payment.hosting.page, &mut response);
            response
        }
        None => layout::respond_html(404, &nonce, &page::render_unknown(&nonce)),
    }
}

/// Handles a person's action at the page. For an ended payment the action changes nothing, and the
/// browser is redirected as for the payment's outcome.
async fn handle_action(
    partner: Data<Partner>,
    path: Path<(String, String)>,
    request: HttpRequest,
) -> HttpResponse {
    let (page, action) = path.into_inner();
    let status = match action.as_str() {
        "pay" => Status::Success,
        // The contract has no separate status for a payer who cancels.
        "fail" | "cancel" => Status::Failed,
        _ => return respond_page_not_found(&partner),
    };
    let partner = partner.into_inner();
    let Some(payment) = partner.payments.find(&page) else {
        return respond_page_not_found(&partner);
    };
    let nonce = Nonce::new(partner.clock.request_id());
    if let Some(instead) = hosting::replace_page(payment.hosting.page, &request, &nonce) {
        return instead;
    }
    partner.end_payment(&payment, status);
    match partner.find_return(&payment) {
        Some((_, Some(address))) => redirect(&address),
        // The payment is made by a plan, or its return is missing.
        Some((_, None)) | None => redirect(&format!("../{}", payment.page)),
    }
}

async fn show_qr_code(partner: Data<Partner>, page: Path<String>) -> HttpResponse {
    let nonce = Nonce::new(partner.clock.request_id());
    match partner.payments.find(&page) {
        Some(payment) => {
            let view = page::view_payment(&partner, &payment);
            layout::respond_html(
                200,
                &nonce,
                &qr::render_page(&view, &qr_content(&payment), &nonce),
            )
        }
        None => layout::respond_html(404, &nonce, &page::render_unknown(&nonce)),
    }
}

fn qr_content(payment: &Payment) -> String {
    crate::create_answer::qr_payload(
        payment.provider_ref.as_str(),
        payment.amount,
        payment.currency,
    )
}

/// Handles a simulated scan of the QR code: pays, and redirects to the page of the code.
async fn handle_scan(partner: Data<Partner>, page: Path<String>) -> HttpResponse {
    let partner = partner.into_inner();
    match partner.payments.find(&page) {
        Some(payment) => {
            partner.end_payment(&payment, Status::Success);
            redirect(&format!("../{}", payment.page))
        }
        None => respond_page_not_found(&partner),
    }
}

fn respond_page_not_found(partner: &Partner) -> HttpResponse {
    let nonce = Nonce::new(partner.clock.request_id());
    layout::respond_html(404, &nonce, &page::render_unknown(&nonce))
}

fn redirect(address: &str) -> HttpResponse {
    HttpResponse::SeeOther()
        .insert_header((header::LOCATION, address))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .finish()
}
