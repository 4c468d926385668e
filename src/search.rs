//! Owns finding a place in the log without an index: records are nearly in order of their receipt, events
//! in the order of the records that caused them, so both are found by halving.

use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, EventLog, Extent, Topic};
use payfold_schemas::event::OrderChanged;
use payfold_schemas::record::{Parts, Position, Record, RecordError};
use payfold_schemas::time::Time;

use crate::error::Fixable;
use crate::walk;

/// Receipt times of neighbours may be out of order by as long as an append can take.
const DISORDER_MS: i64 = 10_000;

/// Places, one for each partition, after which every message received at `time` or later stands (and a few earlier
/// ones). Errors: the engine's, or a record that a newer program wrote.
pub async fn before_time(
    log: &dyn EventLog,
    topic: Topic,
    time: Time,
) -> anyhow::Result<Vec<Position>> {
    let earliest = time.plus_ms(-DISORDER_MS);
    match topic {
        Topic::Intake | Topic::Quarantine => {
            halve(log, topic, |message| is_before(message, earliest)).await
        }
        Topic::Orders => {
            let records = halve(log, Topic::Intake, |message| is_before(message, earliest)).await?;
            before_causes(log, &records).await
        }
        Topic::Findings => Ok(walk::starts(log, topic).await?),
    }
}

/// Places in `orders` after which every event caused by a record after these places of intake stands.
pub async fn before_causes(
    log: &dyn EventLog,
    records: &[Position],
) -> anyhow::Result<Vec<Position>> {
    let extents = log.extent(Topic::Orders).await?;
    if extents.len() != records.len() {
        // A partition of events is in the order of one partition of records only where both topics are cut alike.
        return Ok(extents.iter().map(walk::before).collect());
    }
    halve(log, Topic::Orders, |message| {
        let cause = serde_json::from_slice::<OrderChanged>(&message.value)?.cause.position;
        let of_partition = records.iter().find(|record| record.partition == cause.partition);
        Ok(of_partition.is_none_or(|record| cause.offset <= record.offset))
    })
    .await
}

/// The last place of each partition whose message is `before`, all of them standing at the front.
async fn halve(
    log: &dyn EventLog,
    topic: Topic,
    before: impl Fn(&Delivered) -> anyhow::Result<bool>,
) -> anyhow::Result<Vec<Position>> {
    let mut places = Vec::new();
    for extent in log.extent(topic).await? {
        places.push(halve_one(log, topic, extent, &before).await?);
    }
    Ok(places)
}

async fn halve_one(
    log: &dyn EventLog,
    topic: Topic,
    extent: Extent,
    before: impl Fn(&Delivered) -> anyhow::Result<bool>,
) -> anyhow::Result<Position> {
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

/// The message at a position, if there is one.
pub async fn message_at(
    log: &dyn EventLog,
    topic: Topic,
    position: Position,
) -> Result<Option<Delivered>, EngineError> {
    let Some(before) = position.offset.checked_sub(1) else { return Ok(None) };
    let page = log.read_after(topic, Position { offset: before, ..position }, 1).await?;
    Ok(page.into_iter().next().filter(|message| message.position == position))
}

/// The record of a message; none of a damaged one: whoever folds it, and `log verify`, tell of that. Errors: a newer program
/// wrote it.
pub fn readable(message: &Delivered) -> Result<Option<Record>, RecordError> {
    match Record::decode(&message.value) {
        Ok(record) => Ok(Some(record)),
        Err(error) if error.is_newer() => Err(error),
        Err(_) => Ok(None),
    }
}

/// When a record was received; none of a damaged one. Errors: a newer program wrote it.
pub fn received_at(message: &Delivered) -> Result<Option<Time>, RecordError> {
    Ok(readable(message)?.map(|record| match record.parts {
        Parts::Fact(fact) => fact.received_at,
        Parts::Quarantine(quarantined) => quarantined.received_at,
        Parts::Switch(switch) => switch.at,
        Parts::Parked(parked) => parked.at,
    }))
}

/// Of a damaged record nobody knows: then too much is read, and nothing is missed.
fn is_before(message: &Delivered, time: Time) -> anyhow::Result<bool> {
    Ok(received_at(message)?.is_some_and(|received| received < time))
}

/// Looks whether this program reads what was written last: readers are upgraded before writers. A damaged record is
/// another matter, and for whoever folds it. Errors: the record it does not read.
pub async fn refuse_newer(log: &dyn EventLog) -> anyhow::Result<()> {
    for topic in [Topic::Intake, Topic::Quarantine] {
        for extent in log.extent(topic).await? {
            let Some(message) = message_at(log, topic, extent.end()).await? else { continue };
            if let Err(error) = Record::decode(&message.value)
                && error.is_newer()
            {
                let place = format!("{} {}", topic.name(), message.position);
                return Err(Fixable::error(
                    format!("{place}: {error}"),
                    "run the program that wrote it, or a later one; docs/operations.md, \"Upgrading\"",
                ));
            }
        }
    }
    Ok(())
}
