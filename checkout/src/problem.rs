//! Owns the answer to a request that fails: the problem document (RFC 9457) with its stable code.
//! Every request that reaches a route is answered here, also where the library can't read its body.
//! A problem holds no secret and no value from a body; `pointer` may hold a name from it.

pub(crate) mod kinds;

use std::borrow::Cow;

use actix_web::HttpResponse;
use actix_web::http::{StatusCode, header};
use payfold_schemas::ids::{OrderId, RequestId};
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use kinds::ProblemKind;

/// A failed request, before it becomes a document.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    kind: &'static ProblemKind,
    /// The kind's code, or for a failed create call a more exact one, such as
    /// `contract_violation.expires_at`.
    code: Cow<'static, str>,
    detail: Option<Cow<'static, str>>,
    pointer: Option<String>,
    order_id: Option<OrderId>,
    retry_after_s: Option<u32>,
}

impl Problem {
    /// A problem that the title of its kind explains.
    pub(crate) fn new(kind: &'static ProblemKind) -> Self {
        Self {
            kind,
            code: Cow::Borrowed(kind.code),
            detail: None,
            pointer: None,
            order_id: None,
            retry_after_s: kind.retry_after_s,
        }
    }

    /// A problem with a field. `pointer` is a JSON pointer into the request's body (RFC 6901).
    pub(crate) fn at_field(kind: &'static ProblemKind, pointer: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), ..Self::new(kind) }
    }

    /// The problem of a create call that definitely failed. `code` is that of its `CreateFailed`
    /// fact; a code that no kind has is a broken rule of the contract.
    pub(crate) fn create_failed(code: &str, order_id: OrderId) -> Self {
        let kind = kinds::kind_of_failure(code);
        let code = Cow::Owned(code.to_owned());
        Self { code, order_id: Some(order_id), ..Self::new(kind) }
    }

    /// The same problem with a detail of what was wrong; never a value from the request.
    pub(crate) fn with_detail(self, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// The stable code.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// The JSON pointer of the field.
    #[cfg(test)]
    pub(crate) fn pointer(&self) -> Option<&str> {
        self.pointer.as_deref()
    }

    /// Makes the HTTP response.
    pub(crate) fn respond(&self, request_id: RequestId) -> HttpResponse {
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

/// Why a request failed (RFC 9457). `code` is stable; `title` and `detail` are for people.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemDocument {
    /// `urn:payfold:problem:<code>`.
    r#type: String,
    /// One sentence for people, the same for every problem of a code.
    title: String,
    /// The HTTP status.
    #[schemars(with = "i32", range(min = 400, max = 599))]
    status: u16,
    /// Stable, for programs: `amount_out_of_range`, `contract_violation.expires_at`, …
    code: String,
    /// What was wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The field of the body that was wrong, as a JSON pointer (RFC 6901) such as `/amount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    /// The attempt that failed, in a 502. It can be read once it is folded, and is FAILED unless a
    /// payment of it arrives all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    order_id: Option<String>,
    /// The id of the request in logs and records (UUIDv7).
    request_id: String,
}
