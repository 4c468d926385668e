//! Owns which partitions are this projector's, and for how long.
//!
//! A *stint* is the time between two changes of that: one run of the pipeline with a cache of its own, from the
//! store's progress. Invariants: a partition is let go only when everything read of it is committed; of one that was
//! lost nothing is remembered; a partition begins where the order store says it is folded to, whatever the group
//! acknowledged. So two projectors that hold one partition for a moment write the same rows and events.

use payfold_engines::log::{Share, Topic, Turn};
use payfold_engines::orders::Folded;
use payfold_schemas::chain::Head;

use super::outage::Outage;
use super::read::{Ended, Places};
use super::{Halt, RunError, Shared, pairing, pipeline, turning};

/// Runs stint after stint until told to stop; returns what made the last one end, if it was not that.
pub(super) async fn run(shared: &Shared) -> Result<Option<RunError>, Halt> {
    let mut share = open(shared).await?;
    let mut places = Places::default();
    loop {
        let turn = match pipeline(shared, &mut *share, &mut places).await {
            Ok(Ended::Stopped) => return Ok(None),
            Ok(Ended::Halted(error)) => return Ok(Some(error)),
            Ok(Ended::Standing) => {
                // What was read behind the markers is not kept, and a share does not go back.
                drop(share);
                turning::turn(shared, std::mem::take(&mut places.standing)).await?;
                begin_anew(shared, &mut places);
                share = open(shared).await?;
                continue;
            }
            Ok(Ended::Moved(turn)) => turn,
            Err(Halt::Lost(partitions)) => Turn::Lost(partitions),
            Err(halt) => return Err(halt),
        };
        // Whoever comes to a halted partition next finds its record again.
        places.forget(named(&turn));
        let lost = matches!(turn, Turn::Lost(_));
        moved(shared, (&mut *share, &mut places), turn).await?;
        shared.metrics().partitions_halted_are(places.halted.len());
        let owned = shared.status.owned();
        if lost && !owned.is_empty() {
            // What was in flight of those that stay is gone too, and a share does not go back: all begin anew.
            begin_anew(shared, &mut places);
            drop(share);
            share = open(shared).await?;
            continue;
        }
        if let Some(error) = places.halted.values().next()
            && owned.iter().all(|partition| places.halted.contains_key(partition))
        {
            return Ok(Some(error.clone()));
        }
    }
}

/// Nothing is known of any partition any more.
fn begin_anew(shared: &Shared, places: &mut Places) {
    shared.gone(&shared.status.owned().into_iter().collect::<Vec<_>>());
    *places = Places::default();
}

/// The partitions a change of hands names.
fn named(turn: &Turn) -> &[u32] {
    match turn {
        Turn::Given(partitions) | Turn::Taken(partitions) | Turn::Lost(partitions) => partitions,
        Turn::Messages(_) => &[],
    }
}

async fn open(shared: &Shared) -> Result<Box<dyn Share>, Halt> {
    let mut outage = Outage::none(shared, "subscribe to intake");
    loop {
        match shared.log.share(Topic::Intake, &shared.settings.group).await {
            Ok(share) => {
                outage.over();
                return Ok(share);
            }
            Err(error) => outage.wait(error).await?,
        }
    }
}

/// Takes over what was given, lets go what was taken. The pipeline stands still.
async fn moved(
    shared: &Shared,
    (share, places): (&mut dyn Share, &mut Places),
    turn: Turn,
) -> Result<(), Halt> {
    match turn {
        Turn::Given(partitions) => {
            shared.given(&partitions);
            let folded = pairing::start(shared, &partitions).await?;
            turning::hold(shared, &folded).await?;
            places
                .heads
                .extend(folded.iter().map(|one| (one.position.partition, head(shared, one))));
            places.told.extend(folded.iter().map(|one| (one.position.partition, one.publication)));
            shared.counts_for(partitions.iter().map(|one| places.told(*one)));
            let after: Vec<_> = folded.iter().map(|one| one.position).collect();
            shared.status.advance(after.iter().copied());
            tracing::info!(?partitions, "folding partitions of intake");
            let mut outage = Outage::none(shared, "begin to read intake");
            while let Err(error) = share.begin(after.clone()).await {
                outage.wait(error).await?;
            }
            outage.over();
        }
        Turn::Taken(partitions) => {
            shared.gone(&partitions);
            tracing::info!(
                ?partitions,
                "partitions of intake are handed over, folded and committed"
            );
            let mut outage = Outage::none(shared, "hand partitions over");
            while let Err(error) = share.release().await {
                outage.wait(error).await?;
            }
            outage.over();
        }
        Turn::Lost(partitions) => {
            shared.gone(&partitions);
            tracing::warn!(?partitions, "partitions of intake were lost to another projector");
        }
        Turn::Messages(_) => unreachable!("reading ends a stint with what moved only"),
    }
    Ok(())
}

/// The head a partition goes on from.
fn head(shared: &Shared, folded: &Folded) -> Head {
    let resumed = || Head::resumed(shared.log.id(), folded.position, folded.digest);
    folded.head.unwrap_or_else(resumed)
}

impl Shared {
    fn given(&self, partitions: &[u32]) {
        self.status.given(partitions);
        self.metrics().partitions_are(self.status.owned().len());
    }

    fn gone(&self, partitions: &[u32]) {
        self.status.gone(partitions);
        self.metrics().partitions_are(self.status.owned().len());
        self.metrics().partitions_gone(partitions);
    }
}
