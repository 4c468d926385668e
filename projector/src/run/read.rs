//! Owns the first stage: batches of intake, decoded, no faster than they are asked for.
//! Invariants: a record that can't be decoded is never skipped unless a person has parked it: what stands before it goes on,
//! then its partition stands for good (*halted*), while the others go on; so it does at a marker that lets this generation be told, or no
//! longer. When all of them stand, reading ends. A stint's reading ends too when partitions come or go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use payfold_engines::log::{Delivered, Share, Turn, parked};
use payfold_engines::orders::Folded;
use payfold_schemas::chain::Head;
use payfold_schemas::digest::Digest;
use payfold_schemas::parked::Parked;
use payfold_schemas::publication::{Publication, Switch};
use payfold_schemas::record::{FactRecord, IntakeRecord, Position, decode_intake};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::MissedTickBehavior;

use super::outage::Outage;
use super::pace::Pace;
use super::{Halt, RunError, Shared, compute};

/// How often the group is told how far the store is, for people and tools that watch the group's lag.
const ACK_EVERY: Duration = Duration::from_secs(1);

/// A batch of decoded records, and its leave to be under way.
pub(super) struct Read {
    pub(super) decoded: Decoded,
    pub(super) leave: OwnedSemaphorePermit,
}

/// A batch of decoded records.
pub(super) struct Decoded {
    pub(super) records: Vec<(Position, FactRecord)>,
    /// The last of them, per partition.
    pub(super) folded: Vec<Folded>,
    /// The number under which a partition's changes are told; one that is not here is folded in silence.
    pub(super) numbers: BTreeMap<u32, u32>,
}

/// Where this projector's partitions stand.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// What is told in each by the last marker; one that is not here has met none.
    pub(super) told: BTreeMap<u32, Publication>,
    /// The head of each one's chain; one that is not here begins.
    pub(super) heads: BTreeMap<u32, Head>,
    /// Those that stand at a record that can't be read, as long as they are this projector's: a share does not go
    /// back, so what it delivers of them later must not be folded either.
    pub(super) halted: BTreeMap<u32, RunError>,
    /// Damaged records that a person has parked.
    parked: BTreeSet<Position>,
    /// Those that stand before a marker.
    pub(super) standing: BTreeMap<u32, Stand>,
}

/// A marker that a partition stands before.
#[derive(Clone, Debug)]
pub(super) struct Stand {
    pub(super) position: Position,
    pub(super) digest: Digest,
    /// The head of the chain with it.
    pub(super) head: Head,
    /// What is told before it.
    pub(super) before: Publication,
    pub(super) switch: Switch,
}

impl Places {
    /// What is told in a partition.
    pub(super) fn told(&self, partition: u32) -> Publication {
        self.told.get(&partition).copied().unwrap_or_default()
    }

    fn stands(&self, partition: u32) -> bool {
        self.halted.contains_key(&partition) || self.standing.contains_key(&partition)
    }

    /// Forgets partitions.
    pub(super) fn forget(&mut self, partitions: &[u32]) {
        for partition in partitions {
            self.told.remove(partition);
            self.heads.remove(partition);
            self.halted.remove(partition);
            self.standing.remove(partition);
        }
    }
}

/// Why reading ended.
pub(super) enum Ended {
    /// Told to stop, or the next stage has failed.
    Stopped,
    /// No partition is left that can be read on.
    Halted(RunError),
    /// Every partition that can be read stands before a marker.
    Standing,
    /// Partitions come or go.
    Moved(Turn),
}

/// Reads until told to stop, until partitions come or go, or until none can be read on. Errors: `Lost`, the
/// pipeline must not go on with what it has.
pub(super) async fn run(
    shared: &Shared,
    (share, places): (&mut dyn Share, &mut Places),
    (under_way, to_fold): (Arc<Semaphore>, mpsc::Sender<Read>),
) -> Result<Ended, Halt> {
    let mut limit = shared.settings.batch_records_max;
    let mut acks = 0_u8;
    let mut times = tokio::time::interval(ACK_EVERY);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pace = Pace::of(shared);
    loop {
        let turn = tokio::select! {
            biased;
            () = shared.stopped() => return Ok(Ended::Stopped),
            _ = times.tick(), if acks > 0 => {
                ack(shared, share).await;
                acks = acks.saturating_sub(1);
                continue;
            }
            turn = next(shared, share, pace.limit(limit)) => turn?,
        };
        if let Turn::Messages(batch) = &turn {
            pace.keep(shared, batch.len()).await;
        }
        let batch = match turn {
            Turn::Messages(batch) => batch,
            Turn::Lost(partitions) => return Err(Halt::Lost(partitions)),
            moved @ (Turn::Given(_) | Turn::Taken(_)) => return Ok(Ended::Moved(moved)),
        };
        // The last batch may be committed only after the next ack: so one more.
        acks = 2;
        limit = next_limit(shared, &batch);
        let leave = Arc::clone(&under_way).acquire_owned().await.expect("it is not closed");
        let (decoded, after) = decode_parked(shared, batch, places).await?;
        if !decoded.folded.is_empty() && to_fold.send(Read { decoded, leave }).await.is_err() {
            // The next stage has failed, and with it the whole.
            return Ok(Ended::Stopped);
        }
        let halted_before = std::mem::replace(places, after).halted;
        for (partition, error) in &places.halted {
            if !halted_before.contains_key(partition) {
                tracing::error!(%error, partition, "a partition of intake is halted");
            }
        }
        shared.metrics().partitions_halted_are(places.halted.len());
        if shared.status.owned().iter().all(|owned| places.stands(*owned)) {
            return Ok(match places.halted.values().next() {
                Some(error) if places.standing.is_empty() => Ended::Halted(error.clone()),
                Some(_) | None => Ended::Standing,
            });
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

/// Decodes a batch; where it stops at a damaged record that a person has parked, goes on behind it.
async fn decode_parked(
    shared: &Shared,
    batch: Vec<Delivered>,
    places: &mut Places,
) -> Result<(Decoded, Places), Halt> {
    let of = (shared.log.id(), shared.settings.tables);
    let batch = Arc::new(batch);
    loop {
        let (batch_there, before) = (Arc::clone(&batch), places.clone());
        let (decoded, after) =
            compute(batch.len(), move || decode(&batch_there, before, of)).await?;
        let known = places.parked.len();
        for damaged in damaged(&batch, &after) {
            let Some(parked) = parked(shared, damaged).await? else { continue };
            let Parked { parked: position, author, reason, at, .. } = parked;
            tracing::warn!(
                "record {position} of intake can't be read and is left out: {author} parked it at {at}: {reason}"
            );
            places.parked.insert(position);
        }
        if places.parked.len() == known {
            return Ok((decoded, after));
        }
    }
}

/// The records of a batch that partitions stand at because they are damaged.
fn damaged<'b>(batch: &'b [Delivered], places: &Places) -> Vec<&'b Delivered> {
    let of = |error: &RunError| match error {
        RunError::Undecodable { position, error } if !error.is_newer() => Some(*position),
        RunError::Undecodable { .. } | RunError::Unpaired(_) | RunError::Engine { .. } => None,
    };
    let positions: Vec<Position> = places.halted.values().filter_map(of).collect();
    batch.iter().filter(|one| positions.contains(&one.position)).collect()
}

/// The word that a record is parked, if there was one when it was met first: whoever parks one starts its readers again.
async fn parked(shared: &Shared, damaged: &Delivered) -> Result<Option<Parked>, Halt> {
    let position = damaged.position;
    if lock(&shared.unparked).contains(&position) {
        return Ok(None);
    }
    let mut outage = Outage::none(shared, "look whether a damaged record is parked");
    let found = loop {
        let found = tokio::select! {
            () = shared.stopped() => return Err(Halt::Stopped),
            found = parked::find(&*shared.log, damaged) => found,
        };
        match found {
            Ok(found) => break found,
            Err(error) => outage.wait(error).await?,
        }
    };
    outage.over();
    if found.is_none() {
        lock(&shared.unparked).insert(position);
    }
    Ok(found)
}

fn lock(positions: &Mutex<BTreeSet<Position>>) -> MutexGuard<'_, BTreeSet<Position>> {
    positions.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Decodes a batch, of each partition up to the first record that can't be or the marker that concerns these tables;
/// nothing of those that stand. Returns where they stand then.
fn decode(
    batch: &[Delivered],
    mut places: Places,
    (log_id, tables): ([u8; 16], u32),
) -> (Decoded, Places) {
    let mut records = Vec::with_capacity(batch.len());
    let mut last: BTreeMap<u32, &Delivered> = BTreeMap::new();
    let numbers = (batch.iter().map(|delivered| delivered.position.partition))
        .filter(|partition| places.told(*partition).tables == tables)
        .map(|partition| (partition, places.told(partition).number))
        .collect();
    for delivered in batch {
        let position = delivered.position;
        if places.stands(position.partition) {
            continue;
        }
        let before = places.heads.get(&position.partition).copied();
        let before = before.unwrap_or_else(|| Head::genesis(log_id, position.partition));
        let head = before.after(position, &delivered.key, &delivered.value);
        match decode_intake(&delivered.value) {
            Ok(IntakeRecord::Fact(record)) => records.push((position, record)),
            Ok(IntakeRecord::Switch(switch)) => {
                let before = places.told(position.partition);
                let next = switch.publication;
                if next.number > before.number && [before.tables, next.tables].contains(&tables) {
                    let digest = Digest::of_bytes(&delivered.value);
                    let stand = Stand { position, digest, head, before, switch };
                    places.standing.insert(position.partition, stand);
                    continue;
                }
                // A marker may be written twice; one that was there before means nothing.
                if next.number > before.number {
                    places.told.insert(position.partition, next);
                }
            }
            // It is of use to those who find it behind a damaged record.
            Ok(IntakeRecord::Parked(_)) => {}
            Err(_) if places.parked.contains(&position) => {}
            Err(error) => {
                let error = RunError::Undecodable { position, error };
                places.halted.insert(position.partition, error);
                continue;
            }
        }
        places.heads.insert(position.partition, head);
        last.insert(position.partition, delivered);
    }
    let folded = |(partition, one): (&u32, &&Delivered)| Folded {
        publication: places.told(*partition),
        head: places.heads.get(partition).copied(),
        ..Folded::new(one.position, Digest::of_bytes(&one.value))
    };
    (Decoded { records, folded: last.iter().map(folded).collect(), numbers }, places)
}
