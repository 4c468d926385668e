//! `payfold bench rebuild --beside-ingest`: how fast notices are taken while a rebuild runs, in turns with rounds in which
//! none does. One process takes and folds, as `payfold run` does; its log is filled first, so that there is enough to
//! fold anew in every round. Invariant: a round beside a rebuild that ended before it did counts for nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use payfold_engines::clock::{Clock, SystemClock};
use prometheus::Registry;
use serde::Serialize;
use serde_json::{Value, json};

use super::ingest::used;
use super::load::{self, Load};
use super::notices::{Kind, Notices};
use super::process::Process;
use super::projector::fill;
use super::world::World;
use super::{machine, median};
use crate::args::{BenchRebuildArgs, Form, Global};
use crate::command::block_on;
use crate::data_dir::DataDir;
use crate::output;
use crate::running::AdminClient;
use crate::settings::Settings;
use crate::wiring::{Engines, Need};

/// Keep-alive connections of the load.
const CONNECTIONS: usize = 64;
/// Distinct notices of a round; over this they go round.
const NOTICES: usize = 200_000;
/// The beginning of a round, which nobody counts.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long the live fold may take for what was filled and taken.
const FOLDED_MAX: Duration = Duration::from_secs(900);
const POLL: Duration = Duration::from_millis(100);

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    engine: &'static str,
    durability: &'static str,
    machine: String,
    facts: u64,
    throttle: Option<u32>,
    rounds: usize,
    seconds: u64,
    alone: Figures,
    beside: Figures,
    rate_ratio: f64,
    rebuilt_facts_per_s: f64,
}

/// Medians over the rounds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    requests_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
}

/// One round.
struct Round {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    rebuilt_per_s: f64,
}

struct Bench<'a> {
    args: &'a BenchRebuildArgs,
    system: Process,
    admin: AdminClient,
    secret: String,
}

/// Fills, measures in turns, reports.
pub fn run(args: &BenchRebuildArgs) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("payfold-bench-").tempdir_in(".")?;
    let settings = Settings { data: folder.path().join("payfold-data"), ..Settings::default() };
    let progress = output::progress_bar(form(args), args.facts, "facts");
    let facts = block_on(filled(args, &settings, &progress))?;
    progress.finish_and_clear();
    let path = folder.path().canonicalize()?;
    let system = Process::ingest_and_fold(&path)?;
    let data = DataDir::of(&settings);
    let here = Global { config: None, data: None, admin_url: None, admin_token_file: None };
    let admin = AdminClient::find(&here, &data)?;
    let secret = std::fs::read_to_string(data.sandbox_key())?.trim().to_owned();
    let bench = Bench { args, system, admin, secret };
    bench.report(facts)
}

fn form(args: &BenchRebuildArgs) -> Form {
    if args.json { Form::Json } else { Form::Table }
}

async fn filled(
    args: &BenchRebuildArgs,
    settings: &Settings,
    progress: &ProgressBar,
) -> anyhow::Result<u64> {
    let world = World::new((args.facts / 5).max(1), args.window, SystemClock.now());
    let engines = Engines::open(settings, &Registry::new(), Need::Log).await?;
    let log = engines.context("the log")?.log;
    fill(&*log, &world, progress).await?;
    log.close().await?;
    Ok(world.records())
}

impl Bench<'_> {
    fn report(&self, facts: u64) -> anyhow::Result<()> {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        let rounds = u64::try_from(self.args.rounds * 2)?;
        let progress = output::progress_bar(form(self.args), rounds, "rounds");
        for _ in 0..self.args.rounds {
            self.until_folded()?;
            alone.push(self.round(None)?);
            progress.inc(1);
            self.until_folded()?;
            let generation = self.started()?;
            beside.push(self.round(Some(generation))?);
            self.dropped(generation)?;
            progress.inc(1);
        }
        progress.finish_and_clear();
        let rebuilt = median(beside.iter().map(|round| round.rebuilt_per_s).collect());
        let (alone, beside) = (figures(&alone), figures(&beside));
        let report = Report {
            engine: "SQLite",
            durability: "WAL, synchronous=FULL, every 200 synced first",
            machine: machine(),
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

    /// Waits until the live fold has everything: a round must not pay for the one before it.
    fn until_folded(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let live = self.standing(1)?;
            if live["folded"] == live["of"] {
                return Ok(());
            }
            ensure!(begun.elapsed() < FOLDED_MAX, "the live fold does not come to its end");
            std::thread::sleep(POLL);
        }
    }

    /// A generation in the making, that goes on.
    fn started(&self) -> anyhow::Result<u64> {
        let wish = json!({ "reason": "bench", "drill": false, "throttle": self.args.throttle });
        let answer = self.admin.post("/v1/rebuild", &wish)?;
        let generation = answer["generation"].as_u64().context("a generation")?;
        while self.folded(generation)? == 0 {
            std::thread::sleep(POLL);
        }
        Ok(generation)
    }

    fn dropped(&self, generation: u64) -> anyhow::Result<()> {
        let wish = json!({ "reason": "bench", "generation": generation });
        self.admin.post("/v1/rebuild/drop", &wish)?;
        while !self.standing(generation)?.is_null() {
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn standing(&self, generation: u64) -> anyhow::Result<Value> {
        let all = self.admin.get("/v1/rebuild")?;
        let all = all["generations"].as_array().context("a list of generations")?;
        let one = all.iter().find(|one| one["generation"] == generation);
        Ok(one.cloned().unwrap_or_default())
    }

    fn folded(&self, generation: u64) -> anyhow::Result<u64> {
        Ok(self.standing(generation)?["folded"].as_u64().unwrap_or_default())
    }

    fn round(&self, rebuilding: Option<u64>) -> anyhow::Result<Round> {
        let notices =
            Arc::new(Notices::sign(NOTICES, Kind::Valid, &self.secret, SystemClock.now())?);
        let load = Load {
            address: &self.system.address,
            status: Kind::Valid.status(),
            connections: CONNECTIONS,
            time: WARM_UP,
            rate: None,
            first: 0,
        };
        let first = used(&load::run(load, &notices)?, CONNECTIONS)?;
        let folded = |generation: Option<u64>| generation.map_or(Ok(0), |one| self.folded(one));
        let (begun, before) = (Instant::now(), folded(rebuilding)?);
        let time = Duration::from_secs(self.args.seconds);
        let seen = load::run(Load { time, first, ..load }, &notices)?;
        let (took, after) = (begun.elapsed(), folded(rebuilding)?);
        if let Some(generation) = rebuilding {
            let state = &self.standing(generation)?["state"];
            ensure!(
                state == "building",
                "the rebuild was {state} before its round ended: use more --facts or a lower --throttle"
            );
        }
        Ok(Round {
            rate: seen.rate(),
            p50_ms: seen.latency_ms(500),
            p99_ms: seen.latency_ms(990),
            rebuilt_per_s: super::projector::per_second(after.saturating_sub(before), took),
        })
    }
}

fn figures(rounds: &[Round]) -> Figures {
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    Figures {
        requests_per_s: of(|round| round.rate),
        p50_ms: of(|round| round.p50_ms),
        p99_ms: of(|round| round.p99_ms),
    }
}

fn print(report: &Report) {
    let throttle = match report.throttle {
        Some(throttle) => format!("throttled to {throttle} facts/s"),
        None => "as fast as it can".to_owned(),
    };
    output::line(&format!(
        "payfold bench rebuild beside ingest: {}, {}; {}; {} facts, rebuild {throttle}; medians of {} rounds of {} s, \
         {CONNECTIONS} connections, driver on the same machine",
        report.engine,
        report.durability,
        report.machine,
        report.facts,
        report.rounds,
        report.seconds
    ));
    let row = |name: &str, figures: &Figures, rebuilt: String| {
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
