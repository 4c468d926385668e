//! Owns a person's visit of a page: the request, their session, and the calls for the page.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{Error, FromRequest, HttpMessage, HttpRequest, HttpResponse};
use maud::Markup;
use payfold_api::call::Call;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::PersonalClient;
use crate::field::UnfitField;
use crate::page;
use crate::session::Session;
use crate::{Console, failure, problem, redirect};

/// A person's visit of a page.
pub(crate) struct Visit {
    pub(crate) request: HttpRequest,
    pub(crate) console: Data<Console>,
    pub(crate) session: Session,
}

impl FromRequest for Visit {
    type Error = Error;
    type Future = Ready<Result<Self, Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let session = request.extensions().get::<Session>().cloned();
        let console = request.app_data::<Data<Console>>().expect("the console serves itself");
        ready(match session {
            Some(session) => {
                Ok(Self { request: request.clone(), console: console.clone(), session })
            }
            None => Err(actix_web::error::InternalError::from_response(
                "there is no session",
                redirect::to_login(request),
            )
            .into()),
        })
    }
}

impl Visit {
    /// The admin listeners, asked with the person's token.
    pub(crate) fn client(&self) -> PersonalClient<'_> {
        self.console.client.with(&self.session.token)
    }

    /// What a person selected. Errors: the page that says which field has no such value.
    pub(crate) fn selected<T>(&self, parsed: Result<T, UnfitField>) -> Result<T, Error> {
        parsed.map_err(|problem| failure::unfit(&self.request, &problem.to_string()))
    }

    /// Makes a call with the person's token. Errors: the page that says why there is no answer.
    pub(crate) async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        call: &Call<Q, A>,
        names: &[&str],
        request: &Q,
    ) -> Result<A, Error> {
        self.client()
            .call(call, names, request)
            .await
            .map_err(|error| failure::failed(&self.request, &error))
    }

    /// Answers with this content: a page, or the content as JSON for programs.
    pub(crate) fn answer(
        &self,
        title: &str,
        content: &impl Serialize,
        main: impl FnOnce() -> Markup,
    ) -> HttpResponse {
        page::answer(&self.request, title, content, main)
    }

    /// Checks that a form was made for this session. Errors: it was not.
    pub(crate) fn assert_own_page(&self, post_token: &str) -> Result<(), Error> {
        if post_token == self.session.post_token {
            return Ok(());
        }
        let detail = "The form is of another session. Open the page again and repeat what you did.";
        let response = problem::answer(&self.request, StatusCode::FORBIDDEN, detail);
        Err(actix_web::error::InternalError::from_response("another session", response).into())
    }
}
