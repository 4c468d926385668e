//! Owns where a request without a session is led, and where a log-in leads.

use actix_web::http::{Method, StatusCode, header};
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use maud::html;
use payfold_api::call::query_of;
use serde::{Deserialize, Serialize};

use crate::page::{self, PageFrame, local};
use crate::typed_reason::TypedReason;
use crate::{Console, problem};

/// The path of the log-in.
pub(crate) const LOGIN: &str = "/login";

/// What a link to the log-in may carry. It has no `Debug`: the code is a secret.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LoginLink {
    /// The page to open afterwards.
    pub(crate) next: String,
    /// A code that logs in once.
    pub(crate) code: String,
}

/// Leads to the log-in, and from there to the page that was asked for. A request that another site
/// led here has no cookie even in a session, so its page is asked for once more, from here.
pub(crate) fn to_login(request: &HttpRequest) -> HttpResponse {
    if page::wants_json(request) {
        let detail = "There is no session, or it is over: log in again.";
        return problem::answer(request, StatusCode::UNAUTHORIZED, detail);
    }
    let asked = request.uri().path_and_query().map_or("/", |asked| asked.as_str());
    if is_led_by_another_site(request) {
        let main = html! {
            meta http-equiv="refresh" content={ "0; url=" (local(asked)) };
            p { a href=(local(asked)) { "Open the page" } }
        };
        return PageFrame { title: "Payfold", session: None }.respond(StatusCode::OK, &main);
    }
    let is_page = request.method().is_safe() && asked != "/";
    let typed = TypedReason::of(request);
    let next = match &typed {
        Some(typed) => typed.page().to_owned(),
        None if is_page => asked.to_owned(),
        None => String::new(),
    };
    let to = address(LOGIN, &LoginLink { next, code: String::new() });
    let mut response = match typed {
        Some(typed) => over_with_reason(&typed, &to),
        None => self::to(to),
    };
    let console = request.app_data::<Data<Console>>();
    if let Some(cookie) = console.map(|console| console.cookie())
        && request.cookie(cookie.name).is_some()
    {
        response.add_cookie(&cookie.removal()).expect("the name is a header's");
    }
    response
}

/// What a person reads who sent a form when their session was over.
fn over_with_reason(typed: &TypedReason, log_in: &str) -> HttpResponse {
    let title = "Your session is over";
    let main = html! {
        h1 { (title) }
        p.said role="alert" {
            "Nothing was changed. " a href=(log_in) { "Log in" } ", and do it once more."
        }
        (typed.render())
    };
    PageFrame { title, session: None }.respond(StatusCode::UNAUTHORIZED, &main)
}

/// Leads to a page.
pub(crate) fn to(path: impl AsRef<str>) -> HttpResponse {
    HttpResponse::SeeOther().insert_header((header::LOCATION, path.as_ref())).finish()
}

/// The address of a page with these members, without those that are empty.
pub(crate) fn address(path: &str, members: &impl Serialize) -> String {
    let pairs = query_of(members).into_iter().filter(|(_, value)| !value.is_empty());
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    match &*query.extend_pairs(pairs).finish() {
        "" => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// Whether a page is opened by a link on another site, as the browser says.
fn is_led_by_another_site(request: &HttpRequest) -> bool {
    let site = request.headers().get("sec-fetch-site");
    request.method() == Method::GET && site.is_some_and(|site| site == "cross-site")
}
