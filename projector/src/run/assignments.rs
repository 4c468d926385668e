//! Owns which partitions are this projector's, and for how long.
//!
//! An *assignment* is the time between two rebalances: one run of the pipeline with a cache of its
//! own, which begins at the store's progress. Invariants: a partition is released only once
//! everything read of it is committed; nothing is remembered of a lost partition; a partition
//! begins at the order store's progress, whatever the group acknowledged. So two projectors that
//! hold one partition for a moment write the same rows and events.

use payfold_engines::log::{AssignedReader, Rebalance, Topic};
use payfold_engines::orders::Folded;
use payfold_kit::RunError;
use payfold_schemas::chain::Head;

use super::error::Halt;
use super::pairing::Start;
use super::read::{Ended, PartitionStates};
use super::shared::Shared;
use super::{cutover, pairing, pipeline};

/// Runs one assignment after the other until the projector is signalled to stop. Returns the error
/// of a halted partition once every partition is halted.
pub(super) async fn run(shared: &Shared) -> Result<Option<RunError>, Halt> {
    let mut reader = open(shared).await?;
    let mut states = PartitionStates::default();
    loop {
        let rebalance = match pipeline::run(shared, &mut *reader, &mut states).await {
            Ok(Ended::Stopped) => return Ok(None),
            Ok(Ended::Halted(error)) => return Ok(Some(error)),
            Ok(Ended::AtMarkers) => {
                // Records after the markers were read and not kept, and a reader does not go back.
                drop(reader);
                cutover::pass_markers(shared, std::mem::take(&mut states.at_marker)).await?;
                reset(shared, &mut states);
                reader = open(shared).await?;
                continue;
            }
            Ok(Ended::Rebalanced(rebalance)) => rebalance,
            Err(Halt::Lost(partitions)) => Rebalance::Lost(partitions),
            Err(halt) => return Err(halt),
        };
        // A halted partition's next projector halts at the same record.
        states.forget(rebalance.partitions());
        let lost = matches!(rebalance, Rebalance::Lost(_));
        handle_rebalance(shared, (&mut *reader, &mut states), rebalance).await?;
        shared.metrics().set_partitions_halted(states.halted.len());
        let owned = shared.status.owned();
        if lost && !owned.is_empty() {
            // The batches in flight of the remaining partitions are dropped, too, and a reader does
            // not go back. So all partitions are read anew from the store's progress.
            reset(shared, &mut states);
            drop(reader);
            reader = open(shared).await?;
            continue;
        }
        if let Some(error) = states.halted.values().next()
            && owned.iter().all(|partition| states.halted.contains_key(partition))
        {
            return Ok(Some(error.clone()));
        }
    }
}

/// Forgets all partitions and what is known of them.
fn reset(shared: &Shared, states: &mut PartitionStates) {
    shared.unassign(&shared.status.owned().into_iter().collect::<Vec<_>>());
    *states = PartitionStates::default();
}

async fn open(shared: &Shared) -> Result<Box<dyn AssignedReader>, Halt> {
    let join = || shared.log.join_group(Topic::Intake, &shared.settings.group);
    Ok(shared.outage("subscribe to intake").ask(join).await?)
}

/// Takes over assigned partitions and lets go of revoked and lost ones. The pipeline is not running
/// meanwhile.
async fn handle_rebalance(
    shared: &Shared,
    (reader, states): (&mut dyn AssignedReader, &mut PartitionStates),
    rebalance: Rebalance,
) -> Result<(), Halt> {
    match rebalance {
        Rebalance::Assigned(partitions) => {
            shared.assign(&partitions);
            let Start { folded, publications } = pairing::load_start(shared, &partitions).await?;
            cutover::wait_for_incoming(shared, &folded).await?;
            states
                .heads
                .extend(folded.iter().map(|one| (one.position.partition, chain_head(shared, one))));
            states.publications.extend(publications);
            let owned = shared.status.owned();
            shared.choose_metrics(owned.iter().map(|one| states.publication(*one)));
            let after: Vec<_> = folded.iter().map(|one| one.position).collect();
            shared.status.advance(after.iter().copied());
            tracing::info!(?partitions, "folding partitions of intake");
            let mut outage = shared.outage("begin to read intake");
            while let Err(error) = reader.start_after(after.clone()).await {
                outage.wait(error).await?;
            }
            outage.over();
        }
        Rebalance::Revoked(partitions) => {
            shared.unassign(&partitions);
            tracing::info!(
                ?partitions,
                "partitions of intake are handed over, folded and committed"
            );
            let mut outage = shared.outage("hand partitions over");
            while let Err(error) = reader.release_revoked().await {
                outage.wait(error).await?;
            }
            outage.over();
        }
        Rebalance::Lost(partitions) => {
            shared.unassign(&partitions);
            tracing::warn!(?partitions, "partitions of intake were lost to another projector");
        }
    }
    Ok(())
}

/// The head from which a partition's chain continues.
fn chain_head(shared: &Shared, folded: &Folded) -> Head {
    let resumed = || Head::resumed(shared.log.id(), folded.position, folded.digest);
    folded.head.unwrap_or_else(resumed)
}

impl Shared {
    fn assign(&self, partitions: &[u32]) {
        self.status.assign(partitions);
        self.metrics().set_partitions(self.status.owned().len());
    }

    fn unassign(&self, partitions: &[u32]) {
        self.status.unassign(partitions);
        self.metrics().set_partitions(self.status.owned().len());
        self.metrics().clear_partitions(partitions);
    }
}
