//! Owns the defects of a hosted page on the wire (contract 4.4): headers that forbid a frame, a page that is of no use
//! without a cookie, one that leads on without TLS, an error. A payment without such a word has none of them.

use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use maud::html;

use crate::look::{self, Frame, Nonce};
use crate::plan::PageDefect;

/// The cookie a visitor must bring; it holds nothing.
const COOKIE: &str = "payfold-sandbox=1";

/// What is shown in the page's place; `None` for the page itself.
pub(crate) fn instead(
    defect: PageDefect,
    request: &HttpRequest,
    nonce: &Nonce,
) -> Option<HttpResponse> {
    match defect {
        PageDefect::CookieWall if !brings_cookie(request) => {
            let mut wall = look::html(200, nonce, &words(nonce, "This page needs cookies"));
            let cookie = HeaderValue::from_static("payfold-sandbox=1; Path=/; SameSite=Lax");
            wall.headers_mut().append(header::SET_COOKIE, cookie);
            Some(wall)
        }
        PageDefect::Http => {
            let elsewhere = (header::LOCATION, "http://pay.example/");
            Some(HttpResponse::Found().insert_header(elsewhere).finish())
        }
        PageDefect::Error => Some(look::html(500, nonce, &words(nonce, "Something went wrong"))),
        _ => None,
    }
}

/// Puts the defect's headers on the page.
pub(crate) fn dress(defect: PageDefect, response: &mut HttpResponse) {
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
            let closed = HeaderValue::from_str(&closed).expect("it was a header before");
            headers.insert(header::CONTENT_SECURITY_POLICY, closed);
        }
        PageDefect::None | PageDefect::CookieWall | PageDefect::Http | PageDefect::Error => {}
    }
}

fn brings_cookie(request: &HttpRequest) -> bool {
    let lines = request.headers().get_all(header::COOKIE);
    lines.filter_map(|line| line.to_str().ok()).any(|line| line.contains(COOKIE))
}

fn words(nonce: &Nonce, words: &str) -> String {
    let body = html! {
        main {
            (look::ribbon())
            div.inside {
                h1 { (words) }
                p.quiet { "The description asks for it." }
            }
        }
    };
    look::document(&Frame { title: "Sandbox partner", script: None }, nonce, &body)
}
