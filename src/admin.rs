//! Owns the admin listener: probes, metrics, and the calls of verbs that change state, for named tokens.
//! Loopback by default. A token's name is the author of what it does.

mod body;
mod books;
pub(crate) mod quarantine;
mod raw;
mod rebuild;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::dev::HttpServiceFactory;
use actix_web::middleware::from_fn;
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, Resource, Route};
use arc_swap::ArcSwap;
use payfold_engines::clock::Clock;
use payfold_engines::log::EventLog;
use payfold_partners::directory::Directory;
use payfold_partners::document::TokenEntry;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::Author;
use prometheus::{Encoder, Registry, TextEncoder};

pub use self::books::BooksDesk;
pub use self::quarantine::NoticeDesk;
pub use self::rebuild::RebuildDesk;
use crate::demo::{DemoOrder, DemoOrders};
use crate::gauges::Gauges;
use crate::readiness::{ROLES, Readiness};

/// What the admin listener shows and does.
pub struct Admin {
    /// Every metric of the process.
    pub registry: Registry,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The log, for the demo's orders; none where no role has engines.
    pub log: Option<Arc<dyn EventLog>>,
    /// Accounts and keys, as they are in force.
    pub directory: Arc<ArcSwap<Directory>>,
    /// Whether each role can store what it is sent.
    pub readiness: Readiness,
    /// Where the process stands in its life.
    pub life: Arc<Life>,
    /// Names and SHA-256 of the tokens that may change things, as they are in force.
    pub tokens: Arc<ArcSwap<Vec<TokenEntry>>>,
    /// The demo's orders; none outside the demo.
    pub demo: Option<DemoOrders>,
    /// What is read when metrics are.
    pub gauges: Gauges,
    /// Where records are compared and findings decided; none without the reconciler role.
    pub books: Option<BooksDesk>,
    /// Where rebuilds are asked for; none without the projector role.
    pub rebuilds: Option<RebuildDesk>,
    /// What quarantined notices are judged with; none without the reconciler role.
    pub notices: Option<NoticeDesk>,
}

/// Where a process stands in its life.
#[derive(Debug, Default)]
pub struct Life {
    started: AtomicBool,
    draining: AtomicBool,
    broken: AtomicBool,
}

impl Life {
    /// Start-up is over.
    pub fn started(&self) {
        self.started.store(true, Ordering::SeqCst);
    }

    /// No new work, please.
    pub fn draining(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// A role ended with an error: the process can't do its work.
    pub fn broken(&self) {
        self.broken.store(true, Ordering::SeqCst);
    }

    /// Whether a role ended with an error.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    fn is_started(&self) -> bool {
        self.started.load(Ordering::SeqCst)
    }

    fn takes_work(&self) -> bool {
        self.is_started() && !self.draining.load(Ordering::SeqCst) && !self.is_broken()
    }
}

/// The routes.
pub fn routes(config: &mut ServiceConfig) {
    config
        .service(only("/livez", web::get().to(livez)))
        .service(only("/startupz", web::get().to(startupz)))
        .service(only("/readyz", web::get().to(readyz)))
        .service(only("/readyz/{role}", web::get().to(readyz_of_role)))
        .service(only("/metrics", web::get().to(metrics)))
        .service(only("/v1/demo/orders", web::post().to(open_demo_order)))
        .configure(books::routes)
        .configure(rebuild::routes)
        .configure(quarantine::routes)
        .configure(raw::routes)
        .default_service(web::to(|| async {
            problem(404, "not_found", "there is nothing at this path")
        }));
}

/// A path with one method; every other is a 405. A body has to come in time.
fn only(path: &'static str, route: Route) -> impl HttpServiceFactory + 'static {
    one_method(path, route).wrap(from_fn(body::in_time))
}

/// The same for an upload, which may take as long as something of it comes.
fn only_upload(path: &'static str, route: Route) -> impl HttpServiceFactory + 'static {
    one_method(path, route).wrap(from_fn(body::without_pauses))
}

fn one_method(path: &'static str, route: Route) -> Resource {
    web::resource(path).route(route).default_service(web::to(|| async {
        problem(405, "method_not_allowed", "this path takes another method")
    }))
}

async fn livez(admin: Data<Admin>) -> HttpResponse {
    probe(admin.life.is_broken().then_some("a role has ended with an error; see the log"))
}

async fn startupz(admin: Data<Admin>) -> HttpResponse {
    probe((!admin.life.is_started()).then_some("starting"))
}

async fn readyz(admin: Data<Admin>) -> HttpResponse {
    if !admin.life.takes_work() {
        return probe(Some("starting, draining or broken"));
    }
    let mut troubles = Vec::new();
    for role in ROLES {
        troubles.extend(admin.readiness.trouble(role).await);
    }
    probe(Some(troubles.join("; ")).filter(|troubles| !troubles.is_empty()))
}

/// Of one role alone, for a balancer in front of its listener.
async fn readyz_of_role(role: web::Path<String>, admin: Data<Admin>) -> HttpResponse {
    if !admin.readiness.has(&role) {
        return problem(404, "not_found", "this process has no such role that is asked about");
    }
    if !admin.life.takes_work() {
        return probe(Some("starting, draining or broken"));
    }
    probe(admin.readiness.trouble(&role).await)
}

/// 200, or 503 with the trouble.
fn probe(trouble: Option<impl std::fmt::Display>) -> HttpResponse {
    match trouble {
        None => HttpResponse::Ok().content_type("text/plain").body("ok\n"),
        Some(trouble) => HttpResponse::ServiceUnavailable()
            .content_type("text/plain")
            .body(format!("{trouble}\n")),
    }
}

async fn metrics(admin: Data<Admin>) -> HttpResponse {
    admin.gauges.refresh().await;
    let mut text = Vec::new();
    let encoder = TextEncoder::new();
    match encoder.encode(&admin.registry.gather(), &mut text) {
        Ok(()) => HttpResponse::Ok().content_type(encoder.format_type()).body(text),
        Err(error) => problem(500, "metrics_failed", &error.to_string()),
    }
}

async fn open_demo_order(
    request: HttpRequest,
    body: web::Bytes,
    admin: Data<Admin>,
) -> HttpResponse {
    if admin.author(&request).is_none() {
        return unauthenticated();
    }
    let (Some(demo), Some(log)) = (&admin.demo, &admin.log) else {
        return problem(
            404,
            "not_a_demo",
            "this system has a configuration; the demo order is for `payfold run` without one",
        );
    };
    let asked = serde_json::from_slice::<DemoOrder>(&body).ok();
    let Some(asked) = asked.filter(|asked| asked.currency.has_minor_units()) else {
        let detail = "the body must be an amount in minor units and an ISO 4217 currency that has them, as JSON";
        return problem(400, "bad_request", detail);
    };
    match demo.open(&**log, &*admin.clock, asked).await {
        Ok(opened) => HttpResponse::Created().json(opened),
        Err(error) => problem(503, "storage_unavailable", &error.to_string()),
    }
}

impl Admin {
    /// Whose token a request carries. Hashes are compared, so timing tells nothing of a token.
    fn author(&self, request: &HttpRequest) -> Option<Author> {
        let header = request.headers().get("authorization")?.to_str().ok()?;
        let sha256 = Digest::of_bytes(header.strip_prefix("Bearer ")?.as_bytes());
        let tokens = self.tokens.load();
        tokens.iter().find(|token| token.sha256 == sha256).map(|token| token.name.clone())
    }
}

fn unauthenticated() -> HttpResponse {
    problem(401, "unauthenticated", "an admin token is needed: Authorization: Bearer …")
}

fn problem(status: u16, code: &str, detail: &str) -> HttpResponse {
    let status_code = actix_web::http::StatusCode::from_u16(status).expect("a valid status");
    HttpResponse::build(status_code).content_type("application/problem+json").json(
        serde_json::json!({
            "type": format!("urn:payfold:problem:{code}"),
            "title": code.replace('_', " "),
            "status": status,
            "code": code,
            "detail": detail,
        }),
    )
}
