//! Owns which partitions are this projector's, and for how long.
//!
//! A *stint* is the time between two changes of that: one run of the pipeline with a cache of its own, from the
//! store's progress. Invariants: a partition is let go only when everything read of it is committed; of one that was
//! lost nothing is remembered; a partition begins where the order store says it is folded to, whatever the group
//! acknowledged. So two projectors that hold one partition for a moment write the same rows and events.

use payfold_engines::log::{Share, Topic, Turn};

use super::outage::Outage;
use super::read::Ended;
use super::{Halt, RunError, Shared, pairing, pipeline};

/// Runs stint after stint until told to stop; returns what made the last one end, if it was not that.
pub(super) async fn run(shared: &Shared) -> Result<Option<RunError>, Halt> {
    let mut share = open(shared).await?;
    loop {
        let turn = match pipeline(shared, &mut *share).await {
            Ok(Ended::Stopped) => return Ok(None),
            Ok(Ended::Halted(error)) => return Ok(Some(error)),
            Ok(Ended::Moved(turn)) => turn,
            Err(Halt::Lost(partitions)) => Turn::Lost(partitions),
            Err(halt) => return Err(halt),
        };
        moved(shared, &mut *share, turn).await?;
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
async fn moved(shared: &Shared, share: &mut dyn Share, turn: Turn) -> Result<(), Halt> {
    match turn {
        Turn::Given(partitions) => {
            shared.status.given(&partitions);
            let after = pairing::start(shared, &partitions).await?;
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

impl Shared {
    fn gone(&self, partitions: &[u32]) {
        self.status.gone(partitions);
        self.metrics.partitions_gone(partitions);
    }
}
