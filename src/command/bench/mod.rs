//! `payfold bench`: figures of this program on this machine, side by side in one run, medians of alternating
//! rounds. Every figure is printed with engine, durability and machine.

mod beside;
mod books;
mod cluster;
mod e2e;
mod empty;
mod in_memory;
mod ingest;
mod load;
mod notices;
mod process;
mod projector;
mod rebuild;
mod reconcile;
mod world;

use crate::args::{BenchCommand, Global};

/// Runs one of its commands.
pub fn run(global: &Global, command: &BenchCommand) -> anyhow::Result<()> {
    match command {
        BenchCommand::Ingest(args) => ingest::run(args),
        BenchCommand::E2e(args) => e2e::run(args),
        BenchCommand::Projector(args) => projector::run(global, args),
        BenchCommand::Rebuild(args) => rebuild::run(global, args),
        BenchCommand::Reconcile(args) => reconcile::run(args),
        BenchCommand::Server(args) => empty::run(args),
    }
}

/// The middle of some figures; of an even number the lower middle.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// Cores and system, for the head of a report.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    format!("{cores} cores, {} {}", std::env::consts::OS, std::env::consts::ARCH)
}
