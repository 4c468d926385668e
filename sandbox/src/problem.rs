//! Owns the refusals that callers get: a problem document (RFC 9457) with a stable `code`. It never
//! holds a key, a signature or a body.

use std::fmt;

use actix_web::http::{StatusCode, header};
use actix_web::{HttpResponse, ResponseError};
use payfold_partners::scheme::SimulationError;
use serde::Serialize;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestProblem {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) detail: String,
}

impl RequestProblem {
    pub(crate) fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into() }
    }

    /// A field has an invalid value.
    pub(crate) fn field(field: &str, problem: impl fmt::Display) -> Self {
        Self::new(400, "invalid_field", format!("{field}: {problem}"))
    }

    pub(crate) fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(401, "unauthenticated", detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, "not_found", detail)
    }
}

/// The profile has no form for what there is to say.
impl From<SimulationError> for RequestProblem {
    fn from(error: SimulationError) -> Self {
        Self::new(500, "unwritable_answer", error.to_string())
    }
}

impl fmt::Display for RequestProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}

#[derive(Serialize)]
struct ProblemBody<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    code: &'a str,
    detail: &'a str,
}

impl ResponseError for RequestProblem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let status = self.status_code();
        let document = ProblemBody {
            r#type: format!("urn:payfold-sandbox:problem:{}", self.code),
            title: status.canonical_reason().unwrap_or("problem"),
            status: self.status,
            code: self.code,
            detail: &self.detail,
        };
        let body =
            serde_json::to_string(&document).expect("a problem document is plain text and numbers");
        let mut response = HttpResponse::build(status);
        response.insert_header((header::CONTENT_TYPE, "application/problem+json"));
        if self.status == 429 || self.status == 503 {
            response.insert_header((header::RETRY_AFTER, "1"));
        }
        response.body(body)
    }
}
