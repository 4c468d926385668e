//! Owns what a request's head must look like before its body is read: size and number of headers,
//! content type, no content encoding, declared length. Pure over the head.

use actix_web::http::header::{self, HeaderMap};

use crate::body;
use crate::refusal::{Code, Refusal};

/// Bytes of header names and values a request may have.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Headers a request may have.
pub const HEADERS_MAX: usize = 64;

/// Judges a head. Errors: `headers_too_large`, `unsupported_content_encoding`,
/// `unsupported_media_type`, `body_too_large`.
pub fn check(headers: &HeaderMap, body_bytes_max: usize) -> Result<(), Refusal> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > HEADER_BYTES_MAX || headers.len() > HEADERS_MAX {
        return Err(Refusal::because(
            Code::HeadersTooLarge,
            format!("at most {HEADERS_MAX} headers of {HEADER_BYTES_MAX} bytes in all"),
        ));
    }
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Refusal::new(Code::UnsupportedContentEncoding));
    }
    let mut types = headers.get_all(header::CONTENT_TYPE);
    let one = types.next().and_then(|value| value.to_str().ok());
    if types.next().is_some() || !one.is_some_and(is_json) {
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

/// Whether a content type is JSON in UTF-8: `application/json`, with no other parameter than the charset.
fn is_json(content_type: &str) -> bool {
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
            assert_eq!(is_json(content_type), expected, "{content_type}");
        }
    }

    #[test]
    fn heads_over_a_limit_are_refused() {
        let json = (header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        let mut headers: HeaderMap = [json.clone()].into_iter().collect();
        assert_eq!(check(&headers, 100), Ok(()));
        headers.insert(header::CONTENT_LENGTH, header::HeaderValue::from_static("101"));
        assert_eq!(check(&headers, 100).unwrap_err().code, Code::BodyTooLarge);
        headers.insert(header::CONTENT_ENCODING, header::HeaderValue::from_static("gzip"));
        assert_eq!(check(&headers, 100).unwrap_err().code, Code::UnsupportedContentEncoding);
        let long = header::HeaderValue::from_str(&"x".repeat(HEADER_BYTES_MAX)).unwrap();
        headers.insert(header::USER_AGENT, long);
        assert_eq!(check(&headers, 100).unwrap_err().code, Code::HeadersTooLarge);
    }
}
