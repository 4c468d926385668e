//! Owns the stream of one payment's changes (server-sent events). The first event is the payment as
//! it is; each change follows. A comment from time to time keeps proxies from closing a quiet
//! stream. The stream ends when the process drains; browsers and clients then open it again with
//! Last-Event-ID. Changes in quick succession may be sent as one event: its data is the payment as
//! it is when the event is sent.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header;
use actix_web::{Error, HttpResponse};
use bytes::Bytes;
use futures_util::stream;
use tokio::time::Instant;

use crate::answer::NO_STORE;
use crate::checkout::Checkout;
use crate::metrics::OpenStream;
use crate::payment::Payment;
use crate::problem::Problem;
use crate::rows::{OrderRow, RowWatcher};
use crate::shop_request::{ShopRequest, no_such_payment};
use crate::version::Version;

/// The longest time without an event or a comment.
const COMMENT_INTERVAL: Duration = Duration::from_secs(15);
/// The pause before a row that could not be read is read again.
const ERROR_PAUSE: Duration = Duration::from_secs(1);

/// `GET /v1/payments/{partner}/{merchantCode}/{orderId}/events`
pub(crate) async fn events(request: &mut ShopRequest) -> Result<HttpResponse, Problem> {
    let shop = request.authenticate_shop()?;
    let key = request.order_key(&shop)?;
    let checkout = Arc::clone(&request.checkout);
    let watcher = checkout.watch_row(&key)?;
    checkout.load_row(&key).await?.ok_or_else(no_such_payment)?;
    let last = request.http.headers().get("last-event-id").and_then(|value| value.to_str().ok());
    let payment_stream = PaymentStream {
        sent: last.and_then(|text| text.parse().ok()).unwrap_or_default(),
        drained: Box::pin(checkout.drained()),
        comment_at: Instant::now() + COMMENT_INTERVAL,
        _open: checkout.parts.metrics.open_stream(),
        watcher,
        checkout,
    };
    let parts = stream::unfold(payment_stream, |mut payment_stream| async move {
        let part = payment_stream.next_part().await?;
        Some((Ok::<_, Error>(part), payment_stream))
    });
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/event-stream"))
        .insert_header(NO_STORE)
        // Without this header nginx holds events back until its buffer is full.
        .insert_header(("X-Accel-Buffering", "no"))
        .streaming(Box::pin(parts)))
}

/// One open stream.
struct PaymentStream {
    checkout: Arc<Checkout>,
    watcher: RowWatcher,
    /// The newest version the client has.
    sent: Version,
    comment_at: Instant,
    drained: Pin<Box<dyn Future<Output = ()> + Send>>,
    _open: OpenStream,
}

impl PaymentStream {
    /// The next event or comment; `None` when the drain begins.
    async fn next_part(&mut self) -> Option<Bytes> {
        let sent = self.sent;
        let changed = async {
            loop {
                match self.watcher.wait_until(|row| row.shop_version() > sent).await {
                    Ok(row) => break row,
                    Err(error) => {
                        self.checkout.fact_log.note_read_failure(&error);
                        tokio::time::sleep(ERROR_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = &mut self.drained => None,
            row = changed => {
                self.sent = row.shop_version();
                self.comment_at = Instant::now() + COMMENT_INTERVAL;
                Some(encode_event(&row, &self.checkout))
            }
            () = tokio::time::sleep_until(self.comment_at) => {
                self.comment_at = Instant::now() + COMMENT_INTERVAL;
                Some(Bytes::from_static(b": still here\n\n"))
            }
        }
    }
}

fn encode_event(row: &OrderRow, checkout: &Checkout) -> Bytes {
    let payment = Payment::from_row(row, checkout.now());
    let data = serde_json::to_string(&payment).expect("a payment is texts and numbers");
    format!("id: {}\nevent: payment\ndata: {data}\n\n", row.shop_version()).into()
}
