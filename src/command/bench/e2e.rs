//! `payfold bench e2e`: whole payments through one process with every role. A shop creates each
//! payment, the sandbox partner opens and pays it, the IPN is admitted, the order is folded and its
//! event published. Driver, sandbox and system run on one machine. Then it measures the age of
//! events at half that rate, and the memory of open streams.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use payfold_bench::figures::{describe_machine, per_second, ratio};
use payfold_bench::load::{self, Load, LoadResult};
use payfold_bench::notices::RequestBuffer;
use payfold_engines::log::Topic;
use payfold_schemas::event::OrderChanged;
use payfold_schemas::order::OrderState;
use payfold_schemas::position::Position;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::process::{ServerProcess, address_of};
use crate::args::BenchE2eArgs;
use crate::command::block_on::block_on;
use crate::data_dir::DataDir;
use crate::output;
use crate::settings::Settings;
use crate::wiring::{self, Engines};

/// Create requests that are built ahead for each part, more than a part sends.
const CREATES: usize = 200_000;
const WARM_UP: Duration = Duration::from_secs(2);
/// How long the last payments may take after the last create.
const SETTLE_MAX: Duration = Duration::from_secs(60);
const BATCH: usize = 1_024;
const POLL: Duration = Duration::from_millis(5);
const ACK_TO_EVENT: &str = "payfold_projector_ack_to_event_seconds";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct E2eReport {
    engine: &'static str,
    durability: &'static str,
    machine: String,
    seconds: u64,
    connections: usize,
    payments: u64,
    payments_per_s: f64,
    create_p50_ms: f64,
    create_p99_ms: f64,
    cpu_micros_per_payment: f64,
    half_rate_per_s: f64,
    half_ack_to_event_p99_ms: f64,
    half_create_p99_ms: f64,
    streams: usize,
    stream_mib: f64,
    memory_peak_mib: u64,
}

struct E2eBench<'a> {
    args: &'a BenchE2eArgs,
    system: ServerProcess,
    shop: String,
    token: String,
    engines: Engines,
}

/// Runs the bench and prints the report.
pub(crate) fn run(args: &BenchE2eArgs) -> anyhow::Result<()> {
    // On the disk of the working folder: a folder in memory would make every sync free.
    let folder = tempfile::Builder::new().prefix("payfold-bench-").tempdir_in(".")?;
    let bench = E2eBench::start(args, &folder.path().canonicalize()?)?;
    let report = bench.measure()?;
    if args.json {
        output::line(&serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    Ok(())
}

impl<'a> E2eBench<'a> {
    fn start(args: &'a BenchE2eArgs, folder: &Path) -> anyhow::Result<Self> {
        let (system, run) = ServerProcess::demo(folder)?;
        let shop = address_of(run.shop_url.as_deref().context("the demo has a shop listener")?)?;
        let settings = Settings { data: folder.join("payfold-data"), ..Settings::default() };
        let token = std::fs::read_to_string(DataDir::of(&settings).shop_token())?;
        let engines = block_on(wiring::open_to_read(&settings))?;
        Ok(Self { args, system, shop, token: token.trim().to_owned(), engines })
    }

    fn measure(&self) -> anyhow::Result<E2eReport> {
        self.create("warm", WARM_UP, None)?;
        let time = Duration::from_secs(self.args.seconds);
        let cpu_before = self.system.cpu_micros()?;
        let full = self.create("full", time, None)?;
        let cpu = self.system.cpu_micros()? - cpu_before;
        let half_rate = full.rate / 2.0;
        let before = self.system.histogram(ACK_TO_EVENT)?;
        let half = self.create("half", time, Some(half_rate))?;
        let after = self.system.histogram(ACK_TO_EVENT)?;
        let stream_kib = self.streams(&full.order)?;
        Ok(E2eReport {
            engine: "SQLite",
            durability: "every 200 and every create is synced first",
            machine: describe_machine(),
            seconds: self.args.seconds,
            connections: self.args.connections,
            payments: full.seen.requests,
            payments_per_s: full.rate,
            create_p50_ms: full.seen.latency_ms(500),
            create_p99_ms: full.seen.latency_ms(990),
            cpu_micros_per_payment: ratio(cpu, full.seen.requests),
            half_rate_per_s: half.rate,
            half_ack_to_event_p99_ms: quantile(&before, &after, 0.99) * 1e3,
            half_create_p99_ms: half.seen.latency_ms(990),
            streams: self.args.streams,
            stream_mib: stream_kib / 1_024.0,
            memory_peak_mib: self.system.memory_peak_kib()? / 1_024,
        })
    }

    /// Creates payments for some time and waits until each is paid and its event is published.
    fn create(
        &self,
        run: &str,
        time: Duration,
        rate: Option<f64>,
    ) -> anyhow::Result<PaymentsResult> {
        let creates = Arc::new(RequestBuffer::build_creates(CREATES, &self.token, run));
        let head = block_on(self.head())?;
        let (address, connections) = (self.shop.as_str(), self.args.connections);
        let load = Load { address, status: 201, connections, time, rate, first: 0 };
        let begun = Instant::now();
        let seen = load::run(load, &creates)?;
        let order = block_on(self.paid(head, seen.requests))?;
        let rate = per_second(seen.requests, begun.elapsed());
        Ok(PaymentsResult { seen, rate, order })
    }

    async fn head(&self) -> anyhow::Result<Position> {
        let extents = self.engines.log.extent(Topic::Orders).await?;
        Ok(extents.first().context("SQLite has one partition")?.end())
    }

    /// Waits until `count` orders are paid. Returns the key of the last one.
    async fn paid(&self, mut after: Position, count: u64) -> anyhow::Result<String> {
        let (begun, mut paid, mut last) = (Instant::now(), 0, String::new());
        while paid < count {
            ensure!(begun.elapsed() < SETTLE_MAX, "{paid} of {count} payments were paid in time");
            let batch = self.engines.log.read_after(Topic::Orders, after, BATCH).await?;
            if batch.is_empty() {
                tokio::time::sleep(POLL).await;
            }
            for event in batch {
                after = event.position;
                let changed: OrderChanged = serde_json::from_slice(&event.value)?;
                let was_paid = changed.previous_state == Some(OrderState::Paid);
                if changed.state == OrderState::Paid && !was_paid {
                    paid += 1;
                    last = event.key;
                }
            }
        }
        Ok(last)
    }

    /// Memory that the open streams of one order take, KiB.
    fn streams(&self, order: &str) -> anyhow::Result<f64> {
        let before = self.system.memory_kib()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let open = runtime.block_on(async {
            let mut open = Vec::new();
            for _ in 0..self.args.streams {
                open.push(self.stream(order).await?);
            }
            anyhow::Ok(open)
        })?;
        let after = self.system.memory_kib()?;
        drop(open);
        #[expect(clippy::cast_precision_loss, reason = "a size for people")]
        let grown = after.saturating_sub(before) as f64;
        Ok(grown)
    }

    /// Opens a stream and reads its first event.
    async fn stream(&self, order: &str) -> anyhow::Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.shop).await?;
        let request = format!(
            "GET /v1/payments/{order}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer \
             {}\r\n\r\n",
            self.token
        );
        stream.write_all(request.as_bytes()).await?;
        let (mut read, mut buffer) = (Vec::new(), [0; 2_048]);
        while !read.windows(6).any(|window| window == b"data: ") {
            let count = stream.read(&mut buffer).await?;
            ensure!(count > 0, "the stream ended: {}", String::from_utf8_lossy(&read));
            read.extend_from_slice(&buffer[..count]);
        }
        Ok(stream)
    }
}

/// The measurements of payments created for some time.
struct PaymentsResult {
    seen: LoadResult,
    rate: f64,
    order: String,
}

/// The bucket bound under which this fraction of the observations between two readings lies.
fn quantile(before: &[(f64, f64)], after: &[(f64, f64)], fraction: f64) -> f64 {
    let under = |place: usize| after[place].1 - before.get(place).map_or(0.0, |(_, count)| *count);
    let all = after.len().checked_sub(1).map_or(0.0, under);
    let found = (0..after.len()).find(|place| under(*place) >= all * fraction);
    found.map_or(f64::NAN, |place| after[place].0)
}

fn print(report: &E2eReport) {
    output::line(&format!(
        "payfold bench e2e: {}, {}; {}; {} s a part, {} connections; driver, sandbox and system \
         on one machine",
        report.engine, report.durability, report.machine, report.seconds, report.connections
    ));
    output::line(&format!(
        "as fast as it goes  {:.0} payments/s (created, paid, folded, published); create p50 \
         {:.1} ms, p99 {:.1} ms; {:.0} us CPU a payment, sandbox included",
        report.payments_per_s,
        report.create_p50_ms,
        report.create_p99_ms,
        report.cpu_micros_per_payment
    ));
    output::line(&format!(
        "at half of that     {:.0} payments/s; ack to event p99 under {:.0} ms; create p99 {:.1} \
         ms",
        report.half_rate_per_s, report.half_ack_to_event_p99_ms, report.half_create_p99_ms
    ));
    output::line(&format!(
        "streams             {} open cost {:.1} MiB; memory peak of it all {} MiB",
        report.streams, report.stream_mib, report.memory_peak_mib
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_bound_over_its_fraction_of_observations() {
        let before = [(0.1, 5.0), (1.0, 5.0), (f64::INFINITY, 5.0)];
        let after = [(0.1, 95.0), (1.0, 104.0), (f64::INFINITY, 105.0)];
        assert!((quantile(&before, &after, 0.9) - 0.1).abs() < 1e-9);
        assert!((quantile(&before, &after, 0.99) - 1.0).abs() < 1e-9);
        assert!(quantile(&before, &after, 1.0).is_infinite());
        assert!(quantile(&[], &[], 0.5).is_nan());
    }
}
