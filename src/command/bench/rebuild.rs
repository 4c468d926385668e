//! `payfold bench rebuild`: a log folded into a generation nobody is told of, SQLite into SQLite: read, decode, fold, commit.
//! The log is filled first; the folding alone is timed, and then the walk along two generations that a switch compares.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::ProgressBar;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::EventLog;
use payfold_engines::orders::OrderStore;
use payfold_projector::rebuild::difference::Comparison;
use payfold_projector::{Metrics, Projector, Settings as ProjectorSettings};
use prometheus::Registry;
use serde::Serialize;
use tokio::sync::watch;

use super::machine;
use super::process::memory_peak_kib;
use super::projector::{cpu_micros, fill, per_second, ratio};
use super::world::World;
use crate::args::{BenchRebuildArgs, Global};
use crate::settings::{self, Settings};
use crate::wiring::{Engines, Need};
use crate::{output, roles};

/// The generation that is built, and the one it is compared with: both of the bench's own log.
const GENERATIONS: [u32; 2] = [2, 3];

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    engine: &'static str,
    durability: &'static str,
    machine: String,
    facts: u64,
    orders: u64,
    window: u64,
    facts_per_s: f64,
    cpu_micros_per_fact: f64,
    memory_peak_kib: u64,
    bytes: Option<u64>,
    compared_orders_per_s: f64,
}

/// Fills, folds, compares, reports.
pub fn run(global: &Global, args: &BenchRebuildArgs) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("payfold-bench-").tempdir_in(".")?;
    let settings = Settings {
        data: folder.path().to_owned(),
        log: String::new(),
        orders: String::new(),
        ..settings::load(global)?.settings
    };
    let runtime = roles::runtime("projector")?;
    let report = runtime.block_on(measure(args, &settings))?;
    if args.json {
        output::line(&serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    output::line(&format!(
        "payfold bench rebuild: {}, {}; {}; {} facts over {} orders, {} open at once, a fifth duplicates",
        report.engine,
        report.durability,
        report.machine,
        report.facts,
        report.orders,
        report.window
    ));
    output::line(&format!(
        "{:.0} facts/s (read, fold, commit; nothing told), cpu {:.1} us/fact, memory peak {} MiB, {} bytes on disk",
        report.facts_per_s,
        report.cpu_micros_per_fact,
        report.memory_peak_kib / 1_024,
        report.bytes.unwrap_or_default()
    ));
    output::line(&format!(
        "a switch compares {:.0} orders/s while order events wait",
        report.compared_orders_per_s
    ));
    Ok(())
}

async fn measure(args: &BenchRebuildArgs, settings: &Settings) -> anyhow::Result<Report> {
    let orders = args.orders.min(args.facts / 5).max(1);
    let world = World::new(orders, args.window, SystemClock.now());
    let facts = world.records();
    let engines =
        Engines::open(settings, &Registry::new(), Need::Both).await?.context("both engines")?;
    fill(&*engines.log, &world, &ProgressBar::hidden()).await?;
    let cpu_before = cpu_micros()?;
    let (built, took) = fold(&engines, GENERATIONS[0], facts).await?;
    let cpu = cpu_micros()? - cpu_before;
    let memory_peak_kib = memory_peak_kib("/proc/self/status")?;
    let (other, _) = fold(&engines, GENERATIONS[1], facts).await?;
    let begun = Instant::now();
    let tally = Comparison::new(&*built, &*other).tally().await?;
    let compared = begun.elapsed();
    anyhow::ensure!(
        tally.orders == orders && tally.differing == 0 && tally.missing == 0,
        "two folds of one log differ: {tally:?}"
    );
    let bytes = built.footprint().await?.bytes;
    engines.log.close().await?;
    Ok(Report {
        engine: "SQLite",
        durability: "synchronous=NORMAL, progress in the transaction of the rows",
        machine: machine(),
        facts,
        orders,
        window: args.window,
        facts_per_s: per_second(facts, took),
        cpu_micros_per_fact: ratio(cpu, facts),
        memory_peak_kib,
        bytes,
        compared_orders_per_s: per_second(orders, compared),
    })
}

/// Folds the whole log into a new generation.
async fn fold(
    engines: &Engines,
    tables: u32,
    facts: u64,
) -> anyhow::Result<(Arc<dyn OrderStore>, Duration)> {
    let log: Arc<dyn EventLog> = Arc::clone(&engines.log);
    let store = engines.base()?.generation(tables).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Arc::new(Metrics::new(&Registry::new(), clock)?);
    let settings = ProjectorSettings { tables, ..ProjectorSettings::default() }.for_a_build();
    let projector = Projector::new(log, Arc::clone(&store), metrics, settings);
    let mut committed = projector.status().folded();
    let (stop, stopped) = watch::channel(false);
    let begun = Instant::now();
    let running = tokio::spawn(projector.run(stopped));
    let all = committed.wait_for(|folded| folded.iter().any(|one| one.offset >= facts)).await;
    let took = begun.elapsed();
    all.map(|_| ()).context("the projector ended early")?;
    stop.send(true).context("the projector listens")?;
    running.await??;
    Ok((store, took))
}
