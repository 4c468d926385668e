//! Owns the first stage: batches of intake, decoded.
//! Invariants: a record that can't be decoded is never skipped: what stands before it goes on, then its partition
//! stands for good (*halted*), while the others go on; when all of them stand, reading ends. A stint's reading ends
//! too when partitions come or go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use payfold_engines::log::{Delivered, Share, Turn};
use payfold_engines::orders::Folded;
use payfold_schemas::digest::Digest;
use payfold_schemas::record::{FactRecord, Position, decode_fact};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::outage::Outage;
use super::{Halt, RunError, Shared, compute};

/// How often the group is told how far the store is, for people and tools that watch the group's lag.
const ACK_EVERY: Duration = Duration::from_secs(1);

/// A batch of decoded records.
pub(super) struct Decoded {
    pub(super) records: Vec<(Position, FactRecord)>,
    /// The last of them, per partition.
    pub(super) folded: Vec<Folded>,
}

/// The partitions that stand at a record that can't be read, as long as they are this projector's: a share does not go
/// back, so what it delivers of them later must not be folded either.
pub(super) type Halted = BTreeMap<u32, RunError>;

/// Why reading ended.
pub(super) enum Ended {
    /// Told to stop, or the next stage has failed.
    Stopped,
    /// No partition is left that can be read on.
    Halted(RunError),
    /// Partitions come or go.
    Moved(Turn),
}

/// Reads until told to stop, until partitions come or go, or until none can be read on. Errors: `Lost`, the
/// pipeline must not go on with what it has.
pub(super) async fn run(
    shared: &Shared,
    (share, halted): (&mut dyn Share, &mut Halted),
    to_fold: mpsc::Sender<Decoded>,
) -> Result<Ended, Halt> {
    let mut limit = shared.settings.batch_records_max;
    let mut acks = 0_u8;
    let mut times = tokio::time::interval(ACK_EVERY);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let turn = tokio::select! {
            biased;
            () = shared.stopped() => return Ok(Ended::Stopped),
            _ = times.tick(), if acks > 0 => {
                ack(shared, share).await;
                acks = acks.saturating_sub(1);
                continue;
            }
            turn = next(shared, share, limit) => turn?,
        };
        let batch = match turn {
            Turn::Messages(batch) => batch,
            Turn::Lost(partitions) => return Err(Halt::Lost(partitions)),
            moved @ (Turn::Given(_) | Turn::Taken(_)) => return Ok(Ended::Moved(moved)),
        };
        // The last batch may be committed only after the next ack: so one more.
        acks = 2;
        limit = next_limit(shared, &batch);
        let (standing, length) = (halted.keys().copied().collect(), batch.len());
        let (decoded, bad) = compute(length, move || decode(&batch, standing)).await?;
        if !decoded.records.is_empty() && to_fold.send(decoded).await.is_err() {
            // The next stage has failed, and with it the whole.
            return Ok(Ended::Stopped);
        }
        for (partition, error) in bad {
            halted.insert(partition, error.clone());
            shared.metrics.partitions_halted_are(halted.len());
            if shared.status.owned().iter().all(|owned| halted.contains_key(owned)) {
                return Ok(Ended::Halted(error));
            }
            tracing::error!(%error, partition, "a partition of intake is halted; the others go on");
        }
    }
}

/// Tells the group how far the store is. What fails is told again later: nobody's start depends on it.
async fn ack(shared: &Shared, share: &mut dyn Share) {
    let through = shared.status.folded().borrow().clone();
    if let Err(error) = share.ack(through).await {
        tracing::debug!(%error, "the group's place was not remembered");
    }
}

async fn next(shared: &Shared, share: &mut dyn Share, limit: usize) -> Result<Turn, Halt> {
    let mut outage = Outage::none(shared, "read intake");
    loop {
        match share.next(limit).await {
            Ok(turn) => {
                outage.over();
                return Ok(turn);
            }
            Err(error) => outage.wait(error).await?,
        }
    }
}

/// How many records the next batch may have, going by what this one's took.
fn next_limit(shared: &Shared, batch: &[Delivered]) -> usize {
    let bytes = batch.iter().fold(0_usize, |sum, record| sum.saturating_add(record.value.len()));
    let each = bytes.checked_div(batch.len()).unwrap_or(0).max(1);
    let fitting = shared.settings.batch_bytes.checked_div(each).unwrap_or(1);
    fitting.clamp(1, shared.settings.batch_records_max.max(1))
}

/// Decodes a batch, of each partition up to the first record that can't be; nothing of those that stand.
fn decode(batch: &[Delivered], mut standing: BTreeSet<u32>) -> (Decoded, Vec<(u32, RunError)>) {
    let mut records = Vec::with_capacity(batch.len());
    let mut last: Vec<&Delivered> = Vec::new();
    let mut bad = Vec::new();
    for delivered in batch {
        let position = delivered.position;
        if !standing.is_empty() && standing.contains(&position.partition) {
            continue;
        }
        match decode_fact(&delivered.value) {
            Ok(record) => {
                records.push((position, record));
                match last.iter_mut().find(|one| one.position.partition == position.partition) {
                    Some(one) => *one = delivered,
                    None => last.push(delivered),
                }
            }
            Err(error) => {
                standing.insert(position.partition);
                bad.push((position.partition, RunError::Undecodable { position, error }));
            }
        }
    }
    let folded =
        |one: &&Delivered| Folded { position: one.position, digest: Digest::of_bytes(&one.value) };
    (Decoded { records, folded: last.iter().map(folded).collect() }, bad)
}
