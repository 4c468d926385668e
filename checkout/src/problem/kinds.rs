//! Owns the kinds of problems: stable code, HTTP status, one sentence for people, and when to try
//! again. A code is never reused for another meaning.

/// A kind of problem.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProblemKind {
    /// The stable code.
    pub code: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// One sentence for people.
    pub title: &'static str,
    /// The `Retry-After`, s, if trying again can help.
    pub retry_after_s: Option<u32>,
}

const fn kind(code: &'static str, status: u16, title: &'static str) -> ProblemKind {
    ProblemKind { code, status, title, retry_after_s: None }
}

impl ProblemKind {
    const fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after_s: Some(seconds), ..self }
    }

    /// Whether the connection has to be closed, because the rest of the body is not read.
    pub(super) fn closes_connection(&self) -> bool {
        [&BODY_TOO_LARGE, &REQUEST_TIMEOUT, &BAD_REQUEST].contains(&self)
    }
}

/// The kind of a create call that failed with this code.
pub(super) fn kind_of_failure(code: &str) -> &'static ProblemKind {
    [&PARTNER_REFUSED, &PARTNER_UNREACHABLE, &NOT_CALLED]
        .into_iter()
        .find(|kind| kind.code == code)
        .unwrap_or(&CONTRACT_VIOLATION)
}

mod table {
    use super::{ProblemKind, kind};

    // The request as HTTP.
    pub(crate) static NOT_FOUND: ProblemKind =
        kind("not_found", 404, "there is nothing at this path");
    pub(crate) static METHOD_NOT_ALLOWED: ProblemKind =
        kind("method_not_allowed", 405, "this path takes another method");
    pub(crate) static UNAUTHENTICATED: ProblemKind =
        kind("unauthenticated", 401, "a valid shop key is needed: Authorization: Bearer …");
    pub(crate) static BAD_REQUEST: ProblemKind =
        kind("bad_request", 400, "the request's framing is broken");
    pub(crate) static BAD_PARAMETER: ProblemKind =
        kind("bad_parameter", 400, "a query parameter can't be used");
    pub(crate) static UNSUPPORTED_MEDIA_TYPE: ProblemKind =
        kind("unsupported_media_type", 415, "the Content-Type must be application/json in UTF-8");
    pub(crate) static UNSUPPORTED_CONTENT_ENCODING: ProblemKind =
        kind("unsupported_content_encoding", 415, "a Content-Encoding is not supported");
    pub(crate) static BODY_TOO_LARGE: ProblemKind =
        kind("body_too_large", 413, "the body is over the size limit");
    pub(crate) static REQUEST_TIMEOUT: ProblemKind =
        kind("request_timeout", 408, "the body arrived too slowly");
    // The body as JSON.
    pub(crate) static EMPTY_BODY: ProblemKind = kind("empty_body", 400, "the body is empty");
    pub(crate) static MALFORMED_JSON: ProblemKind =
        kind("malformed_json", 400, "the body is not one JSON document in UTF-8");
    pub(crate) static NOT_AN_OBJECT: ProblemKind =
        kind("not_an_object", 400, "the body must be a JSON object");
    pub(crate) static DUPLICATE_FIELD: ProblemKind =
        kind("duplicate_field", 400, "a field is there twice");
    // Its fields.
    pub(crate) static UNKNOWN_FIELD: ProblemKind = kind("unknown_field", 422, "a field is unknown");
    pub(crate) static MISSING_FIELD: ProblemKind =
        kind("missing_field", 422, "a required field is missing");
    pub(crate) static EMPTY_FIELD: ProblemKind =
        kind("empty_field", 422, "a field is empty or blank");
    pub(crate) static WRONG_TYPE: ProblemKind =
        kind("wrong_type", 422, "a field has the wrong type");
    pub(crate) static WRONG_VALUE: ProblemKind =
        kind("wrong_value", 422, "a field has a value that is not one of its choices");
    pub(crate) static FIELD_TOO_LONG: ProblemKind =
        kind("field_too_long", 422, "a field is too long");
    pub(crate) static ILLEGAL_CHARACTER: ProblemKind =
        kind("illegal_character", 422, "a field has a character that is not allowed");
    pub(crate) static TOO_MANY_ENTRIES: ProblemKind =
        kind("too_many_entries", 422, "metadata has too many entries");
    pub(crate) static AMOUNT_NOT_INTEGER: ProblemKind =
        kind("amount_not_integer", 422, "amount must be plain digits of an integer in minor units");
    pub(crate) static AMOUNT_OUT_OF_RANGE: ProblemKind =
        kind("amount_out_of_range", 422, "amount must be 1 to 10^15 minor units");
    pub(crate) static UNKNOWN_CURRENCY: ProblemKind = kind(
        "unknown_currency",
        422,
        "currency must be an ISO 4217 code with minor units, in capitals",
    );
    pub(crate) static BAD_TIMESTAMP: ProblemKind =
        kind("bad_timestamp", 422, "a time must be RFC 3339 with a zone");
    pub(crate) static EXPIRES_AT_PAST: ProblemKind =
        kind("expires_at_past", 422, "expiresAt must be in the future");
    pub(crate) static UNKNOWN_ACCOUNT: ProblemKind =
        kind("unknown_account", 422, "the shop has no such account");
    pub(crate) static UNKNOWN_RETURN_TO: ProblemKind =
        kind("unknown_return_to", 422, "returnTo is not a name from the settings");
    pub(crate) static PRESENTATION_NOT_SUPPORTED: ProblemKind =
        kind("presentation_not_supported", 422, "this partner can't be asked for a presentation");
    pub(crate) static CURRENCY_NOT_SUPPORTED: ProblemKind = kind(
        "currency_not_supported",
        422,
        "payments are not created in this currency at this partner",
    );
    pub(crate) static AMOUNT_NOT_SUPPORTED: ProblemKind = kind(
        "amount_not_supported",
        422,
        "this partner can't be asked for this part of the currency's unit",
    );
    pub(crate) static CREATE_NOT_SUPPORTED: ProblemKind = kind(
        "create_not_supported",
        422,
        "payments are not created at this partner through this system",
    );
    // The Idempotency-Key.
    pub(crate) static IDEMPOTENCY_KEY_MISSING: ProblemKind = kind(
        "idempotency_key_missing",
        400,
        "one Idempotency-Key of 1 to 255 printable ASCII characters is needed",
    );
    pub(crate) static IDEMPOTENCY_KEY_REUSED: ProblemKind =
        kind("idempotency_key_reused", 422, "this Idempotency-Key was used with another body");
    pub(crate) static IDEMPOTENCY_KEY_IN_FLIGHT: ProblemKind = kind(
        "idempotency_key_in_flight",
        409,
        "a request with this Idempotency-Key is in flight; send the request again",
    )
    .retry_after(1);
    // The partner.
    pub(crate) static PARTNER_REFUSED: ProblemKind =
        kind("partner_refused", 502, "the partner refused the payment; a new attempt may be made");
    pub(crate) static PARTNER_UNREACHABLE: ProblemKind =
        kind("partner_unreachable", 502, "the partner can't be reached; a new attempt may be made");
    pub(crate) static CONTRACT_VIOLATION: ProblemKind = kind(
        "contract_violation",
        502,
        "the partner's answer breaks the contract; a new attempt may be made",
    );
    pub(crate) static NOT_CALLED: ProblemKind = kind(
        "not_called",
        502,
        "the storage failed and nothing was sent to the partner; a new attempt may be made",
    );
    pub(crate) static PARTNER_BUSY: ProblemKind = kind(
        "partner_busy",
        503,
        "too many calls to this partner are in flight; send the request again",
    )
    .retry_after(1);
    pub(crate) static ACCOUNT_NOT_READY: ProblemKind =
        kind("account_not_ready", 503, "the account can't be used as it is configured now")
            .retry_after(60);
    // Our side.
    pub(crate) static STORAGE_UNAVAILABLE: ProblemKind =
        kind("storage_unavailable", 503, "the storage can't be reached; send the request again")
            .retry_after(5);
    pub(crate) static TOO_MANY_FOLLOWERS: ProblemKind = kind(
        "too_many_followers",
        503,
        "too many streams and long polls are open; send the request again",
    )
    .retry_after(5);
    pub(crate) static INTERNAL: ProblemKind = kind(
        "internal_error",
        500,
        "payfold has a defect; the same request with the same key is safe to send again",
    );
    // Topics.
    pub(crate) static BAD_POSITION: ProblemKind =
        kind("bad_position", 400, "after is not a position of this topic");
    pub(crate) static POSITION_GONE: ProblemKind =
        kind("position_gone", 410, "the events after this position are no longer kept");
}

pub(crate) use table::*;

/// All kinds; a test checks that the OpenAPI document has each.
#[cfg(test)]
pub static ALL: [&ProblemKind; 46] = [
    &NOT_FOUND,
    &METHOD_NOT_ALLOWED,
    &UNAUTHENTICATED,
    &BAD_REQUEST,
    &BAD_PARAMETER,
    &UNSUPPORTED_MEDIA_TYPE,
    &UNSUPPORTED_CONTENT_ENCODING,
    &BODY_TOO_LARGE,
    &REQUEST_TIMEOUT,
    &EMPTY_BODY,
    &MALFORMED_JSON,
    &NOT_AN_OBJECT,
    &DUPLICATE_FIELD,
    &UNKNOWN_FIELD,
    &MISSING_FIELD,
    &EMPTY_FIELD,
    &WRONG_TYPE,
    &WRONG_VALUE,
    &FIELD_TOO_LONG,
    &ILLEGAL_CHARACTER,
    &TOO_MANY_ENTRIES,
    &AMOUNT_NOT_INTEGER,
    &AMOUNT_OUT_OF_RANGE,
    &UNKNOWN_CURRENCY,
    &BAD_TIMESTAMP,
    &EXPIRES_AT_PAST,
    &UNKNOWN_ACCOUNT,
    &UNKNOWN_RETURN_TO,
    &PRESENTATION_NOT_SUPPORTED,
    &CURRENCY_NOT_SUPPORTED,
    &AMOUNT_NOT_SUPPORTED,
    &CREATE_NOT_SUPPORTED,
    &IDEMPOTENCY_KEY_MISSING,
    &IDEMPOTENCY_KEY_REUSED,
    &IDEMPOTENCY_KEY_IN_FLIGHT,
    &PARTNER_REFUSED,
    &PARTNER_UNREACHABLE,
    &CONTRACT_VIOLATION,
    &NOT_CALLED,
    &PARTNER_BUSY,
    &ACCOUNT_NOT_READY,
    &STORAGE_UNAVAILABLE,
    &TOO_MANY_FOLLOWERS,
    &INTERNAL,
    &BAD_POSITION,
    &POSITION_GONE,
];
