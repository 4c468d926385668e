//! Owns the browser return (contract 4.3): a payer comes back from the partner's page and is sent on into the shop.
//!
//! Invariants: it never settles anything and could not, for there is no log and no store in its types; where it
//! sends a payer comes from configuration alone, and of the query it repeats nothing but the order id, and that
//! only when a partner of ours has signed it; the query is in no log.

mod page;
mod target;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::web::{self, Data, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, guard};
use arc_swap::ArcSwap;
use payfold_engines::clock::Clock;
use payfold_partners::directory::Directory;
use payfold_schemas::ids::OrderId;
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

pub(crate) use self::page::escape;
#[cfg(test)]
pub(crate) use self::page::tests::digest_of as digest_of_script;
pub use self::target::{Target, TargetProblem, Targets};
use crate::{body, elsewhere};

const ALLOWED: &str = "GET, HEAD";

/// What the return works with. One value, shared by all workers.
pub struct BrowserReturn {
    /// Who may have signed.
    pub directory: Arc<ArcSwap<Directory>>,
    /// Which keys are in force.
    pub clock: Arc<dyn Clock>,
    /// Where payers go.
    pub targets: Targets,
    /// Counters.
    pub metrics: ReturnMetrics,
}

/// What is counted of returns.
pub struct ReturnMetrics {
    verified: IntCounter,
    unverified: IntCounter,
}

impl ReturnMetrics {
    /// Makes and registers them. Errors: a name that is registered already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let opts = Opts::new(
            "payfold_ingest_returns_total",
            "Payers who came back, by whether a partner of ours has signed what they brought.",
        );
        let returns = IntCounterVec::new(opts, &["verified"])?;
        registry.register(Box::new(returns.clone()))?;
        let [verified, unverified] =
            ["true", "false"].map(|label| returns.with_label_values(&[label]));
        Ok(Self { verified, unverified })
    }

    fn returned(&self, order: Option<&OrderId>) {
        order.map_or(&self.unverified, |_| &self.verified).inc();
    }
}

/// The routes payers' browsers use. They stand on a listener alone or beside `http::routes`, in either order.
pub fn routes(config: &mut ServiceConfig) {
    for path in ["/api/payment/result", "/api/payment/result/{target}"] {
        config.service(
            web::resource(path)
                .guard(guard::fn_guard(elsewhere::is_plain_path))
                .route(web::get().to(returned))
                .route(web::head().to(returned))
                .default_service(web::to(another_method)),
        );
    }
    config.default_service(web::to(elsewhere::not_found));
}

async fn another_method(request: HttpRequest, unread: Payload) -> HttpResponse {
    guarded(elsewhere::method_not_allowed(&request, unread, ALLOWED), page::NO_SCRIPT)
}

/// `GET /api/payment/result` and `/api/payment/result/{target}`: 303 to the shop; inside a frame a page that
/// leaves it; where no shop is configured a page that says to go back. HEAD is answered as GET without a body,
/// for what looks at links before it follows them, and is not counted.
async fn returned(
    request: HttpRequest,
    unread: Payload,
    returns: Data<BrowserReturn>,
) -> HttpResponse {
    let now = returns.clock.now();
    let order = returns.directory.load().verify_return(request.query_string(), now);
    if request.method() == actix_web::http::Method::GET {
        returns.metrics.returned(order.as_ref());
    }
    let target = returns.targets.named_or_default(request.match_info().get("target"));
    let location = target.map(|target| target.location(order.as_ref()));
    body::hold(unread, answer(&request, location.as_deref()))
}

fn answer(request: &HttpRequest, location: Option<&str>) -> HttpResponse {
    match (location, is_framed(request)) {
        (Some(location), false) => {
            let location = (header::LOCATION, location);
            let response = HttpResponse::SeeOther().insert_header(location).finish();
            guarded(response, page::NO_SCRIPT)
        }
        (location, true) => html(page::leaving_the_frame(location), page::OWN_SCRIPT),
        (None, false) => html(page::without_a_shop(), page::NO_SCRIPT),
    }
}

/// Whether a browser says that it loads this into a frame of a page. One that doesn't say is taken at its face:
/// a shop that frames the partner's page for such browsers sees its own page arrive in the frame.
fn is_framed(request: &HttpRequest) -> bool {
    let destination = request.headers().get("sec-fetch-dest").map(HeaderValue::as_bytes);
    destination.is_some_and(|d| [&b"iframe"[..], b"frame", b"embed", b"object"].contains(&d))
}

fn html(page: String, policy: &'static str) -> HttpResponse {
    let response = HttpResponse::Ok().content_type("text/html; charset=utf-8").body(page);
    guarded(response, policy)
}

/// With the headers every answer has. There is no X-Frame-Options and no frame-ancestors: a shop may frame
/// the partner's page, and this answer comes in the same frame.
pub(crate) fn guarded(mut response: HttpResponse, policy: &'static str) -> HttpResponse {
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CACHE_CONTROL, "no-store");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::CONTENT_SECURITY_POLICY, policy);
    response
}
