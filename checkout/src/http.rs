//! Owns the routes of the shop listener. Every other path is answered with a 404 problem, and every
//! other method with a 405 problem that has `Allow`.

use actix_web::http::header;
use actix_web::web::{self, ServiceConfig};
use actix_web::{HttpResponse, Resource};

use crate::paths::{DOCS, DOCS_SCRIPT, EVENTS, OPENAPI, PARTNERS, PAYMENT, PAYMENTS, TOPIC};
use crate::problem::{Problem, kinds};
use crate::shop_request::ShopRequest;
use crate::{accounts, create, docs, openapi, read, stream, topics};

/// Adds the routes of the shop listener. The app's data has to have `Data<Checkout>`.
pub fn routes(config: &mut ServiceConfig) {
    config
        .service(
            resource(PAYMENTS, "GET, POST")
                .route(web::post().to(create))
                .route(web::get().to(list)),
        )
        .service(resource(PAYMENT, "GET").route(web::get().to(payment)))
        .service(resource(EVENTS, "GET").route(web::get().to(events)))
        .service(resource(PARTNERS, "GET").route(web::get().to(partners)))
        .service(resource(TOPIC, "GET").route(web::get().to(topic)))
        .service(resource(OPENAPI, "GET").route(web::get().to(openapi_document)))
        .service(resource(DOCS, "GET").route(web::get().to(docs_page)))
        .service(resource(DOCS_SCRIPT, "GET").route(web::get().to(docs_script)))
        .default_service(web::to(not_found));
}

async fn create(request: ShopRequest) -> HttpResponse {
    request.answer("create", create::create).await
}

async fn list(request: ShopRequest) -> HttpResponse {
    request.answer("list", read::list).await
}

async fn payment(request: ShopRequest) -> HttpResponse {
    request.answer("payment", read::payment).await
}

async fn events(request: ShopRequest) -> HttpResponse {
    request.answer("events", stream::events).await
}

async fn partners(request: ShopRequest) -> HttpResponse {
    request.answer("partners", accounts::partners).await
}

async fn topic(request: ShopRequest) -> HttpResponse {
    request.answer("topic", topics::topic).await
}

async fn openapi_document(request: ShopRequest) -> HttpResponse {
    request.answer("openapi", openapi::serve).await
}

async fn docs_page(request: ShopRequest) -> HttpResponse {
    request.answer("docs", docs::page).await
}

async fn docs_script(request: ShopRequest) -> HttpResponse {
    request.answer("docs", docs::script).await
}

async fn not_found(request: ShopRequest) -> HttpResponse {
    request.answer("none", async |_| Err(Problem::new(&kinds::NOT_FOUND))).await
}

/// A path with these methods. Other methods are answered with 405 and `Allow`.
fn resource(path: &'static str, allowed: &'static str) -> Resource {
    web::resource(path).default_service(web::to(move |request: ShopRequest| async move {
        let refuse = async |_: &mut ShopRequest| Err(Problem::new(&kinds::METHOD_NOT_ALLOWED));
        let mut response = request.answer("none", refuse).await;
        let allowed = header::HeaderValue::from_static(allowed);
        response.headers_mut().insert(header::ALLOW, allowed);
        response
    }))
}
