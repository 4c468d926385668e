//! Owns the payments and refunds that the records of two days list. A run that began before an item
//! was known has said nothing of it, so it does not count as one of the two.

use super::detected_finding::{DetectedFinding, DoubledFinding};
use super::error::ReconcileError;
use super::ledger::Ledger;
use super::orders::received_at;
use super::spill_file::SpillFile;
use crate::shared::SharedContext;

/// The doubles among these, each with its day, and the differences of the others. Errors: the disk;
/// a halt.
pub(crate) async fn settle(
    shared: &SharedContext,
    ledger: &Ledger,
    doubled: SpillFile<DoubledFinding>,
    (doubles, found): (&mut SpillFile<(String, DetectedFinding)>, &mut SpillFile<DetectedFinding>),
) -> Result<(), ReconcileError> {
    for one in doubled.values() {
        let one = one.map_err(ReconcileError::scratch_disk)?;
        let written = match was_known(shared, ledger, &one).await? {
            true => doubles.push(&(one.day, one.found)),
            false => one.otherwise.iter().try_for_each(|otherwise| found.push(otherwise)),
        };
        written.map_err(ReconcileError::scratch_disk)?;
    }
    Ok(())
}

/// Whether the item was known when the run began that has not missed it.
async fn was_known(
    shared: &SharedContext,
    ledger: &Ledger,
    one: &DoubledFinding,
) -> Result<bool, ReconcileError> {
    let run = one.inferred_from.as_ref().and_then(|day| {
        let partner = one.found.identity.partner.clone();
        ledger.run_of(&(partner, day.clone()))
    });
    let Some((run, counts_since)) = run.zip(one.counts_since) else { return Ok(true) };
    let since = received_at(shared, counts_since).await?;
    Ok(since.is_none_or(|since| since <= run.started_at))
}
