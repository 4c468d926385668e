//! Owns finding a position in the log without an index. Records are nearly in the order of their
//! receipt, and events are in the order of the records that caused them, so a binary search finds
//! both.

use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, EventLog, Extent, Topic, walk};
use payfold_schemas::event::OrderChanged;
use payfold_schemas::position::Position;
use payfold_schemas::record::{Parts, Record, RecordError};
use payfold_schemas::time::Time;

/// The most damaged records in a row that are skipped.
const DAMAGED_MAX: usize = 15;

/// Why a position was not found.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The engine's error.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A newer program wrote a record.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// A newer program wrote the last record of a partition: this program is too old to read the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {position}: {error}", topic.name())]
pub struct NewerRecord {
    /// The record's topic.
    pub(crate) topic: Topic,
    /// The record's position.
    pub position: Position,
    /// Why it can't be decoded.
    pub error: RecordError,
}

/// How much the receipt times of neighbouring records may be out of order, ms: a record is stamped
/// before it is appended, and an append takes this long at most.
const DISORDER_MS: i64 = 10_000;

/// One position for each partition. Every message received at `time` or later comes after it, and
/// so do a few earlier ones. `findings` is not searched: its partitions are read from the
/// beginning. Errors: the engine's, or a record that a newer program wrote.
pub async fn positions_before(
    log: &dyn EventLog,
    topic: Topic,
    time: Time,
) -> Result<Vec<Position>, SearchError> {
    let earliest = time.plus_ms(-DISORDER_MS);
    match topic {
        Topic::Intake | Topic::Quarantine => {
            last_positions(log, topic, |message| is_before(message, earliest)).await
        }
        Topic::Orders => {
            let records =
                last_positions(log, Topic::Intake, |message| is_before(message, earliest)).await?;
            positions_before_caused(log, &records).await
        }
        Topic::Findings => Ok(walk::starts(log, topic).await?),
    }
}

/// One position for each partition of `orders`. Every event that was caused by a record after
/// `records`, positions of intake, comes after it.
async fn positions_before_caused(
    log: &dyn EventLog,
    records: &[Position],
) -> Result<Vec<Position>, SearchError> {
    let extents = log.extent(Topic::Orders).await?;
    if extents.len() != records.len() {
        // Only where both topics have the same number of partitions is a partition of `orders` in
        // the order of one partition of intake: else everything is read.
        return Ok(extents.iter().map(walk::before).collect());
    }
    last_positions(log, Topic::Orders, |message| {
        // One that no role wrote counts as not before: the caller then reads too much.
        let event = message.authentic_value().ok();
        let event = event.and_then(|value| serde_json::from_slice::<OrderChanged>(value).ok());
        let Some(cause) = event.map(|event| event.cause.position) else { return Ok(false) };
        let of_partition = records.iter().find(|record| record.partition == cause.partition);
        Ok(of_partition.is_none_or(|record| cause.offset <= record.offset))
    })
    .await
}

/// The position of the last message of each partition that is `before`. The messages that are
/// `before` have to come first in their partition.
async fn last_positions(
    log: &dyn EventLog,
    topic: Topic,
    before: impl Fn(&Delivered) -> Result<bool, SearchError>,
) -> Result<Vec<Position>, SearchError> {
    let mut positions = Vec::new();
    for extent in log.extent(topic).await? {
        positions.push(last_position(log, topic, extent, &before).await?);
    }
    Ok(positions)
}

/// The same for one partition, by binary search.
async fn last_position(
    log: &dyn EventLog,
    topic: Topic,
    extent: Extent,
    before: impl Fn(&Delivered) -> Result<bool, SearchError>,
) -> Result<Position, SearchError> {
    let at = |offset| Position { partition: extent.partition, offset };
    let (mut low, mut high) = (extent.first.saturating_sub(1), extent.last);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let inside = match message_at(log, topic, at(middle)).await? {
            Some(message) => before(&message)?,
            None => false,
        };
        if inside { low = middle } else { high = middle - 1 }
    }
    Ok(at(low))
}

/// The message at a position; `None` if there is no message. Errors: the engine's.
pub async fn message_at(
    log: &dyn EventLog,
    topic: Topic,
    position: Position,
) -> Result<Option<Delivered>, EngineError> {
    let Some(before) = position.offset.checked_sub(1) else { return Ok(None) };
    let page = log.read_after(topic, Position { offset: before, ..position }, 1).await?;
    Ok(page.into_iter().next().filter(|message| message.position == position))
}

/// The newest message of each partition that has one. Errors: the engine's.
pub async fn newest_messages(
    log: &dyn EventLog,
    topic: Topic,
) -> Result<Vec<Delivered>, EngineError> {
    let mut newest = Vec::new();
    for extent in log.extent(topic).await? {
        newest.extend(message_at(log, topic, extent.end()).await?);
    }
    Ok(newest)
}

/// Decodes the record of a message; `None` if it is damaged, which the projector and `log verify`
/// report. Errors: a newer program wrote it.
pub fn decode_undamaged(message: &Delivered) -> Result<Option<Record>, RecordError> {
    match message.record() {
        Ok(record) => Ok(Some(record)),
        Err(error) if error.is_newer() => Err(error),
        Err(_) => Ok(None),
    }
}

/// When a record was received; `None` if it is damaged. Errors: a newer program wrote it.
pub fn received_at(message: &Delivered) -> Result<Option<Time>, RecordError> {
    Ok(decode_undamaged(message)?.map(|record| match record.parts {
        Parts::Fact(fact) => fact.received_at,
        Parts::Quarantine(quarantined) => quarantined.received_at,
        Parts::Switch(switch) => switch.at,
        Parts::Parked(parked) | Parts::ParkingProposed(parked) => parked.at,
    }))
}

/// When the first record of intake after a position was received. Damaged ones are skipped; `None`
/// if there is none, or if they are many. Errors: the engine's; a newer program wrote it.
pub async fn oldest_received(
    log: &dyn EventLog,
    after: Position,
) -> Result<Option<Time>, SearchError> {
    for records in [1, DAMAGED_MAX + 1] {
        for message in log.read_after(Topic::Intake, after, records).await? {
            if let Some(received) = received_at(&message)? {
                return Ok(Some(received));
            }
        }
    }
    Ok(None)
}

/// Whether a message was received before `time`. A damaged one counts as not before: the caller
/// then reads too much and misses nothing.
fn is_before(message: &Delivered, time: Time) -> Result<bool, SearchError> {
    Ok(received_at(message)?.is_some_and(|received| received < time))
}

/// The first partition's last record that a newer program wrote, if there is one. Only last records
/// are checked: readers are upgraded before writers, so a newer writer is still at work or was the
/// last. A damaged record is not reported here; the projector reports it. Errors: the engine's.
pub async fn find_newer_record(log: &dyn EventLog) -> Result<Option<NewerRecord>, EngineError> {
    for topic in [Topic::Intake, Topic::Quarantine] {
        for message in newest_messages(log, topic).await? {
            if let Err(error) = message.record()
                && error.is_newer()
            {
                return Ok(Some(NewerRecord { topic, position: message.position, error }));
            }
        }
    }
    Ok(None)
}
