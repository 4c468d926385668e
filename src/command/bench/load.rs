//! Owns the load: keep-alive connections in a closed loop, each posting its next notice when the last was
//! answered. One thread; the answer's status is checked every time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::notices::Notices;

/// What a load saw.
pub struct Seen {
    /// Answers.
    pub requests: u64,
    /// How long it ran.
    pub elapsed: Duration,
    /// Latencies, microseconds, sorted.
    latencies_us: Vec<u32>,
}

impl Seen {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let requests = self.requests as f64;
        requests / self.elapsed.as_secs_f64()
    }

    /// The latency so many thousandths of the requests stayed under, milliseconds.
    pub fn latency_ms(&self, thousandths: usize) -> f64 {
        let place = (self.latencies_us.len() * thousandths / 1_000)
            .min(self.latencies_us.len().saturating_sub(1));
        self.latencies_us.get(place).map_or(f64::NAN, |us| f64::from(*us) / 1_000.0)
    }
}

/// What is posted where, and how fast.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// `host:port`.
    pub address: &'a str,
    /// What every answer must be.
    pub status: u16,
    /// Keep-alive connections.
    pub connections: usize,
    /// How long.
    pub time: Duration,
    /// Requests a second over all connections; none is as fast as answers come.
    pub rate: Option<f64>,
    /// The number of the first notice: what was sent before would be a replay, which is stored nowhere.
    pub first: usize,
}

/// Posts for some time, or until every notice is sent. Errors: an answer with another status, a connection that breaks.
pub fn run(load: Load<'_>, notices: &Arc<Notices>) -> anyhow::Result<Seen> {
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
        let mut posting = Vec::new();
        for _ in 0..load.connections {
            let stream =
                TcpStream::connect(load.address).await.context("the server takes connections")?;
            stream.set_nodelay(true)?;
            let post = post(stream, Arc::clone(notices), pace.clone(), load.status);
            posting.push(tokio::spawn(post));
        }
        let mut latencies_us = Vec::new();
        for connection in posting {
            latencies_us.append(&mut connection.await??);
        }
        let elapsed = begun.elapsed();
        latencies_us.sort_unstable();
        Ok(Seen { requests: u64::try_from(latencies_us.len())?, elapsed, latencies_us })
    })
}

/// When which request goes out; shared by all connections.
#[derive(Clone)]
struct Pace {
    begun: Instant,
    until: Instant,
    gap: Option<Duration>,
    first: usize,
    next: Arc<AtomicUsize>,
}

impl Pace {
    /// The number of the next request, once its time has come; none when the time is over.
    async fn next(&self) -> Option<usize> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(gap) = self.gap {
            let due = self.begun + gap * u32::try_from(n - self.first).unwrap_or(u32::MAX);
            tokio::time::sleep_until(due.into()).await;
        }
        (Instant::now() < self.until).then_some(n)
    }
}

async fn post(
    mut stream: TcpStream,
    notices: Arc<Notices>,
    pace: Pace,
    status: u16,
) -> anyhow::Result<Vec<u32>> {
    let mut latencies_us = Vec::with_capacity(16 * 1024);
    let mut buffer = vec![0; 8 * 1024];
    let expected = format!("HTTP/1.1 {status} ");
    while let Some(n) = pace.next().await {
        let Some(request) = notices.request(n) else { break };
        let begun = Instant::now();
        stream.write_all(request).await?;
        let answer = read_answer(&mut stream, &mut buffer).await?;
        if !answer.starts_with(expected.as_bytes()) {
            bail!("expected {status}, got {}", String::from_utf8_lossy(answer));
        }
        latencies_us.push(u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    Ok(latencies_us)
}

/// Reads one whole answer: its head, and a body of the declared length.
async fn read_answer<'b>(stream: &mut TcpStream, buffer: &'b mut [u8]) -> anyhow::Result<&'b [u8]> {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        ensure!(read > 0, "the server closed the connection");
        filled += read;
        if let Some(length) = answer_length(&buffer[..filled])?
            && filled >= length
        {
            return Ok(&buffer[..filled]);
        }
    }
}

/// How long the answer is in all, once its head is there.
fn answer_length(bytes: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..head])?;
    let declared = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    });
    Ok(Some(head + 4 + declared.transpose()?.unwrap_or(0)))
}
