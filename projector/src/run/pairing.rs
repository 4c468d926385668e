//! Owns the check that a log and an order store belong together, and with it where folding starts.
//! Invariant: no record is folded into a store that was folded from another log, or that has folded
//! records which this log has lost or changed since.

use payfold_engines::EngineError;
use payfold_engines::log::epoch::publication_in;
use payfold_engines::log::{Delivered, Topic};
use payfold_engines::orders::Folded;
use payfold_engines::pairing::check_sealed;
use payfold_kit::RunError;
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;
use payfold_schemas::publication::Publication;

use super::error::Halt;
use super::shared::Shared;

/// Where folding starts.
#[derive(Default)]
pub(super) struct Start {
    /// The last folded record of each assigned partition; one that is not folded at all is missing.
    pub(super) folded: Vec<Folded>,
    /// What is published in each assigned partition.
    pub(super) publications: Vec<(u32, Publication)>,
}

/// Reads where folding starts in these partitions. Errors: `Unpaired`; `Unsealed`.
pub(super) async fn load_start(shared: &Shared, partitions: &[u32]) -> Result<Start, Halt> {
    let outage = shared.outage("read how far intake goes");
    let extents = outage.ask(|| shared.log.extent(Topic::Intake)).await?;
    let outage = shared.outage("read how far the orders are folded");
    let progress = outage.ask(|| shared.store.progress()).await?;
    check_sealed(&extents, progress.as_ref()).map_err(|error| unsealed(shared, &error))?;
    let Some(progress) = progress else { return Ok(Start::default()) };
    if progress.log_id != shared.log.id() {
        return Err(unpaired("the order store was folded from another log".to_owned()));
    }
    let assigned =
        progress.folded.iter().filter(|one| partitions.contains(&one.position.partition));
    let folded: Vec<Folded> = assigned.copied().collect();
    for one in &folded {
        check_last_folded(shared, one).await?;
    }
    let published = progress.publications();
    let publications =
        partitions.iter().map(|partition| (*partition, publication_in(*partition, &published)));
    Ok(Start { folded, publications: publications.collect() })
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

fn unsealed(shared: &Shared, error: &EngineError) -> Halt {
    let build = shared.settings.build;
    Halt::Failed(RunError::Unsealed(format!(
        "build {build} is not folded: {error}; if another build is published, drop this one with \
         `payfold rebuild drop {build} --yes --reason TEXT`"
    )))
}

fn unpaired(text: String) -> Halt {
    Halt::Failed(RunError::Unpaired(text))
}
