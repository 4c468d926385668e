//! Owns the checks of a request's head before its body is read: method, content type, no content
//! encoding, number and size of headers, declared length. Method, type and length are as the
//! profile of the partner in the path requires. The shared path and partners with the default
//! scheme accept JSON by POST.

use actix_web::dev::RequestHead;
use actix_web::guard::GuardContext;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use payfold_partners::directory::Directory;

use crate::body;
use crate::ingest::Ingest;
use crate::refusal::{Refusal, RefusalCode};

/// The most bytes of target, header names and header values in a request.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// The most headers in a request.
const HEADERS_MAX: usize = 64;

/// The refusal of a request before its body is read.
pub(crate) struct HeadRefusal {
    pub(crate) refusal: Refusal,
    /// The method for the `Allow` header of a 405 (RFC 9110, 15.5.6).
    allow: Option<&'static str>,
}

impl HeadRefusal {
    /// Adds the `Allow` header to the response of a 405.
    pub(crate) fn add_allow_header(&self, mut refused: HttpResponse) -> HttpResponse {
        if let Some(allow) = self.allow {
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        refused
    }
}

impl From<Refusal> for HeadRefusal {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, allow: None }
    }
}

/// Whether the partner in the path sends its notices by GET.
pub(crate) fn accepts_get(context: &GuardContext<'_>) -> bool {
    let partner = context.head().uri.path().strip_prefix("/api/payment/ipn/");
    let ingest = context.app_data::<Data<Ingest>>();
    partner.zip(ingest).is_some_and(|(partner, ingest)| {
        let directory = ingest.directory.load();
        directory.scheme(partner).is_some_and(|scheme| scheme.takes_method("GET"))
    })
}

/// Checks a request's head. Returns the size limit of its body, in bytes. Errors:
/// `method_not_allowed`, and those of `check_common`.
pub(crate) fn check_head(
    directory: &Directory,
    request: &HttpRequest,
) -> Result<usize, HeadRefusal> {
    let partner = request.match_info().get("partner");
    let bytes_max = directory.limits(partner).body_bytes;
    let profile = partner.and_then(|partner| directory.profile(partner));
    let Some(custom) = profile.filter(|profile| !profile.is_default_scheme()) else {
        check_common(request.head(), bytes_max, &is_json)?;
        return Ok(bytes_max);
    };
    let scheme = custom.scheme();
    if !scheme.takes_method(request.method().as_str()) {
        let allow = if scheme.takes_method("GET") { "GET" } else { "POST" };
        let refusal = Refusal::new(RefusalCode::MethodNotAllowed);
        return Err(HeadRefusal { refusal, allow: Some(allow) });
    }
    let accepts_type = |content_type: Option<&str>| scheme.takes_content_type(content_type);
    check_common(request.head(), bytes_max, &accepts_type)?;
    Ok(bytes_max)
}

/// Checks what every head must keep to. `accepts_type` decides on the content type; `None` is a
/// request without one. Errors: `headers_too_large`, `bad_request`, `unsupported_content_encoding`,
/// `unsupported_media_type`, `body_too_large`.
fn check_common(
    head: &RequestHead,
    body_bytes_max: usize,
    accepts_type: &dyn Fn(Option<&str>) -> bool,
) -> Result<(), Refusal> {
    let headers = head.headers();
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if target + fields > HEADER_BYTES_MAX || headers.len() > HEADERS_MAX {
        return Err(Refusal::with_detail(
            RefusalCode::HeadersTooLarge,
            format!("at most {HEADERS_MAX} headers of {HEADER_BYTES_MAX} bytes in all"),
        ));
    }
    // Actix reads everything after the head of an upgrade as its body, whatever Content-Length
    // says.
    if headers.get(header::UPGRADE).is_some_and(is_websocket) {
        return Err(Refusal::with_detail(RefusalCode::BadRequest, "an upgrade is not accepted"));
    }
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Refusal::new(RefusalCode::UnsupportedContentEncoding));
    }
    let mut types = headers.get_all(header::CONTENT_TYPE);
    let content_type = types.next().map(|value| value.to_str().unwrap_or_default());
    if types.next().is_some() || !accepts_type(content_type) {
        return Err(Refusal::new(RefusalCode::UnsupportedMediaType));
    }
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if declared.and_then(|digits| digits.parse::<u64>().ok()).is_some_and(|length| {
        usize::try_from(length).map_or(true, |length| length > body_bytes_max)
    }) {
        return Err(body::too_large(body_bytes_max));
    }
    Ok(())
}

fn is_websocket(upgrade: &HeaderValue) -> bool {
    upgrade.as_bytes().trim_ascii().eq_ignore_ascii_case(b"websocket")
}

/// Whether a content type is JSON in UTF-8: `application/json` without a charset or with
/// `charset=utf-8`. Other parameters are ignored.
fn is_json(content_type: Option<&str>) -> bool {
    let Some(content_type) = content_type else { return false };
    let mut parts = content_type.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    if !media.eq_ignore_ascii_case("application/json") {
        return false;
    }
    parts.all(|parameter| match parameter.split_once('=') {
        Some((name, value)) => {
            !name.trim().eq_ignore_ascii_case("charset")
                || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        None => parameter.is_empty(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_in_utf_8_is_json() {
        for (content_type, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=UTF-8", true),
            ("application/json;charset=\"utf-8\"", true),
            ("application/json; charset=latin1", false),
            ("application/json; charset=utf-16", false),
            ("application/jsonp", false),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
            ("", false),
        ] {
            assert_eq!(is_json(Some(content_type)), expected, "{content_type}");
        }
    }

    #[test]
    fn heads_over_a_limit_are_refused() {
        let value = HeaderValue::from_static;
        let mut head = RequestHead::default();
        let mut code_with = |name, value| {
            head.headers_mut().insert(name, value);
            check_common(&head, 100, &is_json).err().map(|refusal| refusal.code)
        };
        assert_eq!(code_with(header::CONTENT_TYPE, value("application/json")), None);
        assert_eq!(code_with(header::CONTENT_LENGTH, value("100")), None);
        assert_eq!(
            code_with(header::CONTENT_LENGTH, value("101")),
            Some(RefusalCode::BodyTooLarge)
        );
        let encoded = code_with(header::CONTENT_ENCODING, value("gzip"));
        assert_eq!(encoded, Some(RefusalCode::UnsupportedContentEncoding));
        assert_eq!(code_with(header::UPGRADE, value("h2c")), encoded);
        assert_eq!(code_with(header::UPGRADE, value("WebSocket ")), Some(RefusalCode::BadRequest));
        let long = HeaderValue::from_str(&"x".repeat(HEADER_BYTES_MAX)).unwrap();
        assert_eq!(code_with(header::USER_AGENT, long), Some(RefusalCode::HeadersTooLarge));
    }

    #[test]
    fn the_target_counts_as_a_header() {
        let code = |bytes| {
            let mut head = RequestHead::default();
            head.uri = format!("/?{}", "x".repeat(bytes - 2)).parse().unwrap();
            check_common(&head, 100, &is_json).unwrap_err().code
        };
        assert_eq!(code(HEADER_BYTES_MAX), RefusalCode::UnsupportedMediaType);
        assert_eq!(code(HEADER_BYTES_MAX + 1), RefusalCode::HeadersTooLarge);
    }
}
