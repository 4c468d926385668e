//! `payfold reconcile`: runs, listings and decisions of the comparison with partners' records. What changes something
//! goes through the admin listener; listings read the `findings` topic.

mod change;
mod decisions;
mod list;
mod report;

use payfold_reconciler::books::ledger::Ledger;

use super::block_on;
use crate::args::{Global, ReconcileCommand};
use crate::settings;
use crate::wiring::Engines;

/// Runs one of its commands.
pub fn run(global: &Global, command: &ReconcileCommand) -> anyhow::Result<()> {
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

/// What the topic says now.
fn ledger(global: &Global) -> anyhow::Result<Ledger> {
    let loaded = settings::load(global)?;
    block_on(async {
        let engines = Engines::open_to_read(&loaded.settings).await?;
        folded(&engines).await
    })
}

/// The same over engines that are open.
async fn folded(engines: &Engines) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::in_memory()?;
    ledger.catch_up(&*engines.log).await?;
    Ok(ledger)
}
