//! Owns reading the ledger for commands.

use payfold_engines::log::EventLog;
use payfold_reconcile::ledger::Ledger;

/// Folds the `findings` topic into a ledger in memory.
pub(super) async fn read_ledger(log: &dyn EventLog) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::in_memory()?;
    ledger.catch_up(log).await?;
    Ok(ledger)
}
