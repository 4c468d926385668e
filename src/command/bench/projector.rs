//! `payfold bench projector`: facts read from a log, folded, published and committed, end to end.
//! The log is filled first, then the projector alone is timed in a process whose memory is its own. Where the store is a
//! database, it is timed once more on the same log without one: what is left is the client's own work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::OrderStore;
use payfold_projector::{Metrics, Projector};
use prometheus::Registry;
use serde::Serialize;
use tokio::sync::watch;

use super::cluster::Cluster;
use super::in_memory::InMemory;
use super::machine;
use super::process::memory_peak_kib;
use super::world::World;
use crate::args::{BenchProjectorArgs, Global};
use crate::output;
use crate::roles;
use crate::settings::{self, Settings};
use crate::walk;
use crate::wiring::{Engines, Need};

const FILL_BATCH: u64 = 5_000;
const POLL: Duration = Duration::from_millis(100);

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
    events: u64,
    memory_peak_kib: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    database: Option<Database>,
}

/// What the database was asked, and what the client would do without it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Database {
    reads_per_fact: f64,
    writes_per_fact: f64,
    client_alone_facts_per_s: f64,
    client_alone_cpu_micros_per_fact: f64,
}

/// How long one folding of the log took.
struct Took {
    elapsed: Duration,
    cpu_micros: u64,
}

/// Fills, folds, reports.
pub fn run(global: &Global, args: &BenchProjectorArgs) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("payfold-bench-").tempdir_in(".")?;
    let mut settings = Settings {
        data: folder.path().to_owned(),
        log: String::new(),
        orders: String::new(),
        ..settings::load(global)?.settings
    };
    let mut durability =
        "log synchronous=FULL, orders synchronous=NORMAL (progress in the same transaction)"
            .to_owned();
    if let (Some(log), Some(orders)) = (&args.log, &args.orders_at) {
        let cluster = Cluster::make(log, settings.kafka.partitions, &[])?;
        durability = format!("{}; orders at {}", cluster.durability, settings.cql.consistency);
        (settings.log, settings.orders) = (cluster.url, Cluster::keyspace(orders)?);
        settings.dev = true;
    }
    let runtime = roles::runtime("projector")?;
    let report = Report { durability, ..runtime.block_on(measure(args, &settings))? };
    if args.json {
        output::line(&serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    output::line(&format!(
        "payfold bench projector: {}, {}; {}; {} facts over {} orders, {} open at once, a fifth duplicates",
        report.engine,
        report.durability,
        report.machine,
        report.facts,
        report.orders,
        report.window
    ));
    output::line(&format!(
        "{:.0} facts/s end to end (read, fold, publish, commit), cpu {:.1} us/fact, {} events, memory peak {} MiB",
        report.facts_per_s,
        report.cpu_micros_per_fact,
        report.events,
        report.memory_peak_kib / 1_024
    ));
    if let Some(database) = &report.database {
        output::line(&format!(
            "database: {:.3} reads and {:.3} writes a fact (statements; a batch of entries is one)",
            database.reads_per_fact, database.writes_per_fact
        ));
        output::line(&format!(
            "client alone, rows encoded and dropped, no database: {:.0} facts/s, cpu {:.1} us/fact",
            database.client_alone_facts_per_s, database.client_alone_cpu_micros_per_fact
        ));
    }
    Ok(())
}

async fn measure(args: &BenchProjectorArgs, settings: &Settings) -> anyhow::Result<Report> {
    let orders = args.orders.min(args.facts / 5).max(1);
    let world = World::new(orders, args.window, SystemClock.now());
    let registry = Registry::new();
    let engines = Engines::open(settings, &registry, Need::Both).await?.context("both engines")?;
    let (log, store) = (&engines.log, engines.base()?);
    let facts = world.records();
    let progress = progress(args, facts);
    fill(&**log, &world, &progress).await?;

    let took = fold((log, store), ("fold", facts), settings, &progress).await?;
    let ends = walk::ends(&**log, Topic::Orders).await?;
    let memory_peak_kib = memory_peak_kib("/proc/self/status")?;
    let database = match args.log {
        Some(_) => {
            let [reads, writes] = [&["read"][..], &["write", "batch"]]
                .map(|kinds| ratio(statements(&registry, kinds), facts));
            let nothing: Arc<dyn OrderStore> = Arc::new(InMemory::dropping());
            let alone = fold((log, &nothing), ("alone", facts), settings, &progress).await?;
            Some(Database {
                reads_per_fact: reads,
                writes_per_fact: writes,
                client_alone_facts_per_s: per_second(facts, alone.elapsed),
                client_alone_cpu_micros_per_fact: ratio(alone.cpu_micros, facts),
            })
        }
        None => None,
    };
    progress.finish_and_clear();
    engines.log.close().await?;
    Ok(Report {
        engine: if args.log.is_some() { "Kafka and CQL" } else { "SQLite" },
        durability: String::new(),
        machine: machine(),
        facts,
        orders,
        window: args.window,
        facts_per_s: per_second(facts, took.elapsed),
        cpu_micros_per_fact: ratio(took.cpu_micros, facts),
        events: ends.iter().map(|end| end.offset).sum(),
        memory_peak_kib,
        database,
    })
}

/// Folds the whole log into a store that has nothing of it yet.
async fn fold(
    (log, store): (&Arc<dyn EventLog>, &Arc<dyn OrderStore>),
    (step, facts): (&'static str, u64),
    settings: &Settings,
    progress: &ProgressBar,
) -> anyhow::Result<Took> {
    progress.set_message(step);
    progress.set_position(0);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Arc::new(Metrics::new(&Registry::new(), clock)?);
    let projector_settings = payfold_projector::Settings {
        batch_records_max: settings.projector.batch_records,
        group: format!("bench-{step}"),
        ..payfold_projector::Settings::default()
    };
    let projector = Projector::new(Arc::clone(log), Arc::clone(store), metrics, projector_settings);
    // What it tells of itself: asking the store would be counted.
    let mut committed = projector.status().folded();
    let (stop, stopped) = watch::channel(false);
    let cpu_before = cpu_micros()?;
    let begun = Instant::now();
    let running = tokio::spawn(projector.run(stopped));
    loop {
        // Offsets count from 1 in every partition, so their sum is the number of facts.
        let folded = committed.borrow_and_update().iter().map(|at| at.offset).sum();
        progress.set_position(folded);
        if folded >= facts {
            break;
        }
        anyhow::ensure!(!running.is_finished(), "the projector ended early");
        let _ = tokio::time::timeout(POLL, committed.changed()).await;
    }
    let took = Took { elapsed: begun.elapsed(), cpu_micros: cpu_micros()? - cpu_before };
    stop.send(true).context("the projector listens")?;
    running.await??;
    Ok(took)
}

fn progress(args: &BenchProjectorArgs, records: u64) -> ProgressBar {
    if args.json || !output::is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:6} {bar:40} {pos}/{len} {per_sec}, {eta} left");
    ProgressBar::new(records)
        .with_style(style.expect("the template is a valid one"))
        .with_message("fill")
}

pub(super) async fn fill(
    log: &dyn EventLog,
    world: &World,
    progress: &ProgressBar,
) -> anyhow::Result<()> {
    let mut place = 0;
    while place < world.records() {
        let until = (place + FILL_BATCH).min(world.records());
        let messages = (place..until).map(|place| world.message(place)).collect();
        log.append_all(Topic::Intake, messages).await?;
        place = until;
        progress.set_position(place);
    }
    Ok(())
}

/// How many statements of these kinds the order store's engine has run.
fn statements(registry: &Registry, kinds: &[&str]) -> u64 {
    let families = registry.gather();
    let family = families
        .iter()
        .find(|family| family.name() == "payfold_engine_cql_statement_duration_seconds");
    let metrics = family.into_iter().flat_map(|family| family.get_metric());
    let wanted = metrics
        .filter(|metric| metric.get_label().iter().any(|label| kinds.contains(&label.value())));
    wanted.map(|metric| metric.get_histogram().get_sample_count()).sum()
}

pub(super) fn cpu_micros() -> anyhow::Result<u64> {
    super::process::cpu_micros_of("self")
}

pub(super) fn per_second(count: u64, elapsed: Duration) -> f64 {
    ratio(count, 1) / elapsed.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
