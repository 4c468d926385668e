//! Owns the first stage: reads and decodes batches of intake, no faster than the next stage takes
//! them.
//!
//! Invariants:
//! - A record that can't be decoded is never skipped unless a person has parked it. The records
//!   before it go on to the next stage. Then its partition stays *halted*; the others go on.
//! - A partition also stops at a marker that starts or ends the publication of this build.
//! - Reading ends once every partition is halted, has reached such a marker, or is past the markers
//!   that others have reached.
//! - Reading ends at a rebalance, too, and with it the assignment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use payfold_engines::SeamFuture;
use payfold_engines::log::{AssignedReader, Delivered, ReaderOutput, Rebalance};
use payfold_engines::orders::Folded;
use payfold_kit::{RunError, parked};
use payfold_schemas::chain::Head;
use payfold_schemas::digest::Digest;
use payfold_schemas::parked::Parked;
use payfold_schemas::position::Position;
use payfold_schemas::publication::{Publication, Switch};
use payfold_schemas::record::{FactRecord, IntakeRecord};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::MissedTickBehavior;

use super::compute::compute;
use super::error::Halt;
use super::pace::Pace;
use super::shared::Shared;
use crate::lock::lock;

/// The effect of a record that can't be decoded, as the error states it.
const HALTED: &str = "its partition is halted there";

/// How often the store's progress is acknowledged to the group, for people and tools that watch the
/// group's lag.
const ACK_EVERY: Duration = Duration::from_secs(1);

/// A decoded batch and its permit.
pub(super) struct ReadBatch {
    pub(super) decoded: DecodedBatch,
    /// Counts the batch among those in flight until it is committed.
    pub(super) permit: OwnedSemaphorePermit,
}

/// A batch of decoded records.
pub(super) struct DecodedBatch {
    pub(super) records: Vec<(Position, FactRecord)>,
    /// The last record of each partition.
    pub(super) folded: Vec<Folded>,
    /// The publication epoch of each partition that is published from this build. The others are
    /// folded and not published.
    pub(super) epochs: BTreeMap<u32, u32>,
}

/// What is known of the partitions this projector reads.
#[derive(Clone, Debug, Default)]
pub(super) struct PartitionStates {
    /// What is published in each assigned partition.
    pub(super) publications: BTreeMap<u32, Publication>,
    /// The head of each partition's chain. A partition that begins its chain is missing.
    pub(super) heads: BTreeMap<u32, Head>,
    /// The partitions that are halted at a record that can't be read, while they are this
    /// projector's. A reader does not go back, so nothing it delivers of them later is folded.
    pub(super) halted: BTreeMap<u32, RunError>,
    /// Damaged records that a person has parked.
    parked: BTreeSet<Position>,
    /// The partitions that have reached a marker and not passed it.
    pub(super) at_marker: BTreeMap<u32, ReachedMarker>,
}

/// A marker that a partition has reached and not passed.
#[derive(Clone, Debug)]
pub(super) struct ReachedMarker {
    pub(super) position: Position,
    pub(super) digest: Digest,
    /// The head of the chain, the marker included.
    pub(super) head: Head,
    /// What is published up to the marker.
    pub(super) before: Publication,
    pub(super) switch: Switch,
}

impl PartitionStates {
    /// What is published in a partition.
    pub(super) fn publication(&self, partition: u32) -> Publication {
        self.publications.get(&partition).copied().unwrap_or_default()
    }

    fn is_stopped(&self, partition: u32) -> bool {
        self.halted.contains_key(&partition) || self.at_marker.contains_key(&partition)
    }

    /// How reading ends, once none of these partitions can be read on: each is halted, has reached
    /// a marker, or is past the markers that others have reached. A partition past them meets no
    /// further marker before the others pass theirs, so nothing waits for it.
    fn ended(&self, owned: &BTreeSet<u32>) -> Option<Ended> {
        let newest = self.at_marker.values().map(|marker| marker.switch.publication.epoch).max();
        let is_done = |partition: u32| {
            self.is_stopped(partition)
                || newest.is_some_and(|newest| self.publication(partition).epoch >= newest)
        };
        if !owned.iter().all(|partition| is_done(*partition)) {
            return None;
        }
        match (newest, self.halted.values().next()) {
            (Some(_), _) => Some(Ended::AtMarkers),
            (None, error) => error.cloned().map(Ended::Halted),
        }
    }

    /// Forgets what is known of partitions that are no longer this projector's.
    pub(super) fn forget(&mut self, partitions: &[u32]) {
        for partition in partitions {
            self.publications.remove(partition);
            self.heads.remove(partition);
            self.halted.remove(partition);
            self.at_marker.remove(partition);
        }
    }
}

/// Why reading ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The projector was signalled to stop, or the next stage has failed.
    Stopped,
    /// No partition is left that can be read on.
    Halted(RunError),
    /// Every partition that can be read has reached a marker or is past it.
    AtMarkers,
    /// Partitions were assigned or revoked.
    Rebalanced(Rebalance),
}

/// Reads until the projector is signalled to stop, until a rebalance, or until no partition can be
/// read on. Errors: `Lost`, and the batches in flight must be dropped.
pub(super) async fn run(
    shared: &Shared,
    (reader, states): (&mut dyn AssignedReader, &mut PartitionStates),
    (in_flight, to_fold): (Arc<Semaphore>, mpsc::Sender<ReadBatch>),
) -> Result<Ended, Halt> {
    let mut limit = shared.settings.batch_records_max;
    let mut acks = 0_u8;
    let mut times = tokio::time::interval(ACK_EVERY);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pace = Pace::new(shared);
    loop {
        // Before each read and not after it: a rebalance changes the answer, too, and a read may
        // wait for ever if nothing more is appended.
        if let Some(ended) = states.ended(&shared.status.owned()) {
            return Ok(ended);
        }
        let output = tokio::select! {
            biased;
            () = shared.stopped() => return Ok(Ended::Stopped),
            _ = times.tick(), if acks > 0 => {
                ack(shared, reader).await;
                acks = acks.saturating_sub(1);
                continue;
            }
            output = read_next(shared, reader, pace.limit(limit)) => output?,
        };
        let batch = match output {
            ReaderOutput::Messages(batch) => batch,
            ReaderOutput::Rebalance(Rebalance::Lost(partitions)) => {
                return Err(Halt::Lost(partitions));
            }
            ReaderOutput::Rebalance(rebalance) => return Ok(Ended::Rebalanced(rebalance)),
        };
        pace.wait_after(shared, batch.len()).await;
        // Two, because the last batch may be committed only after the next ack.
        acks = 2;
        limit = next_limit(shared, &batch);
        let permit = Arc::clone(&in_flight).acquire_owned().await.expect("it is not closed");
        let (decoded, after) = decode_parked(shared, batch, states).await?;
        if !decoded.folded.is_empty() && to_fold.send(ReadBatch { decoded, permit }).await.is_err()
        {
            // The next stage has failed; the pipeline returns its error.
            return Ok(Ended::Stopped);
        }
        let halted_before = std::mem::replace(states, after).halted;
        for (partition, error) in &states.halted {
            if !halted_before.contains_key(partition) {
                tracing::error!(%error, partition, "a partition of intake is halted");
            }
        }
        shared.metrics().set_partitions_halted(states.halted.len());
    }
}

/// Acknowledges the store's progress to the group. A failure is not retried at once: the next
/// acknowledgement covers it, and no projector starts from what the group acknowledged.
async fn ack(shared: &Shared, reader: &mut dyn AssignedReader) {
    let through = shared.status.folded().borrow().clone();
    if let Err(error) = reader.ack(through).await {
        tracing::debug!(%error, "the store's progress was not acknowledged to the group");
    }
}

async fn read_next(
    shared: &Shared,
    reader: &mut dyn AssignedReader,
    limit: usize,
) -> Result<ReaderOutput, Halt> {
    let mut outage = shared.outage("read intake");
    loop {
        match reader.next(limit).await {
            Ok(output) => {
                outage.over();
                return Ok(output);
            }
            Err(error) => outage.wait(error).await?,
        }
    }
}

/// How many records the next batch may have, by the average size of this batch's records.
fn next_limit(shared: &Shared, batch: &[Delivered]) -> usize {
    let bytes = batch.iter().fold(0_usize, |sum, record| sum.saturating_add(record.value.len()));
    let each = bytes.checked_div(batch.len()).unwrap_or(0).max(1);
    let fitting = shared.settings.batch_bytes.checked_div(each).unwrap_or(1);
    fitting.clamp(1, shared.settings.batch_records_max.max(1))
}

/// Decodes a batch. Goes on after a damaged record if a person has parked it.
async fn decode_parked(
    shared: &Shared,
    batch: Vec<Delivered>,
    states: &mut PartitionStates,
) -> Result<(DecodedBatch, PartitionStates), Halt> {
    let (log_id, build) = (shared.log.id(), shared.settings.build);
    let batch = Arc::new(batch);
    loop {
        let (input, before) = (Arc::clone(&batch), states.clone());
        let (decoded, after) =
            compute(batch.len(), move || decode(&input, before, (log_id, build))).await?;
        let known = states.parked.len();
        for damaged in damaged(&batch, &after) {
            let Some(parked) = find_parked(shared, damaged).await? else { continue };
            let (position, people) = (parked.parked, parked.people());
            tracing::warn!(
                "record {position} of intake can't be read and is left out: \
                 {people} parked it at {}: {}",
                parked.at,
                parked.reason
            );
            states.parked.insert(position);
        }
        if states.parked.len() == known {
            return Ok((decoded, after));
        }
    }
}

/// The damaged records of a batch at which partitions are halted.
fn damaged<'b>(batch: &'b [Delivered], states: &PartitionStates) -> Vec<&'b Delivered> {
    let damaged_position = |error: &RunError| match error {
        RunError::Undecodable { position, error, .. } if !error.is_newer() => Some(*position),
        RunError::Undecodable { .. }
        | RunError::Unpaired(_)
        | RunError::Unsealed(_)
        | RunError::Engine { .. } => None,
    };
    let positions: Vec<Position> = states.halted.values().filter_map(damaged_position).collect();
    batch.iter().filter(|one| positions.contains(&one.position)).collect()
}

/// The note that a damaged record is parked; `None` if there was none when the record was first
/// read. After parking a record, a person restarts its readers.
async fn find_parked(shared: &Shared, damaged: &Delivered) -> Result<Option<Parked>, Halt> {
    let position = damaged.position;
    if lock(&shared.unparked).contains(&position) {
        return Ok(None);
    }
    let outage = shared.outage("check whether a damaged record is parked");
    let ask = || -> SeamFuture<'_, _, _> { Box::pin(parked::find_marker(&*shared.log, damaged)) };
    let found = tokio::select! {
        () = shared.stopped() => return Err(Halt::Stopped),
        found = outage.ask(ask) => found?,
    };
    if found.is_none() {
        lock(&shared.unparked).insert(position);
    }
    Ok(found)
}

/// Decodes a batch: of each partition up to the first record that can't be decoded, or up to the
/// marker that starts or ends the publication of this build; nothing of the partitions that are
/// stopped. Returns the states after it.
fn decode(
    batch: &[Delivered],
    mut states: PartitionStates,
    (log_id, build): ([u8; 16], u32),
) -> (DecodedBatch, PartitionStates) {
    let mut records = Vec::with_capacity(batch.len());
    let mut last: BTreeMap<u32, &Delivered> = BTreeMap::new();
    let epochs = (batch.iter().map(|delivered| delivered.position.partition))
        .filter(|partition| states.publication(*partition).build == build)
        .map(|partition| (partition, states.publication(partition).epoch))
        .collect();
    for delivered in batch {
        let position = delivered.position;
        if states.is_stopped(position.partition) {
            continue;
        }
        let before = states.heads.get(&position.partition).copied();
        let before = before.unwrap_or_else(|| Head::genesis(log_id, position.partition));
        let head = before.after(position, &delivered.key, &delivered.value);
        match delivered.intake_record() {
            Ok(IntakeRecord::Fact(record)) => records.push((position, record)),
            Ok(IntakeRecord::Switch(switch)) => {
                let before = states.publication(position.partition);
                let next = switch.publication;
                if next.epoch > before.epoch && [before.build, next.build].contains(&build) {
                    let digest = Digest::of_bytes(&delivered.value);
                    let marker = ReachedMarker { position, digest, head, before, switch };
                    let earlier = states.at_marker.insert(position.partition, marker);
                    assert!(earlier.is_none(), "nothing is read behind a marker that is reached");
                    continue;
                }
                // A marker may be written twice; the second copy changes nothing.
                if next.epoch > before.epoch {
                    states.publications.insert(position.partition, next);
                }
            }
            // `find_parked` reads it when it meets the damaged record.
            Ok(IntakeRecord::Parked(_) | IntakeRecord::ParkingProposed(_)) => {}
            Err(_) if states.parked.contains(&position) => {}
            Err(error) => {
                let error = RunError::Undecodable { position, error, halted: HALTED };
                states.halted.insert(position.partition, error);
                continue;
            }
        }
        states.heads.insert(position.partition, head);
        last.insert(position.partition, delivered);
    }
    let folded = |(partition, one): (&u32, &&Delivered)| Folded {
        publication: states.publication(*partition),
        head: states.heads.get(partition).copied(),
        ..Folded::new(one.position, Digest::of_bytes(&one.value))
    };
    (DecodedBatch { records, folded: last.iter().map(folded).collect(), epochs }, states)
}

#[cfg(test)]
mod tests {
    use payfold_engines::clock::{Clock, SystemClock};

    use super::*;

    fn reached_marker(partition: u32, epoch: u32) -> ReachedMarker {
        let position = Position { partition, offset: 113 };
        let (digest, head) = (Digest::of_bytes(b""), Head::genesis([0; 16], partition));
        let publication = Publication { epoch, build: 3 };
        let switch =
            Switch { publication, request_id: SystemClock.request_id(), at: SystemClock.now() };
        ReachedMarker { position, digest, head, before: Publication::default(), switch }
    }

    /// Whether reading ends. `past` is the epoch of the last marker passed by the partitions 0 to
    /// 2; `reached` holds partitions and the epochs of the markers they have reached.
    fn ends(past: [u32; 3], reached: &[(u32, u32)], owned: &[u32]) -> bool {
        let publications = (0..).zip(past.map(|epoch| Publication { epoch, build: 3 })).collect();
        let at_marker = reached.iter().map(|(at, epoch)| (*at, reached_marker(*at, *epoch)));
        let at_marker = at_marker.collect();
        let states = PartitionStates { publications, at_marker, ..PartitionStates::default() };
        states.ended(&owned.iter().copied().collect()).is_some()
    }

    #[test]
    fn a_partition_past_a_marker_delays_the_cutover_of_no_other_partition() {
        for (past, reached, owned, expected) in [
            ([3, 3, 3], &[][..], &[0, 1, 2][..], false),
            ([3, 3, 3], &[(1, 4)], &[0, 1, 2], false),
            ([3, 3, 3], &[(0, 4), (1, 4), (2, 4)], &[0, 1, 2], true),
            // The projector passed the marker of 0 while it owned 0 alone.
            ([4, 3, 3], &[(1, 4), (2, 4)], &[0, 1, 2], true),
            ([4, 3, 3], &[(1, 4)], &[0, 1, 2], false),
            ([4, 3, 3], &[(1, 4), (2, 5)], &[0, 1, 2], false),
            // The partitions that could be read on belong to another projector now.
            ([3, 3, 3], &[(1, 4)], &[1], true),
            ([3, 3, 3], &[], &[], false),
        ] {
            assert_eq!(ends(past, reached, owned), expected, "{past:?} {reached:?} {owned:?}");
        }
    }
}
