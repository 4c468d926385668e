//! Owns the check that a log and an order store belong together, and with it where folding starts.
//! Invariant: no record is folded into a store that was folded from another log, or that has folded
//! records which this log has lost or changed since.

use payfold_engines::log::{Delivered, Topic};
use payfold_engines::orders::Folded;
use payfold_kit::RunError;
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;

use super::error::Halt;
use super::shared::Shared;

/// The last folded record of each of these partitions; a partition that is not folded at all is
/// missing. Errors: `Unpaired`.
pub(super) async fn load_start(shared: &Shared, partitions: &[u32]) -> Result<Vec<Folded>, Halt> {
    let outage = shared.outage("read how far the orders are folded");
    let progress = outage.ask(|| shared.store.progress()).await?;
    let Some(progress) = progress else { return Ok(Vec::new()) };
    if progress.log_id != shared.log.id() {
        return Err(unpaired("the order store was folded from another log".to_owned()));
    }
    let mut start = Vec::with_capacity(partitions.len());
    for folded in &progress.folded {
        if partitions.contains(&folded.position.partition) {
            check_last_folded(shared, folded).await?;
            start.push(*folded);
        }
    }
    Ok(start)
}

/// Checks that the log still holds the record that was folded last, unchanged.
async fn check_last_folded(shared: &Shared, folded: &Folded) -> Result<(), Halt> {
    let Position { partition, offset } = folded.position;
    let before = offset.saturating_sub(1);
    match record_after(shared, Position { partition, offset: before }).await? {
        Some(record) if record.position != folded.position => Err(unpaired(format!(
            "the log has no record {}, the last one the order store has folded",
            folded.position
        ))),
        Some(record) if Digest::of_bytes(&record.value) != folded.digest => Err(unpaired(format!(
            "record {} of the log is another than the one the order store has folded",
            folded.position
        ))),
        Some(_) => Ok(()),
        None => Err(unpaired(format!(
            "the log ends before record {}, which the order store has folded: \
             it was restored from an older backup or has lost records",
            folded.position
        ))),
    }
}

/// The first record of intake after a position.
async fn record_after(shared: &Shared, after: Position) -> Result<Option<Delivered>, Halt> {
    let read = || shared.log.read_after(Topic::Intake, after, 1);
    let records = shared.outage("read intake").ask(read).await?;
    Ok(records.into_iter().next())
}

fn unpaired(text: String) -> Halt {
    Halt::Failed(RunError::Unpaired(text))
}
