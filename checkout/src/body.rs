//! Owns the reading of a request's body: a JSON content type, and all bytes within a size and a
//! time, or a problem. The HTTP library has no timeout for a body that trickles in after complete
//! headers, so this module has one.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::RequestHead;
use actix_web::error::PayloadError;
use actix_web::http::header;
use actix_web::web::Payload;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use crate::problem::{Problem, kinds};

/// The most bytes of a body.
pub(crate) const BYTES_MAX: usize = 16 * 1024;

/// Reads a JSON body. Errors: the content type is not JSON, or the body is too large or too slow.
pub(crate) async fn read_json_body(
    head: &RequestHead,
    payload: &mut Payload,
    timeout: Duration,
) -> Result<Bytes, Problem> {
    check_head(head)?;
    tokio::time::timeout(timeout, read_all(payload))
        .await
        .unwrap_or_else(|_| Err(Problem::new(&kinds::REQUEST_TIMEOUT)))
}

fn check_head(head: &RequestHead) -> Result<(), Problem> {
    let headers = head.headers();
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Problem::new(&kinds::UNSUPPORTED_CONTENT_ENCODING));
    }
    let mut types = headers.get_all(header::CONTENT_TYPE);
    let content_type = types.next().and_then(|value| value.to_str().ok());
    if types.next().is_some() || !content_type.is_some_and(is_json) {
        return Err(Problem::new(&kinds::UNSUPPORTED_MEDIA_TYPE));
    }
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let declared = declared.and_then(|digits| digits.parse::<usize>().ok());
    if declared.is_some_and(|bytes| bytes > BYTES_MAX) {
        return Err(too_large());
    }
    Ok(())
}

/// Whether a content type is `application/json`, without a charset or with UTF-8.
fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    media.eq_ignore_ascii_case("application/json")
        && parts.all(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, "utf-8"));
            !name.trim().eq_ignore_ascii_case("charset")
                || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        })
}

async fn read_all(payload: &mut Payload) -> Result<Bytes, Problem> {
    let mut body = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(PayloadError::Overflow) => return Err(too_large()),
            Err(_) => return Err(Problem::new(&kinds::BAD_REQUEST)),
        };
        if body.len().saturating_add(chunk.len()) > BYTES_MAX {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

fn too_large() -> Problem {
    Problem::new(&kinds::BODY_TOO_LARGE)
        .with_detail(format!("the body may have {BYTES_MAX} bytes at most"))
}

/// A response that keeps the unread rest of its request's body alive. The HTTP library then closes
/// the connection after the response. If the rest of a chunked body were dropped, the library would
/// wait for its end for ever.
struct ResponseWithUnreadBody {
    answer: BoxBody,
    _unread: Payload,
}

impl MessageBody for ResponseWithUnreadBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.answer.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.answer).poll_next(context)
    }
}

/// Ties the payload of a request, which may not be read to its end, to its response.
pub(crate) fn keep_unread_body(unread: Payload, answer: HttpResponse) -> HttpResponse {
    answer.map_body(|_, answer| BoxBody::new(ResponseWithUnreadBody { answer, _unread: unread }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_in_utf_8_is_accepted() {
        for (content_type, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=UTF-8", true),
            ("application/json;", true),
            ("application/json; charset=latin1", false),
            ("application/jsonp", false),
            ("text/plain", false),
            ("", false),
        ] {
            assert_eq!(is_json(content_type), expected, "{content_type}");
        }
    }
}
