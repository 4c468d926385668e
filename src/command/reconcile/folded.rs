//! Owns reading the ledger for commands.

use payfold_reconcile::ledger::Ledger;

use crate::wiring::Engines;

/// Folds the `findings` topic into a ledger in memory.
pub(super) async fn folded(engines: &Engines) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::in_memory()?;
    ledger.catch_up(&*engines.log).await?;
    Ok(ledger)
}
