//! Owns the defects of a hosted page (contract 4.4): headers that forbid a frame, a page that works
//! only with a cookie, a redirect to an address without TLS, and an error. A payment has a defect
//! only if its description requests one.

use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use maud::html;

use crate::layout::{self, DocumentFrame, Nonce};
use crate::plan::PageDefect;

/// The cookie that the cookie wall requires. It carries no data.
const COOKIE: &str = "payfold-sandbox=1";

/// The response in place of the page; `None` if the page itself is shown.
pub(crate) fn replace_page(
    defect: PageDefect,
    request: &HttpRequest,
    nonce: &Nonce,
) -> Option<HttpResponse> {
    match defect {
        PageDefect::CookieWall if !has_cookie(request) => {
            let mut wall =
                layout::respond_html(200, nonce, &render_message(nonce, "This page needs cookies"));
            let cookie = HeaderValue::from_static("payfold-sandbox=1; Path=/; SameSite=Lax");
            wall.headers_mut().append(header::SET_COOKIE, cookie);
            Some(wall)
        }
        PageDefect::Http => {
            let location = (header::LOCATION, "http://pay.example/");
            Some(HttpResponse::Found().insert_header(location).finish())
        }
        PageDefect::Error => {
            Some(layout::respond_html(500, nonce, &render_message(nonce, "Something went wrong")))
        }
        _ => None,
    }
}

/// Adds the defect's headers to the page.
pub(crate) fn add_defect_headers(defect: PageDefect, response: &mut HttpResponse) {
    let headers = response.headers_mut();
    match defect {
        PageDefect::FrameDenied => {
            headers.insert(
                HeaderName::from_static("x-frame-options"),
                HeaderValue::from_static("DENY"),
            );
        }
        PageDefect::FrameAncestors => {
            let policy = headers.get(header::CONTENT_SECURITY_POLICY);
            let policy = policy.and_then(|policy| policy.to_str().ok()).unwrap_or_default();
            let closed = policy.replace("frame-ancestors *", "frame-ancestors 'none'");
            let closed = HeaderValue::from_str(&closed).expect("it was a header value before");
            headers.insert(header::CONTENT_SECURITY_POLICY, closed);
        }
        PageDefect::None | PageDefect::CookieWall | PageDefect::Http | PageDefect::Error => {}
    }
}

fn has_cookie(request: &HttpRequest) -> bool {
    let lines = request.headers().get_all(header::COOKIE);
    lines.filter_map(|line| line.to_str().ok()).any(|line| line.contains(COOKIE))
}

fn render_message(nonce: &Nonce, message: &str) -> String {
    let body = html! {
        main {
            (layout::render_ribbon())
            div.inside {
                h1 { (message) }
                p.quiet { "The description requests it." }
            }
        }
    };
    layout::render_document(&DocumentFrame { title: "Sandbox partner", script: None }, nonce, &body)
}
