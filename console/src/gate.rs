//! Owns what every request passes, which checks its origin and its session; and the headers that
//! every answer carries.

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, HttpMessage, HttpResponse};
use payfold_schemas::time::Time;

use crate::session::{Session, SessionCookie};
use crate::typed_reason::TypedReason;
use crate::{Console, page, problem, redirect};

/// Nothing from another site is loaded, no script runs but the files of the console, and no other
/// site frames a page.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; \
    style-src 'self'; img-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The headers of every answer. An answer with one of them keeps its own.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::CACHE_CONTROL, "no-store"),
    // With `no-referrer` browsers would send no origin with a form.
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

impl Console {
    /// How sessions are sealed.
    pub(crate) fn cookie(&self) -> SessionCookie<'_> {
        SessionCookie { key: &self.key, is_secure: self.is_secure, name: &self.cookie_name }
    }
}

/// Lets a request pass: a change only if it comes from one of our own pages; a page only with a
/// session, unless it needs none.
pub(crate) async fn pass(
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    let console = request.app_data::<Data<Console>>().expect("the console serves itself").clone();
    let checked = match refused_origin(&console, &request) {
        Some(refused) => Err(refused),
        None => match TypedReason::keep(&mut request).await {
            Ok(()) => session_of(&console, &request),
            Err(error) => {
                let detail = format!("What was sent can't be read: {error}.");
                let status = StatusCode::BAD_REQUEST;
                Err(Box::new(problem::answer(request.request(), status, &detail)))
            }
        },
    };
    let mut response = match checked {
        Err(refused) => request.into_response(*refused),
        Ok(renewed) => {
            if request.extensions().get::<Session>().is_some() {
                console.client.refresh().await;
            }
            let mut response = next.call(request).await?;
            if let Some(session) = renewed
                && response.response().cookies().next().is_none()
            {
                response.response_mut().add_cookie(&console.cookie().seal(&session))?;
            }
            response
        }
    };
    for (name, value) in HEADERS {
        if !response.headers().contains_key(&name) {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
    }
    Ok(response)
}

/// The answer of a change that does not come from a page of this console.
fn refused_origin(console: &Console, request: &ServiceRequest) -> Option<Box<HttpResponse>> {
    let is_change = ![Method::GET, Method::HEAD].contains(request.method());
    (is_change && !is_from_here(console, request)).then(|| {
        let detail = "The request does not come from a page of this console. Open the page again \
            and repeat what you did; if that does not help, console.url in payfold.toml is not the \
            address in your browser.";
        Box::new(problem::answer(request.request(), StatusCode::FORBIDDEN, detail))
    })
}

/// The session to renew, if its cookie is old. Errors: the answer of a request without a session.
fn session_of(
    console: &Console,
    request: &ServiceRequest,
) -> Result<Option<Session>, Box<HttpResponse>> {
    let now = (console.now)();
    let cookie = request.cookie(console.cookie().name);
    let session = cookie.and_then(|cookie| console.cookie().open(cookie, now));
    let is_open = page::is_open(request.path());
    match session {
        Some(session) => {
            let renewed = renewal(request, &session, now);
            request.extensions_mut().insert(session);
            Ok(renewed)
        }
        None if is_open => Ok(None),
        None => Err(Box::new(redirect::to_login(request.request()))),
    }
}

/// The session with its last use now, if its cookie is old and the person asks: not a page of
/// theirs that keeps itself up to date, as its script says. Else who goes away from such a page
/// stays logged in.
fn renewal(request: &ServiceRequest, session: &Session, now: Time) -> Option<Session> {
    let is_of_person = !request.headers().contains_key("payfold-refresh");
    if is_of_person { session.renewed(now) } else { None }
}

/// Whether a change comes from a page of this console: browsers say so in `Origin`.
fn is_from_here(console: &Console, request: &ServiceRequest) -> bool {
    let of = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = of(header::ORIGIN) else { return false };
    match &console.url {
        Some(url) => url.origin().ascii_serialization() == origin,
        None => of(header::HOST).is_some_and(|host| origin == format!("http://{host}")),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use payfold_api::reads::Person;
    use payfold_schemas::ids::Author;
    use payfold_schemas::token::TokenRole;
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn a_page_that_keeps_itself_up_to_date_keeps_no_session_open() {
        let person = Person { name: Author::parse("ann").unwrap(), role: TokenRole::Viewer };
        let begun = Time::from_unix_ms(0);
        let session = Session::new(Zeroizing::new("of a test".to_owned()), person, begun);
        let of_script = TestRequest::get().insert_header(("payfold-refresh", "1"));
        for (request, is_renewed) in [(TestRequest::get(), true), (of_script, false)] {
            let renewed = renewal(&request.to_srv_request(), &session, begun.plus_ms(1_200_000));
            assert_eq!(renewed.is_some(), is_renewed);
        }
    }
}
