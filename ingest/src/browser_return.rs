//! Owns the browser return (contract 4.3): it redirects a payer who comes back from the partner's
//! page to the shop.
//!
//! Invariants: a return never changes an order; the types here have no log and no store. The
//! redirect's target comes from configuration only. It repeats only the order id of the query, and
//! only if a configured partner signed it. The query is never logged.

pub(crate) mod context;
mod page;
mod target;
#[cfg(test)]
mod tests;

use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::web::{self, Data, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, guard};

pub use self::context::{BrowserReturn, ReturnMetrics};
pub(crate) use self::page::escape;
#[cfg(test)]
pub(crate) use self::page::tests::script_digest;
pub use self::target::{ReturnTarget, ReturnTargets, TargetProblem};
use crate::{body, not_found};

const ALLOWED: &str = "GET, HEAD";

/// Registers the routes of the browser return, alone on a listener or together with `http::routes`,
/// in either order.
pub fn routes(config: &mut ServiceConfig) {
    for path in ["/api/payment/result", "/api/payment/result/{target}"] {
        config.service(
            web::resource(path)
                .guard(guard::fn_guard(not_found::is_plain_path))
                .route(web::get().to(handle_return))
                .route(web::head().to(handle_return))
                .default_service(web::to(refuse_method)),
        );
    }
    config.default_service(web::to(not_found::respond_not_found));
}

async fn refuse_method(request: HttpRequest, unread: Payload) -> HttpResponse {
    with_guard_headers(
        not_found::respond_method_not_allowed(&request, unread, ALLOWED),
        page::NO_SCRIPT_POLICY,
    )
}

/// Handles `GET /api/payment/result` and `/api/payment/result/{target}`. Responds 303 to the shop;
/// inside a frame, with a page that leaves the frame; without a configured shop, with a page that
/// asks the payer to go back. HEAD gets the same response without a body and is not counted: link
/// previews send it.
async fn handle_return(
    request: HttpRequest,
    unread: Payload,
    returns: Data<BrowserReturn>,
) -> HttpResponse {
    let now = returns.clock.now();
    let order = returns.directory.load().verify_return(request.query_string(), now);
    if request.method() == actix_web::http::Method::GET {
        returns.metrics.count_return(order.as_ref());
    }
    let target = returns.targets.named_or_default(request.match_info().get("target"));
    let location = target.map(|target| target.location(order.as_ref()));
    body::attach_unread(unread, build_response(&request, location.as_deref()))
}

fn build_response(request: &HttpRequest, location: Option<&str>) -> HttpResponse {
    match (location, is_framed(request)) {
        (Some(location), false) => {
            let location = (header::LOCATION, location);
            let response = HttpResponse::SeeOther().insert_header(location).finish();
            with_guard_headers(response, page::NO_SCRIPT_POLICY)
        }
        (location, true) => {
            respond_html(page::render_frame_page(location), page::FRAME_SCRIPT_POLICY)
        }
        (None, false) => respond_html(page::render_plain_page(), page::NO_SCRIPT_POLICY),
    }
}

/// Whether the browser reports (`Sec-Fetch-Dest`) that it loads this response into a frame. A
/// browser that reports nothing counts as unframed: the shop's page then loads inside the frame.
fn is_framed(request: &HttpRequest) -> bool {
    let destination = request.headers().get("sec-fetch-dest").map(HeaderValue::as_bytes);
    destination.is_some_and(|d| [&b"iframe"[..], b"frame", b"embed", b"object"].contains(&d))
}

fn respond_html(page: String, policy: &'static str) -> HttpResponse {
    let response = HttpResponse::Ok().content_type("text/html; charset=utf-8").body(page);
    with_guard_headers(response, policy)
}

/// Adds the headers that every response here has. X-Frame-Options and frame-ancestors are left out:
/// a shop may frame the partner's page, and this response loads in the same frame.
pub(crate) fn with_guard_headers(mut response: HttpResponse, policy: &'static str) -> HttpResponse {
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CACHE_CONTROL, "no-store");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::CONTENT_SECURITY_POLICY, policy);
    response
}
