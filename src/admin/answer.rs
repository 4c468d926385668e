//! Owns what the admin calls have in common: reading a request, answering it, problem documents,
//! and reasons.

use actix_web::{HttpResponse, ResponseError};
use payfold_engines::EngineError;
use payfold_projector::journal::DecideError;
use payfold_reconcile::service::ServiceError;
use payfold_schemas::ids::Author;
use serde::Serialize;
use serde::de::DeserializeOwned;

use payfold_api::call::{Call, Problem};

/// The longest accepted reason.
const REASON_CHARS: usize = 1_000;

/// Parses the body of a call. Errors: it is not what the call takes.
pub(super) fn read<Q: DeserializeOwned, A>(_call: &Call<Q, A>, body: &[u8]) -> Result<Q, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        bad(format!("the body is not what this call takes, which /openapi.json describes: {error}"))
    })
}

/// Answers a call.
pub(super) fn answer<Q, A: Serialize>(call: &Call<Q, A>, answer: &A) -> Answer {
    let status = actix_web::http::StatusCode::from_u16(call.status).expect("a valid status");
    Ok(HttpResponse::build(status).json(answer))
}

/// A problem document (RFC 9457).
pub(super) fn problem(status: u16, code: &str, detail: &str) -> HttpResponse {
    let status_code = actix_web::http::StatusCode::from_u16(status).expect("a valid status");
    HttpResponse::build(status_code).content_type("application/problem+json").json(Problem {
        kind: format!("urn:payfold:problem:{code}"),
        title: code.replace('_', " "),
        status,
        code: code.to_owned(),
        detail: detail.to_owned(),
    })
}

/// Why a call is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("an admin token is needed: Authorization: Bearer …")]
    Unauthenticated,
    #[error("the token of {author} has the role {role}; this call takes one of: {roles}")]
    Forbidden { author: Author, role: &'static str, roles: String },
    #[error("this process has no projector: ask the admin listener of one that runs the role")]
    NoProjector,
    #[error("this process has no reconciler: ask the admin listener of one that runs the role")]
    NoReconciler,
    #[error("{0}")]
    Bad(String),
    #[error(
        "this listener is not called {0:?}: call it by its address, or add the name to \
         `admin_hosts`"
    )]
    Misdirected(String),
    #[error("this process knows of no such run; `payfold reconcile runs` lists what ended")]
    NoSuchRun,
    #[error(
        "this file is not kept any more, or not here: one that was sent is kept for an hour at \
         most; send it once more"
    )]
    NoSuchFile,
    #[error("the file can't be kept: {0}")]
    NotStored(anyhow::Error),
    #[error("quarantine can't be read: {0}; try again when `payfold check --connect` is well")]
    Unread(String),
    #[error("{0}")]
    NotReleasable(String),
    #[error(
        "a rule is broken on purpose in the demo only (`payfold run` without a configuration): \
            here orders are real"
    )]
    NoDrill,
    #[error("this system has a configuration; the demo order is for `payfold run` without one")]
    NoDemo,
    #[error(
        "this process has no orders and findings, or knows no accounts: ask the admin listener of \
         one that runs the reconciler or checkout role"
    )]
    NoOrders,
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Newer(String),
    #[error("another trace is being made, and a trace may read the whole log: try again soon")]
    BusyTracing,
    #[error("{0}; payfold log verify finds what else is damaged")]
    Damaged(String),
    #[error("{0}")]
    Unavailable(EngineError),
    #[error(transparent)]
    Decide(#[from] DecideError),
    #[error(transparent)]
    Reconcile(#[from] ServiceError),
}

impl ResponseError for Refusal {
    fn error_response(&self) -> HttpResponse {
        let (status, code) = match self {
            Self::Unauthenticated => (401, "unauthenticated"),
            Self::Forbidden { .. } => (403, "forbidden"),
            Self::NoProjector => (404, "no_projector"),
            Self::NoReconciler => (404, "no_reconciler"),
            Self::NoOrders => (404, "no_orders"),
            Self::Missing(_) => (404, "missing"),
            Self::Damaged(_) => (500, "damaged"),
            Self::Newer(_) => (500, "newer_record"),
            Self::Bad(_) => (400, "bad_request"),
            Self::Misdirected(_) => (421, "misdirected"),
            Self::NoSuchRun => (404, "no_such_run"),
            Self::NoSuchFile => (404, "no_such_file"),
            Self::NotStored(_) => (507, "not_stored"),
            Self::Unread(_)
            | Self::Unavailable(_)
            | Self::Decide(DecideError::Engine(EngineError::Unavailable(_))) => {
                (503, "storage_unavailable")
            }
            Self::NotReleasable(_) => (422, "not_releasable"),
            Self::NoDrill => (422, "no_drill"),
            Self::NoDemo => (404, "not_a_demo"),
            Self::Reconcile(ServiceError::Refused(_)) | Self::Decide(DecideError::Refused(_)) => {
                (422, "refused")
            }
            Self::Decide(DecideError::Engine(_)) => (500, "storage_failed"),
            Self::BusyTracing | Self::Reconcile(ServiceError::Busy) => (429, "busy"),
            Self::Reconcile(ServiceError::Ended) => (503, "reconciler_ended"),
        };
        problem(status, code, &self.to_string())
    }
}

pub(super) type Answer = Result<HttpResponse, Refusal>;

pub(super) fn bad(detail: impl Into<String>) -> Refusal {
    Refusal::Bad(detail.into())
}

/// Checks the reason of a change. Errors: it is empty or too long.
pub(super) fn assert_reason(reason: &str) -> Result<(), Refusal> {
    let chars = reason.trim().chars().count();
    if chars == 0 || chars > REASON_CHARS {
        return Err(bad(format!(
            "what changes something takes a reason of 1 to {REASON_CHARS} characters"
        )));
    }
    Ok(())
}
