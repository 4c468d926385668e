//! Owns the time a request's body may take on the admin listener: the HTTP library waits for one without end.

use std::io;
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage};
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout_at};

/// A body as a whole, or each part of an upload.
const BODY: Duration = Duration::from_secs(10);

/// All of a body has to come in this time.
pub(super) async fn in_time<B: MessageBody>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let deadline = Instant::now() + BODY;
    limit(&mut request, move || deadline);
    next.call(request).await
}

/// An upload may take long, but something of it has to come all the time.
pub(super) async fn without_pauses<B: MessageBody>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    limit(&mut request, || Instant::now() + BODY);
    next.call(request).await
}

/// Ends a body with an error when its next part is not there by the time `deadline` gives for it.
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
    request.set_payload(Payload::Stream { payload: Box::pin(parts) });
}
