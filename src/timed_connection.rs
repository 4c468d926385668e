//! Owns `TimedConnection`: a connection with a timeout between the first byte it reads and the next
//! byte it writes. The HTTP library only limits a connection's first head and its idle time.
//! Without this timeout it would wait without limit for a later head that trickles in and for the
//! rest of a refused body.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Counts the requests of a connection that handlers are answering. While there are any, the peer
/// waits for this process and not the reverse.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenRequests(Arc<AtomicUsize>);

/// A request that is being answered; dropping it ends its count.
pub(crate) struct OpenRequest(OpenRequests);

impl OpenRequests {
    /// Counts a request after its head has arrived.
    pub(crate) fn begin(&self) -> OpenRequest {
        self.0.fetch_add(1, Ordering::Relaxed);
        OpenRequest(self.clone())
    }

    fn are_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection with a limit between the first byte read and the next byte written.
pub(crate) struct TimedConnection<S> {
    stream: S,
    limit: Duration,
    /// How long the peer may leave written bytes unread.
    untaken_max: Duration,
    /// Requests being answered; `limit` doesn't run while there are any. Always empty on a listener
    /// that doesn't count them.
    open: OpenRequests,
    /// When the first byte was read since the last write; `None` if nothing was.
    waits_since: Option<Instant>,
    /// Timer of the read limit. It may belong to a wait that is over: it is reset only when it
    /// fires, because resetting it for each request would cost more.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Timer of `untaken_max`; set while a write is blocked.
    untaken: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedConnection<S> {
    /// Wraps a new connection.
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            untaken_max: limit,
            open: OpenRequests::default(),
            waits_since: None,
            alarm: None,
            untaken: None,
        }
    }

    /// Wraps a new connection with a limit on request heads only: answers may take any time, and
    /// their bytes may stay unread for `untaken_max`.
    pub(crate) fn of_heads(stream: S, limit: Duration, untaken_max: Duration) -> Self {
        Self { untaken_max, ..Self::new(stream, limit) }
    }

    /// The counter of requests that are being answered.
    pub(crate) fn open_requests(&self) -> OpenRequests {
        self.open.clone()
    }

    fn has_read(&mut self) {
        if self.waits_since.is_none() {
            let now = Instant::now();
            self.waits_since = Some(now);
            let limit = now + self.limit;
            self.alarm.get_or_insert_with(|| Box::pin(sleep_until(limit)));
        }
    }

    /// Ready when the peer has exceeded the limit.
    fn poll_alarm(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(alarm) = &mut self.alarm {
            ready!(alarm.as_mut().poll(context));
            if self.open.are_any() {
                self.waits_since = Some(Instant::now());
            }
            let Some(since) = self.waits_since else {
                self.alarm = None;
                break;
            };
            let limit = since + self.limit;
            if limit <= Instant::now() {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(limit);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.has_read();
        }
        if self.waits_since.is_some() && self.poll_alarm(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedConnection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(context, bytes) else {
            // Without this timer a peer that sends and never reads its answers would hold the
            // connection forever.
            let limit = self.untaken_max;
            let alarm =
                self.untaken.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
            ready!(alarm.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        };
        self.waits_since = None;
        self.untaken = None;
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(40);

    fn pair() -> (TimedConnection<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(64);
        (TimedConnection::new(ours, LIMIT), theirs)
    }

    #[tokio::test]
    async fn the_limit_starts_at_the_first_byte_and_ends_with_an_answer() {
        let (mut ours, mut theirs) = pair();
        let mut bytes = [0; 8];
        assert!(tokio::time::timeout(LIMIT * 3, ours.read(&mut bytes)).await.is_err());
        for _ in 0..3 {
            theirs.write_all(b"ask").await.unwrap();
            assert_eq!(ours.read(&mut bytes).await.unwrap(), 3);
            ours.write_all(b"answer").await.unwrap();
            assert!(tokio::time::timeout(LIMIT * 2, ours.read(&mut bytes)).await.is_err());
        }
        drop(theirs);
        assert_eq!(ours.read(&mut bytes).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_peer_that_trickles_without_an_answer_is_disconnected() {
        let (mut ours, mut theirs) = pair();
        let begun = Instant::now();
        let trickle = tokio::spawn(async move {
            while theirs.write_all(b"x").await.is_ok() {
                tokio::time::sleep(LIMIT / 10).await;
            }
        });
        let mut byte = [0];
        let error = loop {
            if let Err(error) = ours.read(&mut byte).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= LIMIT);
        drop(ours);
        trickle.await.unwrap();
    }

    #[tokio::test]
    async fn a_slow_answer_is_allowed_and_a_slow_next_head_is_not() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut ours = TimedConnection::of_heads(ours, LIMIT, LIMIT);
        let open = ours.open_requests().begin();
        theirs.write_all(b"ask").await.unwrap();
        let mut bytes = [0; 8];
        assert_eq!(ours.read(&mut bytes).await.unwrap(), 3);
        assert!(tokio::time::timeout(LIMIT * 4, ours.read(&mut bytes)).await.is_err());
        drop(open);
        ours.write_all(b"answer").await.unwrap();
        theirs.write_all(b"GET").await.unwrap();
        assert_eq!(ours.read(&mut bytes).await.unwrap(), 3);
        let cut = tokio::time::timeout(LIMIT * 20, ours.read(&mut bytes)).await.unwrap();
        assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(theirs);
    }

    #[tokio::test]
    async fn a_peer_that_reads_no_answer_is_disconnected() {
        let (mut ours, theirs) = pair();
        let sent = tokio::time::timeout(LIMIT * 20, ours.write_all(&[0; 1_000])).await;
        assert_eq!(sent.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(theirs);
    }
}
