//! Owns the first stage: batches of intake, decoded.
//! Invariant: a record that can't be decoded is never skipped: what stands before it in its batch goes on, then
//! reading ends for good.

use payfold_engines::log::{Delivered, Start, Subscription, Topic};
use payfold_engines::orders::Folded;
use payfold_schemas::digest::Digest;
use payfold_schemas::record::{FactRecord, Position, decode_fact};
use tokio::sync::mpsc;

use super::outage::Outage;
use super::{Halt, RunError, Shared, compute};

/// A batch of decoded records.
pub(super) struct Decoded {
    pub(super) records: Vec<(Position, FactRecord)>,
    /// The last of them, per partition.
    pub(super) folded: Vec<Folded>,
}

/// Reads until told to stop, or until a record can't be read: then returns why.
pub(super) async fn run(
    shared: &Shared,
    start: Vec<Position>,
    to_fold: mpsc::Sender<Decoded>,
) -> Result<Option<RunError>, Halt> {
    let mut intake = subscribe(shared, start).await?;
    let mut limit = shared.settings.batch_records_max;
    loop {
        let batch = tokio::select! {
            biased;
            () = shared.stopped() => return Ok(None),
            batch = next_batch(shared, &mut *intake, limit) => batch?,
        };
        limit = next_limit(shared, &batch);
        let (decoded, bad) = compute(batch.len(), move || decode(&batch)).await?;
        if !decoded.records.is_empty() && to_fold.send(decoded).await.is_err() {
            // The next stage has failed, and with it the whole.
            return Ok(None);
        }
        if let Some(error) = bad {
            return Ok(Some(error));
        }
    }
}

async fn subscribe(shared: &Shared, start: Vec<Position>) -> Result<Box<dyn Subscription>, Halt> {
    let mut outage = Outage::none(shared, "subscribe to intake");
    loop {
        let start = Start::After(start.clone());
        match shared.log.subscribe(Topic::Intake, &shared.settings.group, start).await {
            Ok(intake) => {
                outage.over();
                return Ok(intake);
            }
            Err(error) => outage.wait(error).await?,
        }
    }
}

async fn next_batch(
    shared: &Shared,
    intake: &mut dyn Subscription,
    limit: usize,
) -> Result<Vec<Delivered>, Halt> {
    let mut outage = Outage::none(shared, "read intake");
    loop {
        match intake.next_batch(limit).await {
            Ok(batch) => {
                outage.over();
                return Ok(batch);
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

/// Decodes a batch up to the first record that can't be.
fn decode(batch: &[Delivered]) -> (Decoded, Option<RunError>) {
    let mut records = Vec::with_capacity(batch.len());
    let mut bad = None;
    for delivered in batch {
        match decode_fact(&delivered.value) {
            Ok(record) => records.push((delivered.position, record)),
            Err(error) => {
                bad = Some(RunError::Undecodable { position: delivered.position, error });
                break;
            }
        }
    }
    let folded = last_of_each_partition(&batch[..records.len()]);
    (Decoded { records, folded }, bad)
}

fn last_of_each_partition(batch: &[Delivered]) -> Vec<Folded> {
    let mut folded: Vec<Folded> = Vec::new();
    for delivered in batch.iter().rev() {
        let position = delivered.position;
        if folded.iter().all(|known| known.position.partition != position.partition) {
            folded.push(Folded { position, digest: Digest::of_bytes(&delivered.value) });
        }
    }
    folded
}
