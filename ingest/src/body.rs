//! Owns the reading of a request's body: all of its bytes within a size limit and a timeout, or a
//! refusal. Actix has no timeout for a body that arrives slowly after complete headers, so this
//! file has one.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::error::PayloadError;
use actix_web::web::Payload;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use crate::refusal::{Refusal, RefusalCode};

/// Reads the whole body. Errors: `body_too_large`, `request_timeout`, or `bad_request` for broken
/// framing.
pub async fn read(
    payload: &mut Payload,
    bytes_max: usize,
    timeout: Duration,
) -> Result<Bytes, Refusal> {
    // Nearly every body arrives together with its headers. Polling once saves the timer for those.
    let mut reading = std::pin::pin!(read_all(payload, bytes_max));
    if let Poll::Ready(result) = futures_util::poll!(reading.as_mut()) {
        return result;
    }
    tokio::time::timeout(timeout, reading)
        .await
        .unwrap_or_else(|_| Err(Refusal::new(RefusalCode::RequestTimeout)))
}

async fn read_all(payload: &mut Payload, bytes_max: usize) -> Result<Bytes, Refusal> {
    let Some(first) = next_chunk(payload, bytes_max).await? else {
        return Ok(Bytes::new());
    };
    let Some(second) = next_chunk(payload, bytes_max).await? else {
        return Ok(first);
    };
    let mut body = BytesMut::from(first);
    let mut next = Some(second);
    while let Some(chunk) = next {
        if body.len().saturating_add(chunk.len()) > bytes_max {
            return Err(too_large(bytes_max));
        }
        body.extend_from_slice(&chunk);
        next = next_chunk(payload, bytes_max).await?;
    }
    Ok(body.freeze())
}

async fn next_chunk(payload: &mut Payload, bytes_max: usize) -> Result<Option<Bytes>, Refusal> {
    match payload.next().await {
        None => Ok(None),
        Some(Ok(chunk)) if chunk.len() > bytes_max => Err(too_large(bytes_max)),
        Some(Ok(chunk)) => Ok(Some(chunk)),
        Some(Err(PayloadError::Overflow)) => Err(too_large(bytes_max)),
        Some(Err(_)) => Err(Refusal::new(RefusalCode::BadRequest)),
    }
}

/// A response body that keeps the request's unread body alive, so that actix closes the connection
/// after the response. If the unread body were dropped, actix would wait for the end of a chunked
/// body without any timeout.
struct BodyWithUnread {
    response: BoxBody,
    _unread: Payload,
}

impl MessageBody for BodyWithUnread {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.response.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.response).poll_next(context)
    }
}

/// Attaches the request's body, which may not be read to its end, to the refusal.
pub(crate) fn attach_unread(unread: Payload, refusal: HttpResponse) -> HttpResponse {
    refusal.map_body(|_, response| BoxBody::new(BodyWithUnread { response, _unread: unread }))
}

/// The refusal of a body over the size limit.
pub(crate) fn too_large(bytes_max: usize) -> Refusal {
    Refusal::with_detail(
        RefusalCode::BodyTooLarge,
        format!("the body may have {bytes_max} bytes at most"),
    )
}
