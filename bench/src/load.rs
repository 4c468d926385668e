//! Owns the load generator: keep-alive connections in a closed loop. Each connection sends its next
//! request once the last one is answered. It runs on one thread and checks the status of every
//! response. A latency counts from the sending of the request: the time that a due request waits
//! for a free connection is not part of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::notices::RequestBuffer;

/// The longest response, bytes.
const RESPONSE_MAX: usize = 8 * 1024;

/// Why a load failed. Reported once the connections before the failed one have ended.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The server accepts no connection.
    #[error("the server accepts no connection: {0}")]
    NotConnected(std::io::Error),
    /// A connection broke, or the runtime could not be made.
    #[error(transparent)]
    Broken(#[from] std::io::Error),
    /// The server closed a connection.
    #[error("the server closed the connection")]
    Closed,
    /// A response is longer than the buffer.
    #[error("a response is longer than {RESPONSE_MAX} bytes")]
    TooLong,
    /// A response has an unexpected status.
    #[error("expected {expected}, got {answer}")]
    Status {
        /// The expected status.
        expected: u16,
        /// The response.
        answer: String,
    },
    /// The Content-Length of a response is not a number.
    #[error("a response is not HTTP: {0}")]
    NotHttp(String),
}

/// The result of a load.
pub struct LoadResult {
    /// The number of responses.
    pub requests: u64,
    /// From the first connect to the last answer.
    pub elapsed: Duration,
    /// The latencies in µs, sorted.
    latencies_us: Vec<u32>,
}

impl LoadResult {
    /// Requests per second.
    pub fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let requests = self.requests as f64;
        requests / self.elapsed.as_secs_f64()
    }

    /// A percentile of the latency in ms; `thousandths` is 990 for the 99th.
    pub fn latency_ms(&self, thousandths: usize) -> f64 {
        let index = (self.latencies_us.len() * thousandths / 1_000)
            .min(self.latencies_us.len().saturating_sub(1));
        self.latencies_us.get(index).map_or(f64::NAN, |us| f64::from(*us) / 1_000.0)
    }
}

/// The parameters of a load.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// The server, `host:port`.
    pub address: &'a str,
    /// The required status of every response.
    pub status: u16,
    /// The number of keep-alive connections.
    pub connections: usize,
    /// How long requests are sent.
    pub time: Duration,
    /// Requests per second over all connections. `None` sends as fast as responses arrive.
    pub rate: Option<f64>,
    /// The number of the first request. Requests below it may have been sent before; notices among
    /// them would be replays, which are not stored.
    pub first: usize,
}

/// Sends requests for `load.time`, or until all are sent. Errors: the first failed connection's.
pub fn run(load: Load<'_>, requests: &Arc<RequestBuffer>) -> Result<LoadResult, LoadError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let next = Arc::new(AtomicUsize::new(load.first));
    runtime.block_on(async {
        let begun = Instant::now();
        let pace = Pace {
            begun,
            until: begun + load.time,
            gap: load.rate.map(|rate| Duration::from_secs_f64(1.0 / rate)),
            first: load.first,
            next,
        };
        let mut connections = Vec::new();
        for _ in 0..load.connections {
            let stream = TcpStream::connect(load.address).await.map_err(LoadError::NotConnected)?;
            stream.set_nodelay(true)?;
            let sending = send_requests(stream, Arc::clone(requests), pace.clone(), load.status);
            connections.push(tokio::spawn(sending));
        }
        let mut latencies_us = Vec::new();
        for connection in connections {
            latencies_us.append(&mut connection.await.expect("sending does not panic")?);
        }
        let elapsed = begun.elapsed();
        latencies_us.sort_unstable();
        let count = u64::try_from(latencies_us.len()).unwrap_or(u64::MAX);
        Ok(LoadResult { requests: count, elapsed, latencies_us })
    })
}

/// Schedules the requests; shared by all connections.
#[derive(Clone)]
struct Pace {
    begun: Instant,
    until: Instant,
    gap: Option<Duration>,
    first: usize,
    next: Arc<AtomicUsize>,
}

impl Pace {
    /// Waits until the next request is due, and returns its number. `None` if that is after the end
    /// of the load's time. Each connection takes one number that it does not send.
    async fn await_next(&self) -> Option<usize> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(gap) = self.gap {
            let due = self.begun + gap * u32::try_from(n - self.first).unwrap_or(u32::MAX);
            tokio::time::sleep_until(due.min(self.until).into()).await;
        }
        (Instant::now() < self.until).then_some(n)
    }
}

async fn send_requests(
    mut stream: TcpStream,
    requests: Arc<RequestBuffer>,
    pace: Pace,
    status: u16,
) -> Result<Vec<u32>, LoadError> {
    let mut latencies_us = Vec::with_capacity(16 * 1024);
    let mut buffer = vec![0; RESPONSE_MAX];
    let expected = format!("HTTP/1.1 {status} ");
    while let Some(n) = pace.await_next().await {
        let Some(request) = requests.get(n) else { break };
        let begun = Instant::now();
        stream.write_all(request).await?;
        let answer = read_response(&mut stream, &mut buffer).await?;
        if !answer.starts_with(expected.as_bytes()) {
            let answer = String::from_utf8_lossy(answer).into_owned();
            return Err(LoadError::Status { expected: status, answer });
        }
        latencies_us.push(u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    Ok(latencies_us)
}

/// Reads one complete response: its head, and a body of the declared length.
async fn read_response<'b>(
    stream: &mut TcpStream,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], LoadError> {
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            return Err(LoadError::TooLong);
        }
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Err(LoadError::Closed);
        }
        filled += read;
        if let Some(length) = response_length(&buffer[..filled])?
            && filled >= length
        {
            return Ok(&buffer[..filled]);
        }
    }
}

/// The total length of the response; `None` until its head is complete.
fn response_length(bytes: &[u8]) -> Result<Option<usize>, LoadError> {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes[..head]);
    let declared = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    });
    let declared = declared.transpose().map_err(|_| LoadError::NotHttp(text.to_string()))?;
    Ok(Some(head + 4 + declared.unwrap_or(0)))
}
