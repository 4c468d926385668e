//! Owns the 404 and 405 responses of the public listener: unknown paths, known paths in another
//! spelling, and other methods. The notice routes, the browser return and the payment form share
//! them, alone or together on one listener.

use actix_web::guard::GuardContext;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use crate::body;
use crate::browser_return::context::BrowserReturn;
use crate::ingest::Ingest;
use crate::refusal::{Refusal, RefusalCode};

/// Whether a path is in its one accepted spelling: no percent encoding, no dot segments. Actix
/// routes by the decoded path. Without this guard a path could pass a proxy's rules under one
/// spelling and be served here under another.
pub(crate) fn is_plain_path(context: &GuardContext<'_>) -> bool {
    let path = context.head().uri.path();
    !path.contains('%') && !path.split('/').any(|segment| segment == "." || segment == "..")
}

/// Responds 404 to a request for a path without a route.
pub(crate) async fn respond_not_found(request: HttpRequest, unread: Payload) -> HttpResponse {
    refuse(&request, unread, RefusalCode::NotFound)
}

/// Responds 405 to a request with a method that its path does not accept. `allow` lists the
/// accepted ones.
pub(crate) fn respond_method_not_allowed(
    request: &HttpRequest,
    unread: Payload,
    allow: &'static str,
) -> HttpResponse {
    let mut response = refuse(request, unread, RefusalCode::MethodNotAllowed);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// Builds the problem document. It is counted with the refused notices if this listener accepts
/// notices.
fn refuse(request: &HttpRequest, unread: Payload, code: RefusalCode) -> HttpResponse {
    let refusal = Refusal::new(code);
    let response = if let Some(ingest) = request.app_data::<Data<Ingest>>() {
        ingest.refuse_anonymous(&ingest.new_receipt(), None, &refusal)
    } else {
        let returns = request.app_data::<Data<BrowserReturn>>();
        let returns = returns.expect("routes are configured together with their state");
        refusal.respond(returns.clock.request_id())
    };
    body::attach_unread(unread, response)
}
