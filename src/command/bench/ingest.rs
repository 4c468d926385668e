//! `payfold bench ingest`: the empty handler and the real ingest in alternating rounds. Each runs
//! in a process of its own, under the same load from this process. The main figure is the server's
//! CPU time per request.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use payfold_bench::figures::{describe_machine, median, notices_used, ratio};
use payfold_bench::load::{self, Load};
use payfold_bench::notices::{NoticeKind, RequestBuffer};
use payfold_engines::clock::{Clock, SystemClock};
use serde::Serialize;

use super::cluster::BenchCluster;
use super::process::ServerProcess;
use crate::args::BenchIngestArgs;
use crate::output;

/// Distinct notices of a round. The round ends when they are used up.
const NOTICES: usize = 400_000;
/// The first part of a round, which is not measured: connections, caches and clocks warm up.
const WARM_UP: Duration = Duration::from_secs(1);

/// One server's figures: medians over the rounds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerFigures {
    server: &'static str,
    connections: usize,
    requests_per_s: f64,
    cpu_micros_per_request: f64,
    p50_ms: f64,
    p99_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows_per_commit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    broker_cpu_micros_per_request: Option<f64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct IngestReport {
    engine: &'static str,
    durability: String,
    machine: String,
    rounds: usize,
    seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    request_ratio: f64,
    cpu_ratio: f64,
    cpu_micros_per_ipn: f64,
    p50_ms: f64,
    p99_ms: f64,
    memory_peak_kib: u64,
    figures: Vec<ServerFigures>,
}

/// The measurements of one round of one server.
struct ServerRound {
    rate: f64,
    cpu_us: f64,
    p50_ms: f64,
    p99_ms: f64,
    rows_per_commit: Option<f64>,
    broker_cpu_us: Option<f64>,
}

struct IngestBench<'a> {
    args: &'a BenchIngestArgs,
    empty: ServerProcess,
    ingest: ServerProcess,
    /// `None` for SQLite.
    cluster: Option<BenchCluster>,
    secret: String,
    progress: ProgressBar,
}

/// Runs all rounds and prints the report.
pub(crate) fn run(args: &BenchIngestArgs) -> anyhow::Result<()> {
    // On the disk of the working folder: a folder in memory would make every sync free.
    let folder = tempfile::Builder::new().prefix("payfold-bench-").tempdir_in(".")?;
    let folder_path = folder.path().canonicalize()?;
    let cluster = match &args.log {
        Some(url) => Some(BenchCluster::make(url, args.partitions, &args.broker_pid)?),
        None => None,
    };
    let log = cluster.as_ref().map(|cluster| cluster.url.as_str());
    let ingest = ServerProcess::ingest(&folder_path, log)?;
    let secret = read_secret(&folder_path)?;
    let kinds = if args.refusals { 4 } else { 2 };
    let rounds = u64::try_from(args.connections.len() * args.rounds * kinds)?;
    let progress = if args.json { ProgressBar::hidden() } else { ProgressBar::new(rounds) };
    let empty = ServerProcess::empty(log)?;
    let bench = IngestBench { args, empty, ingest, cluster, secret, progress };
    let mut figures = Vec::new();
    for connections in &args.connections {
        figures.extend(bench.rounds(*connections)?);
    }
    bench.progress.finish_and_clear();
    let memory_peak_kib = bench.ingest.memory_peak_kib()?;
    report(args, figures, (bench.cluster.as_ref(), memory_peak_kib))
}

fn read_secret(folder: &Path) -> anyhow::Result<String> {
    Ok(std::fs::read_to_string(folder.join("payfold-data/sandbox.key"))?.trim().to_owned())
}

impl IngestBench<'_> {
    /// Runs alternating rounds of every server with this number of connections.
    fn rounds(&self, connections: usize) -> anyhow::Result<Vec<ServerFigures>> {
        let mut servers = vec![
            ("empty handler", &self.empty, NoticeKind::Valid),
            ("ingest", &self.ingest, NoticeKind::Valid),
        ];
        if self.args.refusals {
            servers.push(("ingest, bad signature", &self.ingest, NoticeKind::Forged));
            servers.push(("ingest, stale", &self.ingest, NoticeKind::Stale));
        }
        let mut rounds: Vec<Vec<ServerRound>> = servers.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.args.rounds {
            for ((_, server, kind), seen) in servers.iter().zip(&mut rounds) {
                seen.push(self.round(server, *kind, connections)?);
                self.progress.inc(1);
            }
        }
        let named = servers.iter().map(|(name, _, _)| *name);
        Ok(named.zip(rounds).map(|(name, rounds)| figures(name, connections, &rounds)).collect())
    }

    fn round(
        &self,
        server: &ServerProcess,
        kind: NoticeKind,
        connections: usize,
    ) -> anyhow::Result<ServerRound> {
        let status = if server.admin.is_none() { 200 } else { kind.status() };
        let notices =
            Arc::new(RequestBuffer::sign_notices(NOTICES, kind, &self.secret, SystemClock.now()));
        let address = &server.address;
        let rate = self.args.rate;
        let load = Load { address, status, connections, time: WARM_UP, rate, first: 0 };
        let first = notices_used(&load::run(load, &notices)?, connections);
        let before = (server.cpu_micros()?, commits(server)?, self.broker_micros(server)?);
        let time = Duration::from_secs(self.args.seconds);
        let seen = load::run(Load { time, first, ..load }, &notices)?;
        let after = (server.cpu_micros()?, commits(server)?, self.broker_micros(server)?);
        let (commits, rows) = (after.1.0 - before.1.0, after.1.1 - before.1.1);
        Ok(ServerRound {
            rate: seen.rate(),
            cpu_us: ratio(after.0 - before.0, seen.requests),
            p50_ms: seen.latency_ms(500),
            p99_ms: seen.latency_ms(990),
            rows_per_commit: (commits > 0.0).then(|| rows / commits),
            broker_cpu_us: (before.2.zip(after.2))
                .map(|(before, after)| ratio(after - before, seen.requests)),
        })
    }

    /// CPU time of the brokers behind a server; `None` without brokers.
    fn broker_micros(&self, server: &ServerProcess) -> anyhow::Result<Option<u64>> {
        match &self.cluster {
            Some(cluster) if server.admin.is_some() => cluster.cpu_micros(),
            _ => Ok(None),
        }
    }
}

/// Commits and rows of the server's log so far.
fn commits(server: &ServerProcess) -> anyhow::Result<(f64, f64)> {
    if server.admin.is_none() {
        return Ok((0.0, 0.0));
    }
    let commits = server.metric("payfold_engine_sync_duration_seconds_count")?;
    Ok((commits, server.metric("payfold_engine_rows_total")?))
}

fn figures(server: &'static str, connections: usize, rounds: &[ServerRound]) -> ServerFigures {
    let of = |figure: fn(&ServerRound) -> f64| median(rounds.iter().map(figure).collect());
    let rows: Vec<f64> = rounds.iter().filter_map(|round| round.rows_per_commit).collect();
    let broker: Vec<f64> = rounds.iter().filter_map(|round| round.broker_cpu_us).collect();
    ServerFigures {
        server,
        connections,
        requests_per_s: of(|round| round.rate),
        cpu_micros_per_request: of(|round| round.cpu_us),
        p50_ms: of(|round| round.p50_ms),
        p99_ms: of(|round| round.p99_ms),
        rows_per_commit: (!rows.is_empty()).then(|| median(rows)),
        broker_cpu_micros_per_request: (!broker.is_empty()).then(|| median(broker)),
    }
}

fn report(
    args: &BenchIngestArgs,
    figures: Vec<ServerFigures>,
    (cluster, memory_peak_kib): (Option<&BenchCluster>, u64),
) -> anyhow::Result<()> {
    let of_first = |server: &str| figures.iter().find(|figure| figure.server == server).cloned();
    let (Some(empty), Some(ingest)) = (of_first("empty handler"), of_first("ingest")) else {
        anyhow::bail!("name at least one number of connections");
    };
    let report = IngestReport {
        engine: if cluster.is_some() { "Kafka" } else { "SQLite" },
        durability: cluster.map_or_else(
            || "WAL, synchronous=FULL, every 200 synced first".to_owned(),
            |cluster| cluster.durability.clone(),
        ),
        machine: describe_machine(),
        rounds: args.rounds,
        seconds: args.seconds,
        rate: args.rate,
        request_ratio: ingest.requests_per_s / empty.requests_per_s,
        cpu_ratio: ingest.cpu_micros_per_request / empty.cpu_micros_per_request,
        cpu_micros_per_ipn: ingest.cpu_micros_per_request,
        p50_ms: ingest.p50_ms,
        p99_ms: ingest.p99_ms,
        memory_peak_kib,
        figures,
    };
    if args.json {
        output::line(&serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    print(&report);
    Ok(())
}

fn print(report: &IngestReport) {
    let rate = report.rate.map(|rate| format!(", {rate} requests/s")).unwrap_or_default();
    output::line(&format!(
        "payfold bench ingest: {}, {}; {}; medians of {} rounds of {} s{rate}, driver on the same \
         machine",
        report.engine, report.durability, report.machine, report.rounds, report.seconds
    ));
    let rows: Vec<Vec<String>> = report
        .figures
        .iter()
        .map(|figure| {
            vec![
                figure.server.to_owned(),
                figure.connections.to_string(),
                format!("{:.0}", figure.requests_per_s),
                format!("{:.1}", figure.cpu_micros_per_request),
                format!("{:.2}", figure.p50_ms),
                format!("{:.2}", figure.p99_ms),
                figure.rows_per_commit.map_or(String::new(), |rows| format!("{rows:.1}")),
                figure
                    .broker_cpu_micros_per_request
                    .map_or(String::new(), |micros| format!("{micros:.1}")),
            ]
        })
        .collect();
    let columns = [
        "server",
        "connections",
        "requests/s",
        "cpu us/request",
        "p50 ms",
        "p99 ms",
        "rows/commit",
        "broker cpu us",
    ];
    output::line(&output::table(&columns, &rows));
    output::line(&format!(
        "at {} connections: cpu ratio {:.2}, request ratio {:.2}; ingest memory peak {} MiB",
        report.figures[0].connections,
        report.cpu_ratio,
        report.request_ratio,
        report.memory_peak_kib / 1_024
    ));
}
