//! Owns the timeout of a request's body on the listeners of people: the HTTP library would wait
//! without limit.

use std::io;
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage};
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout_at};

/// Timeout of a body as a whole, or of each part of an upload.
const BODY: Duration = Duration::from_secs(10);

/// Limits the time of the whole body.
pub(crate) async fn in_time<B: MessageBody>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let deadline = Instant::now() + BODY;
    limit(&mut request, move || deadline);
    next.call(request).await
}

/// Limits the time to the next part of an upload. The whole upload may take longer.
pub(crate) async fn without_pauses<B: MessageBody>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    limit(&mut request, || Instant::now() + BODY);
    next.call(request).await
}

/// Ends a body with an error if its next part has not arrived by the time that `deadline` returns.
fn limit(request: &mut ServiceRequest, deadline: impl Fn() -> Instant + 'static) {
    let payload = request.take_payload();
    let parts = stream::unfold(Some((payload, deadline)), |reading| async move {
        let (mut payload, deadline) = reading?;
        match timeout_at(deadline(), payload.next()).await {
            Ok(Some(Ok(part))) => Some((Ok(part), Some((payload, deadline)))),
            Ok(Some(Err(error))) => Some((Err(error), None)),
            Ok(None) => None,
            Err(_) => Some((Err(PayloadError::Io(io::ErrorKind::TimedOut.into())), None)),
        }
    });
    // Readers of forms ask once more behind the end.
    request.set_payload(Payload::Stream { payload: Box::pin(parts.fuse()) });
}
