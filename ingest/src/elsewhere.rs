//! Owns what is answered where nothing is served: another path, another spelling of one, another method. Shared
//! by all routes of the public listener, which may stand on it together or alone.

use actix_web::guard::GuardContext;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};

use crate::body;
use crate::browser_return::BrowserReturn;
use crate::http::Ingest;
use crate::refusal::{Code, Refusal};

/// Whether a path is spelt the one way it is known by. The library routes by the decoded path, so without this
/// what a proxy in front of us takes for another path would be taken here.
pub(crate) fn is_plain_path(context: &GuardContext<'_>) -> bool {
    let path = context.head().uri.path();
    !path.contains('%') && !path.split('/').any(|segment| segment == "." || segment == "..")
}

/// Every path nobody serves.
pub(crate) async fn not_found(request: HttpRequest, unread: Payload) -> HttpResponse {
    refuse(&request, unread, Code::NotFound)
}

/// A known path with a method it does not take; `allow` names those it does.
pub(crate) fn method_not_allowed(
    request: &HttpRequest,
    unread: Payload,
    allow: &'static str,
) -> HttpResponse {
    let mut response = refuse(request, unread, Code::MethodNotAllowed);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// Counted with the notices where those are taken here.
fn refuse(request: &HttpRequest, unread: Payload, code: Code) -> HttpResponse {
    let refusal = Refusal::new(code);
    let response = if let Some(ingest) = request.app_data::<Data<Ingest>>() {
        ingest.refuse(&ingest.receipt(), None, &refusal)
    } else {
        let returns = request.app_data::<Data<BrowserReturn>>();
        let returns = returns.expect("routes are configured together with what serves them");
        refusal.respond(returns.clock.request_id())
    };
    body::hold(unread, response)
}
