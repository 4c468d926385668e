//! `payfold bench rebuild`: a log folded into a generation nobody is told of: read, decode, fold, commit. SQLite into
//! SQLite, and then the walk along two generations that a switch compares; or Kafka into memory, the fold without a
//! store. The log is filled first; the folding alone is timed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::ProgressBar;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::EventLog;
use payfold_engines::orders::OrderStore;
use payfold_projector::rebuild::difference::Comparison;
use payfold_projector::{Metrics, Projector, Settings as ProjectorSettings};
use payfold_schemas::order::OrderState;
use payfold_schemas::record::Position;
use prometheus::Registry;
use serde::Serialize;
use tokio::sync::watch;

use super::cluster::Cluster;
use super::in_memory::InMemory;
use super::process::memory_peak_kib;
use super::projector::{cpu_micros, fill, per_second, ratio};
use super::world::World;
use super::{beside, machine};
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

/// How long one folding of the log took.
struct Took {
    elapsed: Duration,
    cpu_micros: u64,
    memory_peak_kib: u64,
}

/// Fills, folds, compares, reports.
pub fn run(global: &Global, args: &BenchRebuildArgs) -> anyhow::Result<()> {
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
            let cluster = Cluster::make(url, settings.kafka.partitions, &[])?;
            (settings.log, settings.dev) = (cluster.url, true);
            let report = runtime.block_on(into_memory(args, &settings))?;
            Report { durability: cluster.durability, ..report }
        }
    };
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
    let bytes = report.bytes.map(|bytes| format!(", {bytes} bytes on disk")).unwrap_or_default();
    output::line(&format!(
        "{:.0} facts/s (read, fold, commit; nothing told), cpu {:.1} us/fact, memory peak {} MiB{bytes}",
        report.facts_per_s,
        report.cpu_micros_per_fact,
        report.memory_peak_kib / 1_024,
    ));
    if let Some(compared) = report.compared_orders_per_s {
        output::line(&format!("a switch compares {compared:.0} orders/s while order events wait"));
    }
    Ok(())
}

/// The world that is folded.
fn world(args: &BenchRebuildArgs) -> (World, u64) {
    let orders = args.orders.min(args.facts / 5).max(1);
    (World::new(orders, args.window, SystemClock.now()), orders)
}

async fn into_sqlite(args: &BenchRebuildArgs, settings: &Settings) -> anyhow::Result<Report> {
    let (world, orders) = world(args);
    let facts = world.records();
    let engines =
        Engines::open(settings, &Registry::new(), Need::Both).await?.context("both engines")?;
    fill(&*engines.log, &world, &ProgressBar::hidden()).await?;
    let built = engines.base()?.generation(GENERATIONS[0]).await?;
    let took = fold(&engines.log, &built, (GENERATIONS[0], facts)).await?;
    let other = engines.base()?.generation(GENERATIONS[1]).await?;
    fold(&engines.log, &other, (GENERATIONS[1], facts)).await?;
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
        engine: "SQLite into SQLite",
        durability: "synchronous=NORMAL, progress in the transaction of the rows".to_owned(),
        bytes,
        compared_orders_per_s: Some(per_second(orders, compared)),
        ..report(args, (orders, facts), &took)
    })
}

async fn into_memory(args: &BenchRebuildArgs, settings: &Settings) -> anyhow::Result<Report> {
    let (world, orders) = world(args);
    let facts = world.records();
    let engines = Engines::open(settings, &Registry::new(), Need::Log).await?.context("the log")?;
    fill(&*engines.log, &world, &ProgressBar::hidden()).await?;
    let memory = Arc::new(InMemory::keeping());
    let store: Arc<dyn OrderStore> = Arc::<InMemory>::clone(&memory);
    let took = fold(&engines.log, &store, (GENERATIONS[0], facts)).await?;
    let paid = memory.count(|order| order.summary.state == OrderState::Paid);
    anyhow::ensure!(paid == orders, "{paid} of {orders} orders were folded to their end");
    engines.log.close().await?;
    Ok(Report { engine: "Kafka into memory", ..report(args, (orders, facts), &took) })
}

fn report(args: &BenchRebuildArgs, (orders, facts): (u64, u64), took: &Took) -> Report {
    Report {
        engine: "",
        durability: String::new(),
        machine: machine(),
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

/// Folds the whole log into a generation that has nothing of it yet.
async fn fold(
    log: &Arc<dyn EventLog>,
    store: &Arc<dyn OrderStore>,
    (tables, facts): (u32, u64),
) -> anyhow::Result<Took> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Arc::new(Metrics::new(&Registry::new(), clock)?);
    let group = format!("bench-{tables}");
    let settings =
        ProjectorSettings { tables, group, ..ProjectorSettings::default() }.for_a_build();
    let projector = Projector::new(Arc::clone(log), Arc::clone(store), metrics, settings);
    let mut committed = projector.status().folded();
    let (stop, stopped) = watch::channel(false);
    let (begun, cpu_before) = (Instant::now(), cpu_micros()?);
    let running = tokio::spawn(projector.run(stopped));
    // Offsets count from 1 in every partition, so their sum is the number of facts.
    let is_all = |folded: &Vec<Position>| folded.iter().map(|at| at.offset).sum::<u64>() >= facts;
    let all = committed.wait_for(is_all).await;
    let took = Took {
        elapsed: begun.elapsed(),
        cpu_micros: cpu_micros()? - cpu_before,
        memory_peak_kib: memory_peak_kib("/proc/self/status")?,
    };
    all.map(|_| ()).context("the projector ended early")?;
    stop.send(true).context("the projector listens")?;
    running.await??;
    Ok(took)
}
