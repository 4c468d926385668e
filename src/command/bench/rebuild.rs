//! `payfold bench rebuild`: a log folded into an unpublished build: read, decode, fold, commit. It
//! folds either SQLite into SQLite and then compares two builds, as a switch does, or Kafka into
//! memory, without a store. The log is filled first; only fold and comparison are timed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use payfold_bench::figures::{describe_machine, per_second, ratio};
use payfold_bench::in_memory::InMemoryOrderStore;
use payfold_bench::usage::cpu_micros;
use payfold_bench::usage::memory_peak_kib;
use payfold_bench::world::FactGenerator;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::EventLog;
use payfold_engines::orders::OrderStore;
use payfold_projector::rebuild::difference::Comparison;
use payfold_projector::{Projector, ProjectorMetrics, ProjectorSettings};
use payfold_schemas::order::OrderState;
use payfold_schemas::position::Position;
use prometheus::Registry;
use serde::Serialize;
use tokio::sync::watch;

use super::beside;
use super::cluster::BenchCluster;
use super::engines;
use crate::args::{BenchRebuildArgs, Global};
use crate::settings::{self, Settings};
use crate::wiring::Need;
use crate::{output, roles};

/// The measured build and the build it is compared with, both of the bench's log.
const BUILDS: [u32; 2] = [2, 3];

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RebuildReport {
    engine: &'static str,
    durability: String,
    machine: String,
    facts: u64,
    orders: u64,
    window: u64,
    facts_per_s: f64,
    cpu_micros_per_fact: f64,
    memory_peak_kib: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compared_orders_per_s: Option<f64>,
}

/// Time, CPU time and memory of one fold of the log.
struct RebuildMeasure {
    elapsed: Duration,
    cpu_micros: u64,
    memory_peak_kib: u64,
}

/// Fills the log, folds it, compares the builds and prints the report.
pub(crate) fn run(global: &Global, args: &BenchRebuildArgs) -> anyhow::Result<()> {
    if args.beside_ingest {
        return beside::run(args);
    }
    let folder = tempfile::Builder::new().prefix("payfold-bench-").tempdir_in(".")?;
    let mut settings = Settings {
        data: folder.path().to_owned(),
        log: String::new(),
        orders: String::new(),
        ..settings::load(global)?.settings
    };
    let runtime = roles::runtime("projector")?;
    let report = match &args.log {
        None => runtime.block_on(into_sqlite(args, &settings))?,
        Some(url) => {
            let cluster = BenchCluster::make(url, settings.kafka.partitions, &[])?;
            (settings.log, settings.dev) = (cluster.url, true);
            let report = runtime.block_on(into_memory(args, &settings))?;
            RebuildReport { durability: cluster.durability, ..report }
        }
    };
    if args.json {
        output::line(&serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    output::line(&format!(
        "payfold bench rebuild: {}, {}; {}; {} facts over {} orders, {} open at once, a fifth \
         duplicates",
        report.engine,
        report.durability,
        report.machine,
        report.facts,
        report.orders,
        report.window
    ));
    let bytes = report.bytes.map(|bytes| format!(", {bytes} bytes on disk")).unwrap_or_default();
    output::line(&format!(
        "{:.0} facts/s (read, fold, commit; nothing published), cpu {:.1} us/fact, memory peak {} \
         MiB{bytes}",
        report.facts_per_s,
        report.cpu_micros_per_fact,
        report.memory_peak_kib / 1_024,
    ));
    if let Some(compared) = report.compared_orders_per_s {
        output::line(&format!("a switch compares {compared:.0} orders/s while order events wait"));
    }
    Ok(())
}

/// The facts to fold, and their number of orders.
fn world(args: &BenchRebuildArgs) -> (FactGenerator, u64) {
    let orders = args.orders.min(args.facts / 5).max(1);
    (FactGenerator::new(orders, args.window, SystemClock.now()), orders)
}

async fn into_sqlite(
    args: &BenchRebuildArgs,
    settings: &Settings,
) -> anyhow::Result<RebuildReport> {
    let (world, orders) = world(args);
    let facts = world.records();
    let engines = engines::open(settings, &Registry::new(), Need::Both).await?;
    engines::fill(&engines, &world, |_| ()).await?;
    let built = engines.base()?.build(BUILDS[0]).await?;
    let took = fold(&engines.log, &built, (BUILDS[0], facts)).await?;
    let other = engines.base()?.build(BUILDS[1]).await?;
    fold(&engines.log, &other, (BUILDS[1], facts)).await?;
    let begun = Instant::now();
    let tally = Comparison::new(&*built, &*other).tally_orders().await?;
    let compared = begun.elapsed();
    anyhow::ensure!(
        tally.orders == orders && tally.differing == 0 && tally.missing == 0,
        "two folds of one log differ: {tally:?}"
    );
    let bytes = built.footprint().await?.bytes;
    engines.log.close().await?;
    Ok(RebuildReport {
        engine: "SQLite into SQLite",
        durability: "synchronous=NORMAL, progress in the transaction of the rows".to_owned(),
        bytes,
        compared_orders_per_s: Some(per_second(orders, compared)),
        ..report(args, (orders, facts), &took)
    })
}

async fn into_memory(
    args: &BenchRebuildArgs,
    settings: &Settings,
) -> anyhow::Result<RebuildReport> {
    let (world, orders) = world(args);
    let facts = world.records();
    let engines = engines::open(settings, &Registry::new(), Need::Log).await?;
    engines::fill(&engines, &world, |_| ()).await?;
    let memory = Arc::new(InMemoryOrderStore::storing());
    let store: Arc<dyn OrderStore> = Arc::<InMemoryOrderStore>::clone(&memory);
    let took = fold(&engines.log, &store, (BUILDS[0], facts)).await?;
    let paid = memory.count(|order| order.summary.state == OrderState::Paid);
    anyhow::ensure!(paid == orders, "{paid} of {orders} orders were folded to their end");
    engines.log.close().await?;
    Ok(RebuildReport { engine: "Kafka into memory", ..report(args, (orders, facts), &took) })
}

fn report(
    args: &BenchRebuildArgs,
    (orders, facts): (u64, u64),
    took: &RebuildMeasure,
) -> RebuildReport {
    RebuildReport {
        engine: "",
        durability: String::new(),
        machine: describe_machine(),
        facts,
        orders,
        window: args.window,
        facts_per_s: per_second(facts, took.elapsed),
        cpu_micros_per_fact: ratio(took.cpu_micros, facts),
        memory_peak_kib: took.memory_peak_kib,
        bytes: None,
        compared_orders_per_s: None,
    }
}

/// Folds the whole log into an empty build.
async fn fold(
    log: &Arc<dyn EventLog>,
    store: &Arc<dyn OrderStore>,
    (build, facts): (u32, u64),
) -> anyhow::Result<RebuildMeasure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Arc::new(ProjectorMetrics::new(&Registry::new(), clock)?);
    let group = format!("bench-{build}");
    let settings = ProjectorSettings { build, group, ..ProjectorSettings::default() }.for_rebuild();
    let projector = Projector::new(Arc::clone(log), Arc::clone(store), metrics, settings);
    let mut committed = projector.status().folded();
    let (stop, stopped) = watch::channel(false);
    let (begun, cpu_before) = (Instant::now(), cpu_micros()?);
    let running = tokio::spawn(projector.run(stopped));
    // Offsets count from 1 in every partition, so their sum is the number of facts.
    let is_all = |folded: &Vec<Position>| folded.iter().map(|at| at.offset).sum::<u64>() >= facts;
    let all = committed.wait_for(is_all).await;
    let took = RebuildMeasure {
        elapsed: begun.elapsed(),
        cpu_micros: cpu_micros()? - cpu_before,
        memory_peak_kib: memory_peak_kib("/proc/self/status")?,
    };
    all.map(|_| ()).context("the projector ended early")?;
    stop.send(true).context("the projector listens")?;
    running.await??;
    Ok(took)
}
