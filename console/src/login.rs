//! Owns the log-in with an admin token, and the log-out.

use std::sync::PoisonError;
use std::time::Duration;

use actix_web::http::{StatusCode, header};
use actix_web::web::{Data, Form, Query};
use actix_web::{HttpRequest, HttpResponse};
use maud::html;
use payfold_api::call::Nothing;
use payfold_api::reads::PERSON;
use serde::Deserialize;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::client::CallError;
use crate::page::{PageFrame, local};
use crate::redirect::{LOGIN, LoginLink};
use crate::session::Session;
use crate::visit::Visit;
use crate::{Console, failure, help};

/// How long the answer to a wrong token takes.
const WRONG_TOKEN: Duration = Duration::from_secs(1);
/// Tokens that are judged at once.
pub(crate) const LOGINS_MAX: usize = 8;
/// How long a log-in waits for others.
const LOGIN_WAIT: Duration = Duration::from_secs(5);

/// What a person sends to log in.
#[derive(Deserialize)]
pub(crate) struct Login {
    token: Zeroizing<String>,
    #[serde(default)]
    next: String,
}

/// Shows the log-in.
pub(crate) async fn show(link: Query<LoginLink>) -> HttpResponse {
    respond(StatusCode::OK, &link, None)
}

fn respond(status: StatusCode, link: &LoginLink, problem: Option<&str>) -> HttpResponse {
    let main = html! {
        h1 { "Log in" }
        @if let Some(problem) = problem { p.said role="alert" { (problem) } }
        form.narrow method="post" action=(LOGIN) {
            input type="hidden" name="next" value=(link.next);
            @if link.code.is_empty() {
                label for="token" { "Your admin token" }
                input #token type="password" name="token" required autofocus
                    autocomplete="current-password" spellcheck="false";
                p.hint {
                    "Who runs Payfold makes one: "
                    code { "payfold token add NAME --role ROLE" }
                }
            } @else {
                input type="hidden" name="token" value=(link.code);
                p { "This link logs you in once." }
            }
            button type="submit" { "Log in" }
        }
        p { a href=(help::INDEX) { "Help" } ", also when the system does not answer" }
    };
    PageFrame { title: "Log in", session: None }.respond(status, &main)
}

/// Logs a person in by a token that the admin listener knows.
pub(crate) async fn log_in(
    request: HttpRequest,
    console: Data<Console>,
    form: Form<Login>,
) -> HttpResponse {
    let Login { token: posted, next } = form.into_inner();
    let link = LoginLink { next, code: String::new() };
    let Ok(Ok(permit)) = timeout(LOGIN_WAIT, console.logins.acquire()).await else {
        let problem = "Too many people log in at once: try again in a few seconds.";
        return respond(StatusCode::TOO_MANY_REQUESTS, &link, Some(problem));
    };
    let token = console.token_of(&posted);
    console.client.refresh().await;
    let person = console.client.with(&token).call(&PERSON, &[], &Nothing {}).await;
    drop(permit);
    let person = match person {
        Ok(person) => person,
        Err(CallError::NoSession) => {
            actix_web::rt::time::sleep(WRONG_TOKEN).await;
            let problem = "This token is not known. If it was made just now, try again in two \
                seconds; a link that logs in works once.";
            return respond(StatusCode::UNAUTHORIZED, &link, Some(problem));
        }
        Err(error) => return failure::failed(&request, &error).error_response(),
    };
    console.forget_code(&posted);
    tracing::info!(person = %person.name, role = person.role.as_str(), "logged in to the console");
    let session = Session::new(token, person, (console.now)());
    HttpResponse::SeeOther()
        .cookie(console.cookie().seal(&session))
        .insert_header((header::LOCATION, local(&link.next)))
        .finish()
}

/// Logs a person out in this browser.
pub(crate) async fn log_out(
    visit: Visit,
    form: Form<LogOut>,
) -> Result<HttpResponse, actix_web::Error> {
    visit.assert_own_page(&form.post_token)?;
    Ok(HttpResponse::SeeOther()
        .cookie(visit.console.cookie().removal())
        .insert_header((header::LOCATION, LOGIN))
        .finish())
}

/// What a person sends to log out.
#[derive(Deserialize)]
pub(crate) struct LogOut {
    post_token: String,
}

impl Console {
    /// The token that was posted, or that a posted code stands for.
    fn token_of(&self, posted: &str) -> Zeroizing<String> {
        let first = self.first_login.lock().unwrap_or_else(PoisonError::into_inner);
        match first.as_ref().filter(|first| first.code == posted) {
            Some(first) => first.token.clone(),
            None => Zeroizing::new(posted.trim().to_owned()),
        }
    }

    /// Forgets the code that logs in once, if this is it.
    fn forget_code(&self, posted: &str) {
        let mut first = self.first_login.lock().unwrap_or_else(PoisonError::into_inner);
        first.take_if(|first| first.code == posted);
    }
}
