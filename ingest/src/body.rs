//! Owns the reading of a request's body: all of its bytes, within a size and a time, or a refusal.
//! The HTTP library never times out a body that trickles after complete headers, so this does.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::error::PayloadError;
use actix_web::web::Payload;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use crate::refusal::{Code, Refusal};

/// Reads the whole body. Errors: `body_too_large`, `request_timeout`, or `bad_request` for broken framing.
pub async fn read(
    payload: &mut Payload,
    bytes_max: usize,
    timeout: Duration,
) -> Result<Bytes, Refusal> {
    // Nearly every notice has arrived whole with its headers: no timer is made for those.
    let mut reading = std::pin::pin!(read_all(payload, bytes_max));
    if let Poll::Ready(done) = futures_util::poll!(reading.as_mut()) {
        return done;
    }
    tokio::time::timeout(timeout, reading)
        .await
        .unwrap_or_else(|_| Err(Refusal::new(Code::RequestTimeout)))
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
        Some(Err(_)) => Err(Refusal::new(Code::BadRequest)),
    }
}

/// An answer that keeps what is left of its request's body alive: then the library closes the connection after
/// it. Of a chunked body that nobody holds it would wait for the end, for ever.
struct Held {
    answer: BoxBody,
    _unread: Payload,
}

impl MessageBody for Held {
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

/// The refusal of a request whose body may not have been read to its end.
pub fn hold(unread: Payload, refusal: HttpResponse) -> HttpResponse {
    refusal.map_body(|_, answer| BoxBody::new(Held { answer, _unread: unread }))
}

/// The refusal of a body over the limit.
pub fn too_large(bytes_max: usize) -> Refusal {
    Refusal::because(Code::BodyTooLarge, format!("the body may have {bytes_max} bytes at most"))
}
