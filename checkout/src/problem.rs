//! Owns what a shop is told when its request is not done: the problem document (RFC 9457) with its stable code.
//! Every error leaves through here, the framework's included. A problem holds no secret and no value of a body.

pub mod kinds;

use std::borrow::Cow;

use actix_web::HttpResponse;
use actix_web::http::{StatusCode, header};
use payfold_schemas::ids::{OrderId, RequestId};
use schemars::JsonSchema;
use serde::Serialize;

pub use kinds::Kind;

/// Why a request is not done.
#[derive(Clone, Debug)]
pub struct Problem {
    kind: &'static Kind,
    code: Cow<'static, str>,
    detail: Option<Cow<'static, str>>,
    pointer: Option<String>,
    order_id: Option<OrderId>,
    retry_after_s: Option<u32>,
}

impl Problem {
    /// A problem that its title explains.
    pub fn new(kind: &'static Kind) -> Self {
        Self {
            kind,
            code: Cow::Borrowed(kind.code),
            detail: None,
            pointer: None,
            order_id: None,
            retry_after_s: kind.retry_after_s,
        }
    }

    /// A problem of a field; the pointer is RFC 6901 into the request's body.
    pub fn at(kind: &'static Kind, pointer: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), ..Self::new(kind) }
    }

    /// A create call that definitely failed, by the code in its CF fact.
    pub fn create_failed(code: &str, order_id: OrderId) -> Self {
        let kind = kinds::of_failure(code);
        let code = Cow::Owned(code.to_owned());
        Self { code, order_id: Some(order_id), ..Self::new(kind) }
    }

    /// The same, with what exactly was wrong; never a value of the request.
    pub fn because(self, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// The wire's stable code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Which field is meant.
    #[cfg(test)]
    pub fn pointer(&self) -> Option<&str> {
        self.pointer.as_deref()
    }

    /// The response.
    pub fn respond(&self, request_id: RequestId) -> HttpResponse {
        let status = StatusCode::from_u16(self.kind.status).expect("every kind has a valid status");
        let mut response = HttpResponse::build(status);
        response.insert_header((header::CONTENT_TYPE, "application/problem+json"));
        response.insert_header((header::CACHE_CONTROL, "no-store"));
        if let Some(seconds) = self.retry_after_s {
            response.insert_header((header::RETRY_AFTER, seconds.to_string()));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.insert_header((header::WWW_AUTHENTICATE, "Bearer realm=\"payfold\""));
        }
        if self.kind.closes_connection() {
            response.force_close();
        }
        let document = ProblemDocument {
            r#type: format!("urn:payfold:problem:{}", self.code),
            title: self.kind.title.to_owned(),
            status: self.kind.status,
            code: self.code.clone().into_owned(),
            detail: self.detail.clone().map(Cow::into_owned),
            pointer: self.pointer.clone(),
            order_id: self.order_id.as_ref().map(OrderId::to_string),
            request_id: request_id.to_string(),
        };
        response
            .body(serde_json::to_string(&document).expect("a problem is plain text and numbers"))
    }
}

/// Why a request was not done (RFC 9457); `code` is stable, `title` and `detail` are for people.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Problem")]
pub struct ProblemDocument {
    /// `urn:payfold:problem:<code>`.
    r#type: String,
    /// One sentence for people, the same for every problem of a code.
    title: String,
    /// The HTTP status, again.
    #[schemars(with = "i32", range(min = 400, max = 599))]
    status: u16,
    /// Stable, for programs: `amount_out_of_range`, `contract_violation.expires_at`, …
    code: String,
    /// What exactly was wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Which field of the body is meant (RFC 6901), such as `/amount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    /// The attempt that failed, for 502: it can be read, and is FAILED.
    #[serde(skip_serializing_if = "Option::is_none")]
    order_id: Option<String>,
    /// The request's name in logs and records (UUIDv7).
    request_id: String,
}
