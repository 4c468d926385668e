//! Owns what a request's head must look like before its body is read: size and number of headers,
//! content type, no content encoding, declared length. Pure over the head.

use actix_web::dev::RequestHead;
use actix_web::http::header::{self, HeaderValue};

use crate::body;
use crate::refusal::{Code, Refusal};

/// Bytes of target, header names and values a request may have.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Headers a request may have.
pub const HEADERS_MAX: usize = 64;

/// Judges a head; `takes` says which content type is read, `None` is none at all. Errors: `headers_too_large`, `bad_request`, `unsupported_content_encoding`,
/// `unsupported_media_type`, `body_too_large`.
pub fn check(
    head: &RequestHead,
    body_bytes_max: usize,
    takes: &dyn Fn(Option<&str>) -> bool,
) -> Result<(), Refusal> {
    let headers = head.headers();
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if target + fields > HEADER_BYTES_MAX || headers.len() > HEADERS_MAX {
        return Err(Refusal::because(
            Code::HeadersTooLarge,
            format!("at most {HEADERS_MAX} headers of {HEADER_BYTES_MAX} bytes in all"),
        ));
    }
    // The library takes all that follows such a head for its body, whatever its length says.
    if headers.get(header::UPGRADE).is_some_and(is_websocket) {
        return Err(Refusal::because(Code::BadRequest, "an upgrade is not taken"));
    }
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Refusal::new(Code::UnsupportedContentEncoding));
    }
    let mut types = headers.get_all(header::CONTENT_TYPE);
    let one = types.next().map(|value| value.to_str().unwrap_or_default());
    if types.next().is_some() || !takes(one) {
        return Err(Refusal::new(Code::UnsupportedMediaType));
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

/// Whether a content type is JSON in UTF-8: `application/json`, with no other parameter than the charset.
pub fn is_json(content_type: Option<&str>) -> bool {
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
    fn json_in_utf_8_and_nothing_else() {
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
            check(&head, 100, &is_json).err().map(|refusal| refusal.code)
        };
        assert_eq!(code_with(header::CONTENT_TYPE, value("application/json")), None);
        assert_eq!(code_with(header::CONTENT_LENGTH, value("100")), None);
        assert_eq!(code_with(header::CONTENT_LENGTH, value("101")), Some(Code::BodyTooLarge));
        let encoded = code_with(header::CONTENT_ENCODING, value("gzip"));
        assert_eq!(encoded, Some(Code::UnsupportedContentEncoding));
        assert_eq!(code_with(header::UPGRADE, value("h2c")), encoded);
        assert_eq!(code_with(header::UPGRADE, value("WebSocket ")), Some(Code::BadRequest));
        let long = HeaderValue::from_str(&"x".repeat(HEADER_BYTES_MAX)).unwrap();
        assert_eq!(code_with(header::USER_AGENT, long), Some(Code::HeadersTooLarge));
    }

    #[test]
    fn the_target_counts_as_a_header() {
        let code = |bytes| {
            let mut head = RequestHead::default();
            head.uri = format!("/?{}", "x".repeat(bytes - 2)).parse().unwrap();
            check(&head, 100, &is_json).unwrap_err().code
        };
        assert_eq!(code(HEADER_BYTES_MAX), Code::UnsupportedMediaType);
        assert_eq!(code(HEADER_BYTES_MAX + 1), Code::HeadersTooLarge);
    }
}
