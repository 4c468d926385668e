//! Owns `Patient`: a connection that ends when its peer has begun to send and gets no answer in time. The HTTP library
//! watches a connection's first head and its idleness; a later head that trickles, and the rest of a refused body,
//! it would wait for without end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// How many requests of a connection are with the code that answers them. While there are any, the peer waits for us.
#[derive(Clone, Debug, Default)]
pub struct OpenRequests(Arc<AtomicUsize>);

/// One of them, until dropped.
pub struct OpenRequest(OpenRequests);

impl OpenRequests {
    /// A request's head is here.
    pub fn begin(&self) -> OpenRequest {
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

/// A connection with a limit between the first byte it takes and the next it gives.
pub struct Patient<S> {
    stream: S,
    limit: Duration,
    /// How long the peer may take nothing of what is written.
    untaken_max: Duration,
    /// Counted by who answers; the limit does not run while there are any. Never any where nobody counts.
    open: OpenRequests,
    /// When the first byte came that nothing was written after.
    waits_since: Option<Instant>,
    /// Rings at the limit of some wait, which may be over by then: it is put forward only when it rings.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Rings when the peer has taken nothing of what is written for the limit.
    untaken: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    /// A connection nothing was read from yet.
    pub fn new(stream: S, limit: Duration) -> Self {
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

    /// The same with a limit on a request's head alone: answers may take as long as they take, and what is written of
    /// them may lie untaken this long.
    pub fn of_heads(stream: S, limit: Duration, untaken_max: Duration) -> Self {
        Self { untaken_max, ..Self::new(stream, limit) }
    }

    /// Where requests are counted that are being answered.
    pub fn open_requests(&self) -> OpenRequests {
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

    /// Ready when the peer's time is over.
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

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(context, bytes) else {
            // A peer that sends and never takes its answers would otherwise be held for ever.
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

    fn pair() -> (Patient<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(64);
        (Patient::new(ours, LIMIT), theirs)
    }

    #[tokio::test]
    async fn silence_is_no_wait_and_an_answer_ends_one() {
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
    async fn who_goes_on_without_an_answer_is_cut_off() {
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
    async fn an_answer_that_takes_long_is_waited_for_and_the_next_head_is_not() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut ours = Patient::of_heads(ours, LIMIT, LIMIT);
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
    async fn a_peer_that_takes_no_answer_is_given_up() {
        let (mut ours, theirs) = pair();
        let sent = tokio::time::timeout(LIMIT * 20, ours.write_all(&[0; 1_000])).await;
        assert_eq!(sent.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(theirs);
    }
}
