//! Owns the errors of handlers, each with the answer that explains it to a person.

use actix_web::error::{InternalError, QueryPayloadError, UrlencodedError};
use actix_web::http::StatusCode;
use actix_web::{Error, HttpRequest, HttpResponse};

use crate::client::{CallError, NO_ROLE};
use crate::problem::answer;
use crate::redirect;

/// What a person reads when the system does not answer.
const NO_ANSWER: &str = "The system does not answer, so nothing can be shown or changed now. \
    Inform who runs Payfold, and load the page again in a minute. Partners' notices are taken \
    independently of this console.";

/// The same after a change was sent.
const NO_ANSWER_TO_CHANGE: &str = "The system does not answer. What you sent may still be carried \
    out: open its page and see before you repeat it. Inform who runs Payfold if that page does not \
    open.";

/// The same if those that answer do not do this work.
const NO_PROCESS: &str = "No process that answers does this work. It may be one that does not \
    answer: the overview lists each. If it runs, its admin listener is missing in \
    console.admin_urls.";

/// The error of a handler, with its answer.
pub(crate) fn failed(request: &HttpRequest, error: &CallError) -> Error {
    let response = match error {
        CallError::NoSession => redirect::to_login(request),
        CallError::NoAnswer(why) => {
            tracing::warn!(why, "the console has no answer of an admin listener");
            let is_change = !request.method().is_safe();
            let said = if is_change { NO_ANSWER_TO_CHANGE } else { NO_ANSWER };
            answer(request, StatusCode::BAD_GATEWAY, said)
        }
        CallError::Refused(_, problem) if NO_ROLE.contains(&&*problem.code) => {
            answer(request, StatusCode::SERVICE_UNAVAILABLE, NO_PROCESS)
        }
        CallError::Refused(status, problem) => answer(request, *status, &problem.detail),
    };
    answered(response)
}

/// The error of a handler that has its answer.
fn answered(response: HttpResponse) -> Error {
    InternalError::from_response("see the answer", response).into()
}

/// The error for a page about something that is not there.
pub(crate) fn missing(request: &HttpRequest, detail: &str) -> Error {
    answered(answer(request, StatusCode::NOT_FOUND, detail))
}

/// The error for a value that a person gave.
pub(crate) fn unfit(request: &HttpRequest, detail: &str) -> Error {
    answered(answer(request, StatusCode::BAD_REQUEST, detail))
}

/// The error for a form that can't be read.
pub(crate) fn unread_post(error: UrlencodedError, request: &HttpRequest) -> Error {
    unfit(request, &format!("What was sent: {error}."))
}

/// The error for an address that can't be read.
pub(crate) fn unread_query(error: QueryPayloadError, request: &HttpRequest) -> Error {
    unfit(request, &format!("The address: {error}."))
}
