//! `payfold bench rebuild --beside-ingest`: how fast notices are received while a rebuild runs.
//! Rounds with a rebuild alternate with rounds without one. One process receives and folds, as
//! `payfold run` does. Its log is filled first, so that every rebuild has enough to fold.
//! Invariant: the bench fails if a rebuild ends before its round does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use payfold_bench::figures::{describe_machine, median, notices_used, per_second};
use payfold_bench::fill::fill_log;
use payfold_bench::load::{self, Load};
use payfold_bench::notices::{NoticeKind, RequestBuffer};
use payfold_bench::world::FactGenerator;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_projector::rebuild::status::{BuildState, BuildStatus};
use payfold_schemas::record_keys::RecordKeys;
use prometheus::Registry;
use serde::Serialize;

use super::process::ServerProcess;
use crate::admin_client::AdminClient;
use crate::args::{BenchRebuildArgs, Global, OutputFormat};
use crate::command::block_on::block_on;
use crate::data_dir::DataDir;
use crate::output;
use crate::settings::Settings;
use crate::wiring::{self, Need};
use payfold_api::call::Nothing;
use payfold_api::rebuild::{BUILDS, Build, DROP, DropBuild, START, StartBuild};

/// Keep-alive connections of the load.
const CONNECTIONS: usize = 64;
/// Distinct notices of a round. The round ends when they are used up.
const NOTICES: usize = 200_000;
/// The first part of a round, which is not measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long the live fold may take to catch up with the filled and the received records.
const FOLDED_MAX: Duration = Duration::from_secs(900);
const POLL: Duration = Duration::from_millis(100);

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BesideIngestReport {
    engine: &'static str,
    durability: &'static str,
    machine: String,
    facts: u64,
    throttle: Option<u32>,
    rounds: usize,
    seconds: u64,
    alone: LoadMedians,
    beside: LoadMedians,
    rate_ratio: f64,
    rebuilt_facts_per_s: f64,
}

/// The load's figures: medians over the rounds of one kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LoadMedians {
    requests_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
}

/// The measurements of one round.
struct LoadRound {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    rebuilt_per_s: f64,
}

struct BesideIngestBench<'a> {
    args: &'a BenchRebuildArgs,
    system: ServerProcess,
    admin: AdminClient,
    secret: String,
}

/// Fills the log, measures alternating rounds and prints the report.
pub(crate) fn run(args: &BenchRebuildArgs) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("payfold-bench-").tempdir_in(".")?;
    let settings = Settings { data: folder.path().join("payfold-data"), ..Settings::default() };
    let progress = output::progress_bar(output_format(args), args.facts, "facts");
    let facts = block_on(fill(args, &settings, &progress))?;
    progress.finish_and_clear();
    let path = folder.path().canonicalize()?;
    let system = ServerProcess::ingest_and_fold(&path)?;
    let data = DataDir::of(&settings);
    let admin = AdminClient::find(&Global::default(), &data)?;
    let secret = std::fs::read_to_string(data.sandbox_key())?.trim().to_owned();
    let bench = BesideIngestBench { args, system, admin, secret };
    bench.report(facts)
}

fn output_format(args: &BenchRebuildArgs) -> OutputFormat {
    if args.json { OutputFormat::Json } else { OutputFormat::Table }
}

async fn fill(
    args: &BenchRebuildArgs,
    settings: &Settings,
    progress: &ProgressBar,
) -> anyhow::Result<u64> {
    let world = FactGenerator::new((args.facts / 5).max(1), args.window, SystemClock.now());
    let engines = wiring::open(settings, &Registry::new(), Need::Log).await?;
    let log = engines.context("the log")?.raw;
    let no_keys = RecordKeys::default();
    fill_log(&*log, &world, &no_keys, |place| progress.set_position(place)).await?;
    log.close().await?;
    Ok(world.records())
}

impl BesideIngestBench<'_> {
    fn report(&self, facts: u64) -> anyhow::Result<()> {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        let rounds = u64::try_from(self.args.rounds * 2)?;
        let progress = output::progress_bar(output_format(self.args), rounds, "rounds");
        for _ in 0..self.args.rounds {
            self.wait_until_folded()?;
            alone.push(self.round(None)?);
            progress.inc(1);
            self.wait_until_folded()?;
            let build = self.start_build()?;
            beside.push(self.round(Some(build))?);
            self.drop_build(build)?;
            progress.inc(1);
        }
        progress.finish_and_clear();
        let rebuilt = median(beside.iter().map(|round| round.rebuilt_per_s).collect());
        let (alone, beside) = (figures(&alone), figures(&beside));
        let report = BesideIngestReport {
            engine: "SQLite",
            durability: "WAL, synchronous=FULL, every 200 synced first",
            machine: describe_machine(),
            facts,
            throttle: self.args.throttle,
            rounds: self.args.rounds,
            seconds: self.args.seconds,
            rate_ratio: beside.requests_per_s / alone.requests_per_s,
            alone,
            beside,
            rebuilt_facts_per_s: rebuilt,
        };
        if self.args.json {
            output::line(&serde_json::to_string_pretty(&report)?);
        } else {
            print(&report);
        }
        Ok(())
    }

    /// Waits until the live fold has caught up, so that a round does not do the work of the round
    /// before it.
    fn wait_until_folded(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            if self.build(1)?.is_some_and(|live| live.behind() == 0) {
                return Ok(());
            }
            ensure!(begun.elapsed() < FOLDED_MAX, "the live fold does not come to its end");
            std::thread::sleep(POLL);
        }
    }

    /// Starts a build and waits until it folds.
    fn start_build(&self) -> anyhow::Result<u32> {
        let (reason, throttle) = ("bench".to_owned(), self.args.throttle);
        let request = StartBuild { reason, drill: false, throttle };
        let Build { build } = self.admin.call(&START, &[], &request)?;
        while self.folded(build)? == 0 {
            std::thread::sleep(POLL);
        }
        Ok(build)
    }

    fn drop_build(&self, build: u32) -> anyhow::Result<()> {
        let reason = "bench".to_owned();
        self.admin.call(&DROP, &[], &DropBuild { reason, build })?;
        while self.build(build)?.is_some() {
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn build(&self, build: u32) -> anyhow::Result<Option<BuildStatus>> {
        let builds = self.admin.call(&BUILDS, &[], &Nothing {})?.builds;
        Ok(builds.into_iter().find(|one| one.build == build))
    }

    fn folded(&self, build: u32) -> anyhow::Result<u64> {
        Ok(self.build(build)?.map_or(0, |one| one.folded))
    }

    fn round(&self, rebuilding: Option<u32>) -> anyhow::Result<LoadRound> {
        let notices = Arc::new(RequestBuffer::sign_notices(
            NOTICES,
            NoticeKind::Valid,
            &self.secret,
            SystemClock.now(),
        ));
        let load = Load {
            address: &self.system.address,
            status: NoticeKind::Valid.status(),
            connections: CONNECTIONS,
            time: WARM_UP,
            rate: None,
            first: 0,
        };
        let first = notices_used(&load::run(load, &notices)?, CONNECTIONS);
        let folded = |build: Option<u32>| build.map_or(Ok(0), |one| self.folded(one));
        let (begun, before) = (Instant::now(), folded(rebuilding)?);
        let time = Duration::from_secs(self.args.seconds);
        let seen = load::run(Load { time, first, ..load }, &notices)?;
        let (took, after) = (begun.elapsed(), folded(rebuilding)?);
        if let Some(build) = rebuilding {
            let state = self.build(build)?.map(|one| one.state);
            ensure!(
                state == Some(BuildState::Building),
                "the rebuild was {} before its round ended: use more --facts or a lower --throttle",
                state.map_or("gone", BuildState::as_str)
            );
        }
        Ok(LoadRound {
            rate: seen.rate(),
            p50_ms: seen.latency_ms(500),
            p99_ms: seen.latency_ms(990),
            rebuilt_per_s: per_second(after.saturating_sub(before), took),
        })
    }
}

fn figures(rounds: &[LoadRound]) -> LoadMedians {
    let of = |figure: fn(&LoadRound) -> f64| median(rounds.iter().map(figure).collect());
    LoadMedians {
        requests_per_s: of(|round| round.rate),
        p50_ms: of(|round| round.p50_ms),
        p99_ms: of(|round| round.p99_ms),
    }
}

fn print(report: &BesideIngestReport) {
    let throttle = match report.throttle {
        Some(throttle) => format!("throttled to {throttle} facts/s"),
        None => "as fast as it can".to_owned(),
    };
    output::line(&format!(
        "payfold bench rebuild beside ingest: {}, {}; {}; {} facts, rebuild {throttle}; medians of \
         {} rounds of {} s, {CONNECTIONS} connections, driver on the same machine",
        report.engine,
        report.durability,
        report.machine,
        report.facts,
        report.rounds,
        report.seconds
    ));
    let row = |name: &str, figures: &LoadMedians, rebuilt: String| {
        vec![
            name.to_owned(),
            format!("{:.0}", figures.requests_per_s),
            format!("{:.2}", figures.p50_ms),
            format!("{:.2}", figures.p99_ms),
            rebuilt,
        ]
    };
    let rows = [
        row("nothing else runs", &report.alone, String::new()),
        row("a rebuild runs", &report.beside, format!("{:.0}", report.rebuilt_facts_per_s)),
    ];
    let columns = ["while", "requests/s", "p50 ms", "p99 ms", "rebuilt facts/s"];
    output::line(&output::table(&columns, &rows));
    output::line(&format!("ingest keeps {:.0} % of its rate", report.rate_ratio * 100.0));
}
