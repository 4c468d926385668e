//! Owns what a person reads in place of a page: what is so, and what to do.

use actix_web::http::StatusCode;
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};
use maud::html;
use serde_json::json;

use crate::page::{self, PageFrame};
use crate::session::Session;
use crate::typed_reason::TypedReason;

/// Answers with a page, or with JSON for programs.
pub(crate) fn answer(request: &HttpRequest, status: StatusCode, detail: &str) -> HttpResponse {
    if page::wants_json(request) {
        let problem = json!({ "status": status.as_u16(), "detail": detail });
        return HttpResponse::build(status).content_type("application/problem+json").json(problem);
    }
    let session = request.extensions().get::<Session>().cloned();
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        status if status.is_client_error() => "Please check what was sent",
        _ => "This can't be shown now",
    };
    let main = html! {
        h1 { (title) }
        p.said role="alert" { (detail) }
        @if let Some(typed) = TypedReason::of(request) { (typed.render()) }
    };
    PageFrame { title, session: session.as_ref() }.respond(status, &main)
}

/// Answers a path without a page.
pub(crate) async fn nowhere(request: HttpRequest) -> HttpResponse {
    let detail = format!("There is no page at {}.", request.path());
    answer(&request, StatusCode::NOT_FOUND, &detail)
}
