//! Owns the stream of one payment's changes (server-sent events): what it shows first, each change after that, and a
//! comment so that nobody in between takes it for dead. It ends when the process drains; a browser or client then
//! comes again with Last-Event-ID. Changes that follow each other at once may be shown as one: the data is the
//! payment as it is then.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header;
use actix_web::{Error, HttpResponse};
use bytes::Bytes;
use futures_util::stream;
use tokio::time::Instant;

use crate::answer::NO_STORE;
use crate::call::{Call, no_such_payment};
use crate::checkout::Checkout;
use crate::metrics::OpenStream;
use crate::payment::Payment;
use crate::problem::Problem;
use crate::rows::{Row, Watcher};
use crate::version::Version;

/// Between two signs of life.
const COMMENT: Duration = Duration::from_secs(15);
/// Before a row that could not be read is read again.
const AFTER_ERROR: Duration = Duration::from_secs(1);

/// `GET /v1/payments/{partner}/{merchantCode}/{orderId}/events`
pub(crate) async fn events(call: &mut Call) -> Result<HttpResponse, Problem> {
    let shop = call.shop()?;
    let key = call.order_key(&shop)?;
    let checkout = Arc::clone(&call.checkout);
    let watcher = checkout.watch(&key)?;
    checkout.row(&key).await?.ok_or_else(no_such_payment)?;
    let last = call.request.headers().get("last-event-id").and_then(|value| value.to_str().ok());
    let following = Following {
        sent: last.and_then(|text| text.parse().ok()).unwrap_or_default(),
        drained: Box::pin(checkout.drained()),
        comment_at: Instant::now() + COMMENT,
        _open: checkout.parts.metrics.stream_opened(),
        watcher,
        checkout,
    };
    let parts = stream::unfold(following, |mut following| async move {
        let part = following.next().await?;
        Some((Ok::<_, Error>(part), following))
    });
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/event-stream"))
        .insert_header(NO_STORE)
        // nginx would keep events back until its buffer is full.
        .insert_header(("X-Accel-Buffering", "no"))
        .streaming(Box::pin(parts)))
}

/// One stream.
struct Following {
    checkout: Arc<Checkout>,
    watcher: Watcher,
    /// The newest version the client has.
    sent: Version,
    comment_at: Instant,
    drained: Pin<Box<dyn Future<Output = ()> + Send>>,
    _open: OpenStream,
}

impl Following {
    /// The next event or comment; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let sent = self.sent;
        let changed = async {
            loop {
                match self.watcher.until(|row| Version::of(row) > sent).await {
                    Ok(row) => break row,
                    Err(error) => {
                        self.checkout.facts.failed(&error);
                        tokio::time::sleep(AFTER_ERROR).await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = &mut self.drained => None,
            row = changed => {
                self.sent = Version::of(&row);
                self.comment_at = Instant::now() + COMMENT;
                Some(event(&row, &self.checkout))
            }
            () = tokio::time::sleep_until(self.comment_at) => {
                self.comment_at = Instant::now() + COMMENT;
                Some(Bytes::from_static(b": still here\n\n"))
            }
        }
    }
}

fn event(row: &Row, checkout: &Checkout) -> Bytes {
    let payment = Payment::of(row, checkout.now());
    let data = serde_json::to_string(&payment).expect("a payment is texts and numbers");
    format!("id: {}\nevent: payment\ndata: {data}\n\n", payment.version).into()
}
