//! Owns the admin listener: probes, metrics, and the calls that change state. A call needs a token
//! with a role that may make it, and the token's name is the author of the change. The listener is
//! on loopback by default. `/openapi.json` describes its calls. A listener for probes and metrics
//! alone can be open to more hosts than this one.

mod accounts;
mod answer;
mod backends;
mod host;
mod names;
mod openapi;
mod operation;
mod process;
mod quarantine;
mod raw;
mod reads;
mod rebuild;
mod reconcile;
mod router;
mod state;
mod tickets;
mod uploads;

use std::sync::LazyLock;

use actix_web::HttpResponse;
use actix_web::middleware::from_fn;
use actix_web::web::{self, Data, ServiceConfig};
use prometheus::{Encoder, TextEncoder};

use self::answer::{Answer, Refusal, answer, bad, problem, read};
pub(crate) use self::backends::{NoticeBackend, ReadBackend, RebuildBackend, ReconcileBackend};
pub(crate) use self::host::AdminHosts;
use self::router::{Router, addressed_here};
pub(crate) use self::state::{Admin, Life};
use payfold_api::demo::OPEN_ORDER;

static DOCUMENT: LazyLock<String> =
    LazyLock::new(|| format!("{:#}", openapi::document(&router().operations())));

/// The routes of the admin listener.
pub(crate) fn routes(config: &mut ServiceConfig) {
    serve(router(), config);
}

/// The routes of the listener for probes and metrics.
pub(crate) fn probe_routes(config: &mut ServiceConfig) {
    serve(probes(), config);
}

fn serve(router: Router, config: &mut ServiceConfig) {
    config.app_data(web::QueryConfig::default().error_handler(|error, _| {
        bad(format!(
            "the query is not what this call takes, which /openapi.json describes: {error}"
        ))
        .into()
    }));
    let unknown = web::to(|| async { problem(404, "not_found", "there is nothing at this path") });
    let scope = web::scope("").wrap(from_fn(addressed_here)).default_service(unknown);
    config.service(scope.configure(|config| router.serve(config)));
}

fn probes() -> Router {
    let mut router = Router::default();
    router.page("/livez", "Says whether the process lives", livez);
    router.page("/startupz", "Says whether the process has started", startupz);
    router.page("/readyz", "Says whether every role takes work", readyz);
    router.page("/readyz/{role}", "Says whether one role takes work", readyz_of_role);
    router.page("/metrics", "The metrics of the process, as Prometheus reads them", metrics);
    router
}

fn router() -> Router {
    let mut router = probes();
    router.page("/openapi.json", "This document", || async {
        HttpResponse::Ok().content_type("application/json").body(DOCUMENT.as_str())
    });
    router.call(&OPEN_ORDER, open_demo_order);
    reads::route(&mut router);
    reconcile::route(&mut router);
    rebuild::route(&mut router);
    quarantine::route(&mut router);
    raw::route(&mut router);
    process::route(&mut router);
    accounts::route(&mut router);
    router
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
    let troubles = admin.troubles().await;
    probe((!troubles.is_empty()).then(|| troubles.join("; ")))
}

/// Answers the readiness of one role, for a load balancer in front of its listener.
async fn readyz_of_role(role: web::Path<String>, admin: Data<Admin>) -> HttpResponse {
    if !admin.readiness.has(&role) {
        return problem(404, "not_found", "this process has no such role that is asked about");
    }
    if !admin.life.takes_work() {
        return probe(Some("starting, draining or broken"));
    }
    probe(admin.readiness.trouble(&role).await)
}

/// Answers a probe: 200, or 503 with the trouble.
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

async fn open_demo_order(body: web::Bytes, admin: Data<Admin>) -> Answer {
    let Some(demo) = &admin.demo else { return Err(Refusal::NoDemo) };
    let order = read(&OPEN_ORDER, &body)?;
    if !order.currency.has_minor_units() {
        return Err(bad("the currency must be one of ISO 4217 that has minor units"));
    }
    let opened = demo.open(&*admin.clock, order).await;
    answer(&OPEN_ORDER, &opened.map_err(Refusal::Unavailable)?)
}

#[cfg(test)]
mod tests;
