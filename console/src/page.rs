//! Owns the frame of a page: the ways to the other pages, the search, who is logged in, and the
//! scripts. A page works without them.

use actix_web::http::{StatusCode, header};
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};
use maud::{DOCTYPE, Markup, html};
use serde::Serialize;

use crate::session::Session;

/// The paths that need no session. All below `/help` neither: it is read when no log-in works.
const OPEN_PATHS: [&str; 6] =
    ["/login", "/help", "/style.css", "/icon.svg", SCRIPT_PATH, MORPH_PATH];

const STYLE: &str = include_str!("style.css");
const ICON: &str = include_str!("icon.svg");
const SCRIPT: &str = include_str!("script/page.js");
/// Changes a part of a page without losing the focus: idiomorph 0.8.0, as it is published.
const MORPH: &str = include_str!("script/idiomorph.min.js");

pub(crate) const SCRIPT_PATH: &str = "/page.js";
pub(crate) const MORPH_PATH: &str = "/idiomorph.min.js";
/// How long browsers keep what is the same for everybody.
const KEEP: &str = "max-age=300";

/// A page without its content.
pub(crate) struct PageFrame<'p> {
    pub(crate) title: &'p str,
    /// The session it is made for; `None` before the log-in.
    pub(crate) session: Option<&'p Session>,
}

impl PageFrame<'_> {
    /// Answers with this page around its content.
    pub(crate) fn respond(&self, status: StatusCode, main: &Markup) -> HttpResponse {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="robots" content="noindex";
                    title { (self.title) " – Payfold" }
                    link rel="icon" href="/icon.svg";
                    link rel="stylesheet" href="/style.css";
                    script src=(MORPH_PATH) defer {}
                    script src=(SCRIPT_PATH) defer {}
                }
                body {
                    a.skip href="#main" { "Skip to the content" }
                    @if let Some(session) = self.session { (bar(session)) }
                    main #main { (main) }
                }
            }
        };
        let mut response = HttpResponse::build(status);
        response.content_type("text/html; charset=utf-8").body(page.into_string())
    }
}

/// Answers with this content: a page, or the content as JSON for programs.
pub(crate) fn answer(
    request: &HttpRequest,
    title: &str,
    content: &impl Serialize,
    main: impl FnOnce() -> Markup,
) -> HttpResponse {
    if wants_json(request) {
        return HttpResponse::Ok().json(content);
    }
    let session = request.extensions().get::<Session>().cloned();
    PageFrame { title, session: session.as_ref() }.respond(StatusCode::OK, &main())
}

/// The bar above a page.
fn bar(session: &Session) -> Markup {
    html! {
        header.bar {
            a.brand href="/" { "Payfold" }
            nav aria-label="Pages" {
                a href="/" { "Overview" }
                a href="/orders" { "Orders" }
                a href="/findings" { "Findings" }
                a href="/days" { "Days" }
                a href="/quarantine" { "Quarantine" }
                a href="/partners" { "Partners" }
                a href="/builds" { "Builds" }
                a href="/people" { "People" }
                a href="/help" { "Help" }
            }
            form.search role="search" action="/search" {
                label.unseen for="search" { "Find an order" }
                input #search type="search" name="what" required
                    placeholder="Order id or reference";
                button type="submit" { "Find" }
            }
            form.person method="post" action="/logout" {
                span { (session.person.name) " (" (session.person.role.as_str()) ")" }
                input type="hidden" name="post_token" value=(session.post_token);
                button type="submit" { "Log out" }
            }
        }
    }
}

/// Whether a path needs no session.
pub(crate) fn is_open(path: &str) -> bool {
    OPEN_PATHS.contains(&path) || path.starts_with("/help/")
}

/// The page to open after the log-in: one of this console, never of another site.
pub(crate) fn local(next: &str) -> &str {
    let is_local = next.starts_with('/')
        && !next.starts_with("//")
        && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_local { next } else { "/" }
}

/// Whether the request is a program's.
pub(crate) fn wants_json(request: &HttpRequest) -> bool {
    let accepted = request.headers().get(header::ACCEPT);
    accepted.and_then(|it| it.to_str().ok()).is_some_and(|it| it.starts_with("application/json"))
}

/// The style of every page.
pub(crate) async fn style() -> HttpResponse {
    kept("text/css; charset=utf-8", STYLE)
}

/// The icon of every page.
pub(crate) async fn icon() -> HttpResponse {
    kept("image/svg+xml", ICON)
}

/// The script of every page.
pub(crate) async fn script() -> HttpResponse {
    kept("text/javascript; charset=utf-8", SCRIPT)
}

/// The library of that script.
pub(crate) async fn morph() -> HttpResponse {
    kept("text/javascript; charset=utf-8", MORPH)
}

fn kept(kind: &str, content: &'static str) -> HttpResponse {
    HttpResponse::Ok().content_type(kind).insert_header((header::CACHE_CONTROL, KEEP)).body(content)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn a_log_in_leads_to_pages_of_the_console_only() {
        for next in ["/", "/orders?state=PAID", "/orders/acme/SHOP/o-1"] {
            assert_eq!(local(next), next);
        }
        for next in [
            "",
            "orders",
            "//evil.test",
            "/\\evil.test",
            "https://evil.test",
            "/a\r\nb: c",
            "/a b",
            "\\\\evil.test",
            "/\tx",
        ] {
            assert_eq!(local(next), "/", "{next}");
        }
    }

    #[test]
    fn the_library_is_as_it_was_published() {
        let published = "4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96";
        assert_eq!(hex::encode(Sha256::digest(MORPH)), published);
    }
}
