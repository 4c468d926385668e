//! `payfold reconcile`: runs, listings and decisions of the comparison with partners' records.
//! Commands that change something call the admin listener; listings read the `findings` topic.

mod change;
mod decisions;
mod list;
mod report;

use payfold_reconcile::ledger::Ledger;

use super::block_on::block_on;
use super::ledger::read_ledger;
use crate::args::{Global, ReconcileCommand};
use crate::{settings, wiring};

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &ReconcileCommand) -> anyhow::Result<()> {
    match command {
        ReconcileCommand::Run(args) => change::run(global, args),
        ReconcileCommand::Decide(args) => change::decide(global, args),
        ReconcileCommand::Withdraw(args) => change::withdraw(global, args),
        ReconcileCommand::Close { partner, day } => change::close(global, partner, *day),
        ReconcileCommand::Findings(args) => {
            block_on(list::findings(&settings::load(global)?, args))
        }
        ReconcileCommand::Totals(args) => list::totals(&ledger(global)?, args),
        ReconcileCommand::Runs(args) => list::runs(&ledger(global)?, args),
        ReconcileCommand::Decisions(args) => decisions::list(&ledger(global)?, args),
        ReconcileCommand::Report(args) => report::write(&ledger(global)?, args),
    }
}

/// Reads the ledger from the `findings` topic.
fn ledger(global: &Global) -> anyhow::Result<Ledger> {
    let loaded = settings::load(global)?;
    block_on(async {
        let engines = wiring::open_to_read(&loaded.settings).await?;
        read_ledger(&*engines.log).await
    })
}
