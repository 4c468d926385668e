//! `payfold reconcile`: runs, listings and decisions of the comparison with partners' records.
//! Commands that change something call the admin listener; listings read the engines, or through
//! the admin listener that `--admin-url` names.

mod change;
mod decide;
mod decisions;
mod list;
mod report;

use super::block_on::block_on;
use crate::args::{Global, ReconcileCommand};
use crate::reads::Reads;
use crate::settings;

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &ReconcileCommand) -> anyhow::Result<()> {
    let loaded = || settings::load(global);
    match command {
        ReconcileCommand::Run(args) => change::run(global, args),
        ReconcileCommand::Decide(args) => decide::decide(global, args),
        ReconcileCommand::Withdraw(args) => decide::withdraw(global, args),
        ReconcileCommand::Close { partner, day } => change::close(global, partner, *day),
        ReconcileCommand::Findings(args) => {
            block_on(async { list::findings(&Reads::open(global, &loaded()?).await?, args).await })
        }
        ReconcileCommand::Totals(args) => {
            block_on(async { list::totals(&Reads::open(global, &loaded()?).await?, args).await })
        }
        ReconcileCommand::Runs(args) => {
            block_on(async { list::runs(&Reads::open(global, &loaded()?).await?, args).await })
        }
        ReconcileCommand::Report(args) => {
            block_on(async { report::write(&Reads::open(global, &loaded()?).await?, args).await })
        }
        ReconcileCommand::Decisions(args) => {
            block_on(async { decisions::list(&Reads::open(global, &loaded()?).await?, args).await })
        }
    }
}
