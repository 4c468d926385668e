//! Owns the shop listener's routes. Every other path is a 404 problem, every other method a 405 with Allow.

use actix_web::http::header;
use actix_web::web::{self, ServiceConfig};
use actix_web::{HttpResponse, Resource};

use crate::call::Call;
use crate::problem::{Problem, kinds};
use crate::{accounts, create, openapi, read, stream, topics};

/// Create a payment, list the attempts at a reference.
pub const PAYMENTS: &str = "/v1/payments";
/// Read a payment.
pub const PAYMENT: &str = "/v1/payments/{partner}/{merchantCode}/{orderId}";
/// Follow a payment.
pub const EVENTS: &str = "/v1/payments/{partner}/{merchantCode}/{orderId}/events";
/// The shop's accounts.
pub const PARTNERS: &str = "/v1/partners";
/// Read a topic.
pub const TOPIC: &str = "/v1/topics/{topic}";
/// This interface's description.
pub const OPENAPI: &str = "/openapi.json";

/// Every path.
pub const PATHS: [&str; 6] = [PAYMENTS, PAYMENT, EVENTS, PARTNERS, TOPIC, OPENAPI];

/// The routes of the shop listener. `Data<Checkout>` must be among the app's data.
pub fn routes(config: &mut ServiceConfig) {
    config
        .service(
            only(PAYMENTS, "GET, POST")
                .route(web::post().to(create))
                .route(web::get().to(by_reference)),
        )
        .service(only(PAYMENT, "GET").route(web::get().to(payment)))
        .service(only(EVENTS, "GET").route(web::get().to(events)))
        .service(only(PARTNERS, "GET").route(web::get().to(partners)))
        .service(only(TOPIC, "GET").route(web::get().to(topic)))
        .service(only(OPENAPI, "GET").route(web::get().to(description)))
        .default_service(web::to(not_found));
}

async fn create(call: Call) -> HttpResponse {
    call.answer("create", create::create).await
}

async fn by_reference(call: Call) -> HttpResponse {
    call.answer("by_reference", read::by_reference).await
}

async fn payment(call: Call) -> HttpResponse {
    call.answer("payment", read::payment).await
}

async fn events(call: Call) -> HttpResponse {
    call.answer("events", stream::events).await
}

async fn partners(call: Call) -> HttpResponse {
    call.answer("partners", accounts::partners).await
}

async fn topic(call: Call) -> HttpResponse {
    call.answer("topic", topics::topic).await
}

async fn description(call: Call) -> HttpResponse {
    call.answer("openapi", openapi::serve).await
}

async fn not_found(call: Call) -> HttpResponse {
    call.answer("none", async |_| Err(Problem::new(&kinds::NOT_FOUND))).await
}

/// A path with these methods; every other is a 405.
fn only(path: &'static str, allowed: &'static str) -> Resource {
    web::resource(path).default_service(web::to(move |call: Call| async move {
        let refuse = async |_: &mut Call| Err(Problem::new(&kinds::METHOD_NOT_ALLOWED));
        let mut response = call.answer("none", refuse).await;
        let allowed = header::HeaderValue::from_static(allowed);
        response.headers_mut().insert(header::ALLOW, allowed);
        response
    }))
}
