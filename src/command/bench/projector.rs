//! `payfold bench projector`: facts read from a log, folded, published and committed, end to end.
//! The log is filled first, then the projector alone is timed in a process whose memory is its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_projector::{Metrics, Projector};
use prometheus::Registry;
use serde::Serialize;
use tokio::sync::watch;

use super::cluster::Cluster;
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
const POLL: Duration = Duration::from_millis(5);

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
    Ok(())
}

async fn measure(args: &BenchProjectorArgs, settings: &Settings) -> anyhow::Result<Report> {
    let orders = args.orders.min(args.facts / 5).max(1);
    let world = World::new(orders, args.window, SystemClock.now());
    let engines =
        Engines::open(settings, &Registry::new(), Need::Both).await?.context("both engines")?;
    let progress = progress(args, world.records());
    fill(&engines, &world, &progress).await?;

    progress.set_message("fold");
    progress.set_position(0);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Arc::new(Metrics::new(&Registry::new(), clock)?);
    let (log, store) = (Arc::clone(&engines.log), Arc::clone(engines.store()?));
    let projector_settings = payfold_projector::Settings {
        batch_records_max: settings.projector.batch_records,
        ..payfold_projector::Settings::default()
    };
    let projector = Projector::new(log, store, metrics, projector_settings);
    let (stop, stopped) = watch::channel(false);
    let cpu_before = cpu_micros()?;
    let begun = Instant::now();
    let running = tokio::spawn(projector.run(stopped));
    loop {
        let folded = folded(&engines).await?;
        progress.set_position(folded);
        if folded >= world.records() {
            break;
        }
        anyhow::ensure!(!running.is_finished(), "the projector ended early");
        tokio::time::sleep(POLL).await;
    }
    let (elapsed, cpu_us) = (begun.elapsed(), cpu_micros()? - cpu_before);
    stop.send(true).context("the projector listens")?;
    running.await??;
    progress.finish_and_clear();
    let ends = walk::ends(&*engines.log, Topic::Orders).await?;
    let events = ends.iter().map(|end| end.offset).sum();
    engines.log.close().await?;
    Ok(Report {
        engine: if args.log.is_some() { "Kafka and CQL" } else { "SQLite" },
        durability: String::new(),
        machine: machine(),
        facts: world.records(),
        orders,
        window: args.window,
        facts_per_s: per_second(world.records(), elapsed),
        cpu_micros_per_fact: ratio(cpu_us, world.records()),
        events,
        memory_peak_kib: memory_peak_kib("/proc/self/status")?,
    })
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

async fn fill(engines: &Engines, world: &World, progress: &ProgressBar) -> anyhow::Result<()> {
    let mut place = 0;
    while place < world.records() {
        let until = (place + FILL_BATCH).min(world.records());
        let messages = (place..until).map(|place| world.message(place)).collect();
        engines.log.append_all(Topic::Intake, messages).await?;
        place = until;
        progress.set_position(place);
    }
    Ok(())
}

async fn folded(engines: &Engines) -> anyhow::Result<u64> {
    let progress = engines.store()?.progress().await?;
    // Offsets count from 1 in every partition, so their sum is the number of facts.
    let all = progress.into_iter().flat_map(|progress| progress.folded);
    Ok(all.map(|folded| folded.position.offset).sum())
}

fn cpu_micros() -> anyhow::Result<u64> {
    super::process::cpu_micros_of("self")
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    ratio(count, 1) / elapsed.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
