//! `payfold bench reconcile`: compares a day of orders in the order store with the partner's file
//! of that day. The store and the file are made first. Then each comparison runs in a process of
//! its own, so that its peak memory can be measured. With `--beside` another program compares the
//! same data as files, in alternating rounds.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use arc_swap::ArcSwap;
use indicatif::{ProgressBar, ProgressStyle};
use payfold_bench::day::{DAY, MERCHANT, PARTNER, RECORDS, ReconciliationDay};
use payfold_bench::figures::{describe_machine, median};
use payfold_bench::usage::memory_peak_kib;
use payfold_engines::clock::SystemClock;
use payfold_partners::directory::Directory;
use payfold_partners::document::{AccountEntry, VaultDocument};
use payfold_partners::profile::{DEFAULT_PROFILE, Profile};
use payfold_reconcile::findings_store::FindingFilter;
use payfold_reconcile::ledger::Ledger;
use payfold_reconcile::request::{RecordsSource, Replaceable, RunRequest};
use payfold_reconcile::service::ReconcileService;
use payfold_reconcile::setup::ReconcileSetup;
use payfold_reconciler::{Metrics, Reconciler};
use payfold_schemas::finding::Code;
use payfold_schemas::ids::{MerchantCode, PartnerCode};
use payfold_schemas::run::RunResult;
use prometheus::Registry;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::args::BenchReconcileArgs;
use crate::settings::Settings;
use crate::wiring::{self, Need};
use crate::{output, roles};

const THEIRS: &str = "theirs.csv";
const OURS: &str = "ours.csv";

/// Time, memory and findings of one comparison.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct ComparisonMeasure {
    seconds: f64,
    memory_peak_kib: u64,
    findings: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReconcileReport {
    engine: &'static str,
    machine: String,
    orders: u64,
    findings: u64,
    seconds: f64,
    memory_peak_mib: u64,
    rounds: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<OtherProgram>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OtherProgram {
    command: String,
    seconds: f64,
    memory_peak_mib: u64,
    /// Our time divided by the other program's time.
    time_ratio: f64,
}

/// Makes the data, compares in alternating rounds and prints the report.
pub(crate) fn run(args: &BenchReconcileArgs) -> anyhow::Result<()> {
    if let Some(folder) = &args.compare_only {
        let took = compare(folder, args.orders)?;
        output::line(&serde_json::to_string(&took)?);
        return Ok(());
    }
    let folder = tempfile::Builder::new().prefix("payfold-bench-").tempdir_in(".")?;
    make(folder.path(), args.orders)?;
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds.max(1) {
        ours.push(compare_in_process(folder.path(), args.orders)?);
        if let Some(command) = &args.beside {
            others.push(beside(command, folder.path())?);
        }
    }
    let seconds = |of: &[ComparisonMeasure]| median(of.iter().map(|took| took.seconds).collect());
    let peak_mib =
        |of: &[ComparisonMeasure]| of.iter().map(|took| took.memory_peak_kib / 1_024).max();
    let beside = args.beside.clone().map(|command| OtherProgram {
        command,
        seconds: seconds(&others),
        memory_peak_mib: peak_mib(&others).unwrap_or(0),
        time_ratio: seconds(&ours) / seconds(&others),
    });
    report(
        args,
        &ReconcileReport {
            engine: "SQLite order store and log",
            machine: describe_machine(),
            orders: args.orders,
            findings: ours.first().map_or(0, |took| took.findings),
            seconds: seconds(&ours),
            memory_peak_mib: peak_mib(&ours).unwrap_or(0),
            rounds: ours.len(),
            beside,
        },
    )
}

fn report(args: &BenchReconcileArgs, report: &ReconcileReport) -> anyhow::Result<()> {
    if args.json {
        output::line(&serde_json::to_string_pretty(report)?);
        return Ok(());
    }
    output::line(&format!(
        "payfold bench reconcile: {} (findings synced); {}; {} orders against as many lines, \
         median of {} rounds",
        report.engine, report.machine, report.orders, report.rounds
    ));
    output::line(&format!(
        "{:.2} s, memory peak {} MiB, {} findings: every seeded one and no other",
        report.seconds, report.memory_peak_mib, report.findings
    ));
    if let Some(beside) = &report.beside {
        output::line(&format!(
            "{}: {:.2} s, memory peak {} MiB; ours takes {:.2} times that",
            beside.command, beside.seconds, beside.memory_peak_mib, beside.time_ratio
        ));
    }
    Ok(())
}

fn settings(folder: &Path) -> Settings {
    Settings { data: folder.to_owned(), log_filter: "error".to_owned(), ..Settings::default() }
}

fn make(folder: &Path, orders: u64) -> anyhow::Result<()> {
    let style = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len}")?;
    let progress = ProgressBar::new(orders).with_style(style).with_message("orders");
    let day = ReconciliationDay::new(orders);
    let runtime = roles::runtime("bench")?;
    runtime.block_on(async {
        let registry = Registry::new();
        let engines = wiring::open(&settings(folder), &registry, Need::Both).await?;
        let engines = engines.context("both engines")?;
        let show = |done| progress.set_position(done);
        day.fill(&*engines.log, &**engines.base()?, show).await?;
        engines.log.close().await?;
        anyhow::Ok(())
    })?;
    progress.finish_and_clear();
    day.write_partner_file(BufWriter::new(File::create(folder.join(THEIRS))?))?;
    day.write_order_file(BufWriter::new(File::create(folder.join(OURS))?))?;
    Ok(())
}

/// Compares in a child process. Before that, restores the log as it was before the first
/// comparison, so that each one starts without findings.
fn compare_in_process(folder: &Path, orders: u64) -> anyhow::Result<ComparisonMeasure> {
    for name in ["log.db", "log.db-wal", "log.db-shm"] {
        let (file, kept) = (folder.join(name), folder.join(format!("kept-{name}")));
        match (kept.exists(), file.exists()) {
            (true, _) => drop(std::fs::copy(&kept, &file)?),
            (false, true) => drop(std::fs::copy(&file, &kept)?),
            (false, false) => {}
        }
    }
    let ran = Command::new(std::env::current_exe()?)
        .args(["bench", "reconcile", "--orders", &orders.to_string(), "--compare-only"])
        .arg(folder)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(ran.status.success(), "the comparison failed");
    Ok(serde_json::from_slice(&ran.stdout)?)
}

/// Runs another program with both files as arguments. It prints the same figures as JSON.
fn beside(command: &str, folder: &Path) -> anyhow::Result<ComparisonMeasure> {
    let mut words = command.split_whitespace();
    let ran = Command::new(words.next().context("a command")?)
        .args(words)
        .args([folder.join(OURS), folder.join(THEIRS)])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{command} can't be run"))?;
    std::io::stderr().flush()?;
    ensure!(ran.status.success(), "{command} failed");
    serde_json::from_slice(&ran.stdout).with_context(|| format!("{command} prints no figures"))
}

fn compare(folder: &Path, orders: u64) -> anyhow::Result<ComparisonMeasure> {
    roles::runtime("reconciler")?.block_on(async {
        let registry = Registry::new();
        let engines = wiring::open(&settings(folder), &registry, Need::Both).await?;
        let engines = engines.context("both engines")?;
        let (log, store) = (Arc::clone(&engines.log), Arc::clone(engines.base()?));
        let directory = Arc::new(ArcSwap::from_pointee(directory()?));
        let setup = ReconcileSetup::new(directory, folder.join("reconcile"));
        let (service, queue) = ReconcileService::open(&setup);
        let metrics = Arc::new(Metrics::new(&registry)?);
        let reconciler = Reconciler::new(
            Arc::clone(&log),
            store,
            Arc::new(SystemClock),
            metrics,
            payfold_reconciler::Settings::default(),
        );
        let (stop, stopped) = watch::channel(false);
        let running = tokio::spawn(reconciler.with_reconciliation(setup, queue).run(stopped));
        let begun = Instant::now();
        let ended = service
            .run(RunRequest {
                partner: PartnerCode::parse(PARTNER)?,
                day: Some(DAY.parse()?),
                source: RecordsSource::File(folder.join(THEIRS)),
                name: THEIRS.to_owned(),
                replace: Replaceable::No,
                asked: None,
            })
            .await?;
        let seconds = begun.elapsed().as_secs_f64();
        let memory_peak_kib = memory_peak_kib("/proc/self/status")?;
        ensure!(ended.result == RunResult::Complete, "{:?}", ended.problems);
        stop.send(true).context("the reconciler listens")?;
        running.await??;
        let mut ledger = Ledger::in_memory()?;
        ledger.catch_up(&*log).await?;
        let of = |finding: &payfold_schemas::finding::FindingChanged| {
            (finding.order_id.as_ref().map_or_else(String::new, ToString::to_string), finding.code)
        };
        let findings = ledger.findings(FindingFilter::default()).collect::<Result<Vec<_>, _>>()?;
        let found: BTreeSet<(String, Code)> = findings.iter().map(of).collect();
        let expected = ReconciliationDay::new(orders).expected();
        ensure!(
            found == expected && findings.len() == expected.len(),
            "{} findings, {} of them not seeded; {} seeded ones were not found",
            findings.len(),
            found.difference(&expected).count(),
            expected.difference(&found).count()
        );
        log.close().await?;
        let findings = u64::try_from(found.len())?;
        Ok(ComparisonMeasure { seconds, memory_peak_kib, findings })
    })
}

fn directory() -> anyhow::Result<Directory> {
    let partner = PartnerCode::parse(PARTNER)?;
    let profile = Profile::parse(&partner, &format!("{DEFAULT_PROFILE}{RECORDS}"))?;
    let mut vault = VaultDocument::default();
    vault.accounts.push(AccountEntry::new(partner, MerchantCode::parse(MERCHANT)?));
    Directory::build(vec![profile], &vault).map_err(|problems| {
        anyhow::anyhow!(
            "{}",
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        )
    })
}
