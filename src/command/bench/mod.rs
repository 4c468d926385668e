//! `payfold bench`: figures of this program on this machine, side by side in one run, medians of
//! alternating rounds. Every figure is printed with engine, durability and machine.

mod beside;
mod cluster;
mod e2e;
mod empty;
mod engines;
mod ingest;
mod process;
mod projector;
mod rebuild;
mod reconcile;

use crate::args::{BenchCommand, Global};

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &BenchCommand) -> anyhow::Result<()> {
    match command {
        BenchCommand::Ingest(args) => ingest::run(args),
        BenchCommand::E2e(args) => e2e::run(args),
        BenchCommand::Projector(args) => projector::run(global, args),
        BenchCommand::Rebuild(args) => rebuild::run(global, args),
        BenchCommand::Reconcile(args) => reconcile::run(args),
        BenchCommand::Server(args) => empty::run(args),
    }
}
