//! `payfold bench projector`: facts read from a log, folded, published and committed, end to end.
//! The log is filled first; then only the projector is timed. If the store is a database, the
//! projector is timed a second time on the same log with a store that drops all rows. The second
//! time is the client's own work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use payfold_bench::figures::{describe_machine, per_second, ratio};
use payfold_bench::in_memory::InMemoryOrderStore;
use payfold_bench::usage::cpu_micros;
use payfold_bench::usage::memory_peak_kib;
use payfold_bench::world::FactGenerator;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::walk;
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::OrderStore;
use payfold_projector::{Projector, ProjectorMetrics};
use prometheus::Registry;
use serde::Serialize;
use tokio::sync::watch;

use super::cluster::BenchCluster;
use super::engines;
use crate::args::{BenchProjectorArgs, Global};
use crate::settings::{self, Settings};
use crate::wiring::Need;
use crate::{output, roles};

const POLL: Duration = Duration::from_millis(100);

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ProjectorReport {
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
    database: Option<DatabaseFigures>,
}

/// Statements the database ran, and the client's rate without a database.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DatabaseFigures {
    reads_per_fact: f64,
    writes_per_fact: f64,
    client_alone_facts_per_s: f64,
    client_alone_cpu_micros_per_fact: f64,
}

/// Time and CPU time of one fold of the log.
struct FoldMeasure {
    elapsed: Duration,
    cpu_micros: u64,
}

/// Fills the log, folds it and prints the report.
pub(crate) fn run(global: &Global, args: &BenchProjectorArgs) -> anyhow::Result<()> {
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
        let cluster = BenchCluster::make(log, settings.kafka.partitions, &[])?;
        durability = format!("{}; orders at {}", cluster.durability, settings.cql.consistency);
        (settings.log, settings.orders) = (cluster.url, BenchCluster::keyspace(orders)?);
        settings.dev = true;
    }
    let runtime = roles::runtime("projector")?;
    let report = ProjectorReport { durability, ..runtime.block_on(measure(args, &settings))? };
    if args.json {
        output::line(&serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    output::line(&format!(
        "payfold bench projector: {}, {}; {}; {} facts over {} orders, {} open at once, a fifth \
         duplicates",
        report.engine,
        report.durability,
        report.machine,
        report.facts,
        report.orders,
        report.window
    ));
    output::line(&format!(
        "{:.0} facts/s end to end (read, fold, publish, commit), cpu {:.1} us/fact, {} events, \
         memory peak {} MiB",
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

async fn measure(
    args: &BenchProjectorArgs,
    settings: &Settings,
) -> anyhow::Result<ProjectorReport> {
    let orders = args.orders.min(args.facts / 5).max(1);
    let world = FactGenerator::new(orders, args.window, SystemClock.now());
    let registry = Registry::new();
    let engines = engines::open(settings, &registry, Need::Both).await?;
    let (log, store) = (&engines.log, engines.base()?);
    let facts = world.records();
    let progress = progress(args, facts);
    engines::fill(&engines, &world, |place| progress.set_position(place)).await?;

    let took = fold((log, store), ("fold", facts), settings, &progress).await?;
    let ends = walk::ends(&**log, Topic::Orders).await?;
    let memory_peak_kib = memory_peak_kib("/proc/self/status")?;
    let database = match args.log {
        Some(_) => {
            let [reads, writes] = [&["read"][..], &["write", "batch"]]
                .map(|kinds| ratio(statements(&registry, kinds), facts));
            let nothing: Arc<dyn OrderStore> = Arc::new(InMemoryOrderStore::dropping());
            let alone = fold((log, &nothing), ("alone", facts), settings, &progress).await?;
            Some(DatabaseFigures {
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
    Ok(ProjectorReport {
        engine: if args.log.is_some() { "Kafka and CQL" } else { "SQLite" },
        durability: String::new(),
        machine: describe_machine(),
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

/// Folds the whole log into an empty store.
async fn fold(
    (log, store): (&Arc<dyn EventLog>, &Arc<dyn OrderStore>),
    (step, facts): (&'static str, u64),
    settings: &Settings,
    progress: &ProgressBar,
) -> anyhow::Result<FoldMeasure> {
    progress.set_message(step);
    progress.set_position(0);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Arc::new(ProjectorMetrics::new(&Registry::new(), clock)?);
    let projector_settings = payfold_projector::ProjectorSettings {
        batch_records_max: settings.projector.batch_records,
        group: format!("bench-{step}"),
        ..payfold_projector::ProjectorSettings::default()
    };
    let projector = Projector::new(Arc::clone(log), Arc::clone(store), metrics, projector_settings);
    // The progress comes from the projector's status: reads of the store would be counted.
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
    let took = FoldMeasure { elapsed: begun.elapsed(), cpu_micros: cpu_micros()? - cpu_before };
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

/// The number of statements of these kinds that the order store's engine has run.
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
