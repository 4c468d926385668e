//! Owns the refusals that senders get: the stable codes, their HTTP status and the problem document
//! (RFC 9457). A refusal never holds a secret, a signature or a body.

use std::net::IpAddr;
use std::sync::LazyLock;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use payfold_partners::rejection::{RejectCode, Rejection};
use payfold_schemas::ids::RequestId;
use serde::Serialize;

/// Why a request is refused. In snake case, a variant's name is the problem document's `code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the titles below describe the codes")]
pub enum RefusalCode {
    MethodNotAllowed,
    NotFound,
    UnsupportedMediaType,
    UnsupportedContentEncoding,
    BodyTooLarge,
    HeadersTooLarge,
    RequestTimeout,
    BadRequest,
    EmptyBody,
    MalformedJson,
    InvalidEncoding,
    NotAnObject,
    DuplicateField,
    TooComplex,
    UnknownField,
    WrongType,
    MissingField,
    EmptyField,
    UnknownStatus,
    AmountNotInteger,
    AmountOutOfRange,
    UnknownCurrency,
    FieldTooLong,
    SeparatorInField,
    IllegalCharacter,
    BadTimestamp,
    NoOrder,
    TimestampOutOfWindow,
    Unauthenticated,
    SourceNotAllowed,
    RateLimited,
    StorageUnavailable,
    QuarantineFull,
    ReceiverClockOff,
    UnverifiedItem,
}

impl RefusalCode {
    /// Every code, in the order of `index`.
    pub const ALL: [RefusalCode; 35] = [
        Self::MethodNotAllowed,
        Self::NotFound,
        Self::UnsupportedMediaType,
        Self::UnsupportedContentEncoding,
        Self::BodyTooLarge,
        Self::HeadersTooLarge,
        Self::RequestTimeout,
        Self::BadRequest,
        Self::EmptyBody,
        Self::MalformedJson,
        Self::InvalidEncoding,
        Self::NotAnObject,
        Self::DuplicateField,
        Self::TooComplex,
        Self::UnknownField,
        Self::WrongType,
        Self::MissingField,
        Self::EmptyField,
        Self::UnknownStatus,
        Self::AmountNotInteger,
        Self::AmountOutOfRange,
        Self::UnknownCurrency,
        Self::FieldTooLong,
        Self::SeparatorInField,
        Self::IllegalCharacter,
        Self::BadTimestamp,
        Self::NoOrder,
        Self::TimestampOutOfWindow,
        Self::Unauthenticated,
        Self::SourceNotAllowed,
        Self::RateLimited,
        Self::StorageUnavailable,
        Self::QuarantineFull,
        Self::ReceiverClockOff,
        Self::UnverifiedItem,
    ];

    /// The code's index in `ALL`.
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The code as sent, its HTTP status and its title.
    fn wire(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::MethodNotAllowed => ("method_not_allowed", 405, "use a method that Allow names"),
            Self::NotFound => ("not_found", 404, "there is nothing at this path"),
            Self::UnsupportedMediaType => (
                "unsupported_media_type",
                415,
                "the Content-Type must be application/json in UTF-8",
            ),
            Self::UnsupportedContentEncoding => {
                ("unsupported_content_encoding", 415, "a Content-Encoding is not taken")
            }
            Self::BodyTooLarge => ("body_too_large", 413, "the body is over the size limit"),
            Self::HeadersTooLarge => ("headers_too_large", 431, "the headers are over the limit"),
            Self::RequestTimeout => ("request_timeout", 408, "the body came too slowly"),
            Self::BadRequest => ("bad_request", 400, "the request's framing is broken"),
            Self::EmptyBody => ("empty_body", 400, "the body is empty"),
            Self::MalformedJson => ("malformed_json", 400, "the body is not one JSON document"),
            Self::InvalidEncoding => ("invalid_encoding", 400, "a text is not valid UTF-8"),
            Self::NotAnObject => ("not_an_object", 400, "the body must be a JSON object"),
            Self::DuplicateField => ("duplicate_field", 400, "a field is there twice"),
            Self::TooComplex => ("too_complex", 400, "the body has too many parts or levels"),
            Self::UnknownField => ("unknown_field", 400, "a field is not of the contract"),
            Self::WrongType => ("wrong_type", 400, "a field has another type"),
            Self::MissingField => ("missing_field", 400, "a required field is missing"),
            Self::EmptyField => ("empty_field", 400, "a field is empty"),
            Self::UnknownStatus => {
                ("unknown_status", 400, "status must be SUCCESS, FAILED, EXPIRED or REFUNDED")
            }
            Self::AmountNotInteger => (
                "amount_not_integer",
                400,
                "amount must be plain digits of an integer in minor units",
            ),
            Self::AmountOutOfRange => ("amount_out_of_range", 400, "amount must be 1 to 10^15"),
            Self::UnknownCurrency => {
                ("unknown_currency", 400, "currency must be an ISO 4217 code with minor units")
            }
            Self::FieldTooLong => ("field_too_long", 400, "a field is too long"),
            Self::SeparatorInField => (
                "separator_in_field",
                400,
                "a signed value holds the separator of the signing text",
            ),
            Self::IllegalCharacter => {
                ("illegal_character", 400, "a field has a character it may not have")
            }
            Self::BadTimestamp => ("bad_timestamp", 400, "a time must be RFC 3339 with a zone"),
            // Quarantined under this code, and acknowledged.
            Self::NoOrder => ("no_order", 200, "the notice names no order of ours"),
            Self::TimestampOutOfWindow => {
                ("timestamp_out_of_window", 403, "the timestamp is too far from the present")
            }
            Self::Unauthenticated => {
                ("unauthenticated", 401, "check the path, merchant code, key and signing text")
            }
            Self::SourceNotAllowed => {
                ("source_not_allowed", 403, "the source address is not allowed")
            }
            Self::RateLimited => ("rate_limited", 429, "too many requests"),
            Self::StorageUnavailable => {
                ("storage_unavailable", 503, "the notice could not be stored; send it again")
            }
            Self::QuarantineFull => {
                ("quarantine_full", 503, "the notice could not be kept; send it again later")
            }
            Self::ReceiverClockOff => {
                ("receiver_clock_off", 503, "the receiver's clock or key is off; send it later")
            }
            Self::UnverifiedItem => ("unverified_item", 503, "an item could not be authenticated"),
        }
    }

    /// The stable code as sent.
    pub fn as_str(self) -> &'static str {
        self.wire().0
    }

    /// The HTTP status code.
    pub fn status(self) -> u16 {
        self.wire().1
    }

    /// One sentence for a person.
    pub(crate) fn title(self) -> &'static str {
        self.wire().2
    }

    fn closes_connection(self) -> bool {
        matches!(
            self,
            Self::BodyTooLarge | Self::RequestTimeout | Self::BadRequest | Self::HeadersTooLarge
        )
    }
}

/// A refusal: its code, and what exactly was wrong if the sender may learn it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code.
    pub code: RefusalCode,
    /// Names the field or limit; never a value of the notice.
    pub detail: Option<String>,
    /// `Retry-After` of a 429 or 503, in seconds.
    pub retry_after_s: Option<u64>,
    /// This host's clock minus the delivery timestamp, if the timestamp is the reason.
    pub skew_ms: Option<i64>,
    /// The address the request came from, if that is the reason. It is personal data, so a refusal
    /// for any other reason is without it.
    pub address: Option<IpAddr>,
}

impl Refusal {
    /// A refusal that the code's title explains.
    pub fn new(code: RefusalCode) -> Self {
        Self { code, detail: None, retry_after_s: None, skew_ms: None, address: None }
    }

    /// A refusal with a detail that names the field or limit.
    pub(crate) fn with_detail(code: RefusalCode, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..Self::new(code) }
    }

    /// A refusal that asks for a retry.
    pub(crate) fn with_retry(code: RefusalCode, after_s: u64) -> Self {
        Self { retry_after_s: Some(after_s), ..Self::new(code) }
    }

    /// A refusal by a rate limit; `limit` says which.
    pub(crate) fn rate_limited(limit: &str) -> Self {
        let detail = Some(format!("over the rate limit {limit}"));
        Self { detail, ..Self::with_retry(RefusalCode::RateLimited, 1) }
    }

    /// This refusal, with the address the request came from.
    pub(crate) fn of_address(self, address: Option<IpAddr>) -> Self {
        Self { address, ..self }
    }

    /// The response: a problem document (RFC 9457) with the code and the request id.
    pub(crate) fn respond(&self, request_id: RequestId) -> HttpResponse {
        let status =
            StatusCode::from_u16(self.code.status()).expect("every code has a valid status");
        let mut response = HttpResponse::build(status);
        let problem_json = HeaderValue::from_static("application/problem+json");
        response.insert_header((header::CONTENT_TYPE, problem_json));
        if let Some(seconds) = self.retry_after_s {
            response.insert_header((header::RETRY_AFTER, seconds.to_string()));
        }
        if self.code.closes_connection() {
            response.force_close();
        }
        response.body(ProblemTemplate::for_code(self.code).fill(self.detail.as_deref(), request_id))
    }
}

/// The problem document of one code without its detail and request id. Filling it in costs a copy
/// instead of a serialization.
struct ProblemTemplate {
    before_detail: Box<str>,
    before_id: Box<str>,
    after_id: Box<str>,
}

impl ProblemTemplate {
    fn for_code(code: RefusalCode) -> &'static Self {
        static ALL: LazyLock<[ProblemTemplate; RefusalCode::ALL.len()]> =
            LazyLock::new(|| RefusalCode::ALL.map(ProblemTemplate::build));
        &ALL[code.index()]
    }

    fn build(code: RefusalCode) -> Self {
        let (detail, id) = (",\"detail\":\"\"", "00000000-0000-0000-0000-000000000000");
        let problem =
            ProblemDocument::new(code, Some(""), id.parse().expect("it is a UUID")).to_json();
        let (before_detail, rest) = problem.split_once(detail).expect("the document has a detail");
        let (before_id, after_id) = rest.split_once(id).expect("the document has a request id");
        Self {
            before_detail: before_detail.into(),
            before_id: before_id.into(),
            after_id: after_id.into(),
        }
    }

    fn fill(&self, detail: Option<&str>, id: RequestId) -> Vec<u8> {
        const NAME: &str = ",\"detail\":";
        let mut text = [0; RequestId::TEXT_LENGTH];
        let id = id.encode(&mut text);
        let plain = [&self.before_detail, &self.before_id, id, &self.after_id].map(str::len);
        // The exact length, unless the detail has characters that JSON escapes.
        let detail_bytes = detail.map_or(0, |detail| NAME.len() + detail.len() + 2);
        let mut problem = Vec::with_capacity(plain.iter().sum::<usize>() + detail_bytes);
        problem.extend_from_slice(self.before_detail.as_bytes());
        if let Some(detail) = detail {
            problem.extend_from_slice(NAME.as_bytes());
            serde_json::to_writer(&mut problem, detail).expect("text can be written as JSON");
        }
        for part in [&self.before_id, id, &self.after_id] {
            problem.extend_from_slice(part.as_bytes());
        }
        problem
    }
}

/// A problem document (RFC 9457) with two extension members, `code` and `requestId`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProblemDocument<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    request_id: RequestId,
}

impl<'a> ProblemDocument<'a> {
    fn new(code: RefusalCode, detail: Option<&'a str>, request_id: RequestId) -> Self {
        let (title, status) = (code.title(), code.status());
        let r#type = format!("urn:payfold:problem:{}", code.as_str());
        Self { r#type, title, status, code: code.as_str(), detail, request_id }
    }

    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a problem document is plain text and numbers")
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        let code = match rejection.code() {
            RejectCode::EmptyBody => RefusalCode::EmptyBody,
            RejectCode::MalformedJson => RefusalCode::MalformedJson,
            RejectCode::InvalidEncoding => RefusalCode::InvalidEncoding,
            RejectCode::NotAnObject => RefusalCode::NotAnObject,
            RejectCode::DuplicateField => RefusalCode::DuplicateField,
            RejectCode::TooComplex => RefusalCode::TooComplex,
            RejectCode::Unauthenticated => RefusalCode::Unauthenticated,
        };
        let detail = rejection.detail().map(str::to_owned);
        Self { detail, ..Self::new(code) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_index() {
        for (index, code) in RefusalCode::ALL.into_iter().enumerate() {
            assert_eq!(code.index(), index, "{}", code.as_str());
        }
    }

    #[test]
    fn a_filled_template_equals_the_serialized_document() {
        let id: RequestId = "01939b1c-7a00-7000-8000-000000000001".parse().unwrap();
        for code in RefusalCode::ALL {
            for detail in [None, Some("600 s in the past"), Some("in \"amount\"\n\u{1}é")] {
                let filled =
                    String::from_utf8(ProblemTemplate::for_code(code).fill(detail, id)).unwrap();
                assert_eq!(filled, ProblemDocument::new(code, detail, id).to_json());
                assert!(filled.contains("01939b1c-7a00-7000-8000-000000000001"), "{filled}");
            }
        }
    }
}
