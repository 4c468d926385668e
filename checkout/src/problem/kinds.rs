//! Owns the kinds of problems: stable code, HTTP status, one sentence for people, and when to come again.
//! A code is never reused for another meaning.

/// A kind of problem.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The wire's stable code.
    pub code: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// One sentence for people.
    pub title: &'static str,
    /// Seconds after which to try again, where that helps.
    pub retry_after_s: Option<u32>,
}

const fn kind(code: &'static str, status: u16, title: &'static str) -> Kind {
    Kind { code, status, title, retry_after_s: None }
}

impl Kind {
    const fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after_s: Some(seconds), ..self }
    }

    /// Whether nothing more can be read from the connection after it.
    pub(super) fn closes_connection(&self) -> bool {
        [&BODY_TOO_LARGE, &REQUEST_TIMEOUT, &BAD_REQUEST].contains(&self)
    }
}

/// The kind of a create call that failed with this code.
pub(super) fn of_failure(code: &str) -> &'static Kind {
    [&PARTNER_REFUSED, &PARTNER_UNREACHABLE, &NOT_CALLED]
        .into_iter()
        .find(|kind| kind.code == code)
        .unwrap_or(&CONTRACT_VIOLATION)
}

#[rustfmt::skip]
mod table {
    use super::{Kind, kind};

    // The request as HTTP.
    pub static NOT_FOUND: Kind = kind("not_found", 404, "there is nothing at this path");
    pub static METHOD_NOT_ALLOWED: Kind = kind("method_not_allowed", 405, "this path takes another method");
    pub static UNAUTHENTICATED: Kind = kind("unauthenticated", 401, "a valid shop key is needed: Authorization: Bearer …");
    pub static BAD_REQUEST: Kind = kind("bad_request", 400, "the request's framing is broken");
    pub static BAD_PARAMETER: Kind = kind("bad_parameter", 400, "a query parameter can't be used");
    pub static UNSUPPORTED_MEDIA_TYPE: Kind = kind("unsupported_media_type", 415, "the Content-Type must be application/json in UTF-8");
    pub static UNSUPPORTED_CONTENT_ENCODING: Kind = kind("unsupported_content_encoding", 415, "a Content-Encoding is not taken");
    pub static BODY_TOO_LARGE: Kind = kind("body_too_large", 413, "the body is over the size limit");
    pub static REQUEST_TIMEOUT: Kind = kind("request_timeout", 408, "the body came too slowly");
    // The body as JSON.
    pub static EMPTY_BODY: Kind = kind("empty_body", 400, "the body is empty");
    pub static MALFORMED_JSON: Kind = kind("malformed_json", 400, "the body is not one JSON document in UTF-8");
    pub static NOT_AN_OBJECT: Kind = kind("not_an_object", 400, "the body must be a JSON object");
    pub static DUPLICATE_FIELD: Kind = kind("duplicate_field", 400, "a field is there twice");
    // Its fields.
    pub static UNKNOWN_FIELD: Kind = kind("unknown_field", 422, "a field is not known here");
    pub static MISSING_FIELD: Kind = kind("missing_field", 422, "a required field is missing");
    pub static EMPTY_FIELD: Kind = kind("empty_field", 422, "a field is empty or blank");
    pub static WRONG_TYPE: Kind = kind("wrong_type", 422, "a field has another type");
    pub static WRONG_VALUE: Kind = kind("wrong_value", 422, "a field has a value that is not one of its choices");
    pub static FIELD_TOO_LONG: Kind = kind("field_too_long", 422, "a field is too long");
    pub static ILLEGAL_CHARACTER: Kind = kind("illegal_character", 422, "a field has a character it may not have");
    pub static TOO_MANY_ENTRIES: Kind = kind("too_many_entries", 422, "metadata has too many entries");
    pub static AMOUNT_NOT_INTEGER: Kind = kind("amount_not_integer", 422, "amount must be plain digits of an integer in minor units");
    pub static AMOUNT_OUT_OF_RANGE: Kind = kind("amount_out_of_range", 422, "amount must be 1 to 10^15 minor units");
    pub static UNKNOWN_CURRENCY: Kind = kind("unknown_currency", 422, "currency must be an ISO 4217 code with minor units, in capitals");
    pub static BAD_TIMESTAMP: Kind = kind("bad_timestamp", 422, "a time must be RFC 3339 with a zone");
    pub static EXPIRES_AT_PAST: Kind = kind("expires_at_past", 422, "expiresAt must be in the future");
    pub static UNKNOWN_ACCOUNT: Kind = kind("unknown_account", 422, "the shop has no such account");
    pub static UNKNOWN_RETURN_TO: Kind = kind("unknown_return_to", 422, "returnTo names no place of the settings");
    pub static PRESENTATION_NOT_SUPPORTED: Kind = kind("presentation_not_supported", 422, "this partner can't be asked for a presentation");
    pub static SEPARATOR_IN_FIELD: Kind = kind("separator_in_field", 422, "a signed value holds the separator of the partner's signing text");
    pub static CURRENCY_NOT_SUPPORTED: Kind = kind("currency_not_supported", 422, "payments are not created in this currency at this partner");
    pub static AMOUNT_NOT_SUPPORTED: Kind = kind("amount_not_supported", 422, "this partner can't be asked for this part of the currency's unit");
    pub static CREATE_NOT_SUPPORTED: Kind = kind("create_not_supported", 422, "payments are not created at this partner through this system");
    // The key of the request.
    pub static IDEMPOTENCY_KEY_MISSING: Kind = kind("idempotency_key_missing", 400, "one Idempotency-Key of 1 to 255 printable ASCII characters is needed");
    pub static IDEMPOTENCY_KEY_REUSED: Kind = kind("idempotency_key_reused", 422, "this Idempotency-Key was used with another body");
    pub static IDEMPOTENCY_KEY_IN_FLIGHT: Kind = kind("idempotency_key_in_flight", 409, "a request with this Idempotency-Key is being worked on").retry_after(1);
    // The partner.
    pub static PARTNER_REFUSED: Kind = kind("partner_refused", 502, "the partner refused the payment; a new attempt may be made");
    pub static PARTNER_UNREACHABLE: Kind = kind("partner_unreachable", 502, "the partner can't be reached; a new attempt may be made");
    pub static CONTRACT_VIOLATION: Kind = kind("contract_violation", 502, "the partner's answer breaks the contract; a new attempt may be made");
    pub static NOT_CALLED: Kind = kind("not_called", 502, "the storage was in trouble and nothing was sent to the partner; a new attempt may be made");
    pub static PARTNER_BUSY: Kind = kind("partner_busy", 503, "too many calls wait for this partner; send the request again").retry_after(1);
    pub static ACCOUNT_NOT_READY: Kind = kind("account_not_ready", 503, "the account can't be called as it is configured now").retry_after(60);
    // Ourselves.
    pub static STORAGE_UNAVAILABLE: Kind = kind("storage_unavailable", 503, "the storage can't be reached; send the request again").retry_after(5);
    pub static TOO_MANY_FOLLOWERS: Kind = kind("too_many_followers", 503, "too many streams and long polls are open").retry_after(5);
    pub static INTERNAL: Kind = kind("internal_error", 500, "this is a defect here; the same request with the same key is safe to send again");
    // Topics.
    pub static BAD_POSITION: Kind = kind("bad_position", 400, "after is no position of this topic");
    pub static POSITION_GONE: Kind = kind("position_gone", 410, "the events after this position are no longer kept");
}

pub use table::*;

/// Every kind, to hold the description of the interface to.
#[cfg(test)]
pub static ALL: [&Kind; 47] = [
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
    &SEPARATOR_IN_FIELD,
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
