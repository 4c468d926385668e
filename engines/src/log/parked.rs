//! Owns a person's word that a damaged record is left out, as it stands in intake, and the look for it. It stands behind the record: in its own partition,
//! and where the log has gone on in a later epoch, in every partition of that.
//! Invariant: only a word about these very bytes at this place counts.

use payfold_schemas::parked::Parked;
use payfold_schemas::record::{IntakeRecord, Position, decode_intake, encode_parked};

use super::epoch::epoch_of;
use super::{Delivered, EventLog, Message, Topic};
use crate::EngineError;
use crate::generations::MARKER_KEY;

const PAGE: usize = 1_024;

/// What is written into every partition to leave a damaged record out.
pub fn marker(parked: &Parked) -> Message {
    Message { key: MARKER_KEY.to_owned(), event: None, value: encode_parked(parked) }
}

/// The word about a record of intake that can't be decoded; none: nobody has said so. Reads what stands behind it, as far as
/// the log reaches when this begins: for the rare case only.
pub async fn find(log: &dyn EventLog, damaged: &Delivered) -> Result<Option<Parked>, EngineError> {
    let own = damaged.position.partition;
    let mut places = Vec::new();
    for extent in log.extent(Topic::Intake).await? {
        if extent.partition == own {
            places.push((damaged.position, extent.last));
        }
    }
    places.extend(one_of_each_epoch(log, Some(epoch_of(own))).await?);
    let words = read(log, places).await?;
    Ok(words.into_iter().find(|word| word.is_of(damaged.position, &damaged.value)))
}

/// Every word there is, for whoever reads all of the log.
pub async fn all(log: &dyn EventLog) -> Result<Vec<Parked>, EngineError> {
    let places = one_of_each_epoch(log, None).await?;
    read(log, places).await
}

/// One partition of each epoch after this one, or of all, from its begin to its end: every word stands in each.
async fn one_of_each_epoch(
    log: &dyn EventLog,
    after: Option<u32>,
) -> Result<Vec<(Position, u64)>, EngineError> {
    let mut places: Vec<(Position, u64)> = Vec::new();
    for extent in log.extent(Topic::Intake).await? {
        let epoch = epoch_of(extent.partition);
        let is_known = places.iter().any(|(place, _)| epoch_of(place.partition) == epoch);
        if after.is_none_or(|after| epoch > after) && !is_known {
            let offset = extent.first.saturating_sub(1);
            places.push((Position { partition: extent.partition, offset }, extent.last));
        }
    }
    Ok(places)
}

/// The words behind these places, each to its last offset.
async fn read(
    log: &dyn EventLog,
    places: Vec<(Position, u64)>,
) -> Result<Vec<Parked>, EngineError> {
    let mut words = Vec::new();
    for (mut place, last) in places {
        while place.offset < last {
            let page = log.read_after(Topic::Intake, place, PAGE).await?;
            let Some(end) = page.last() else { break };
            place = end.position;
            for message in &page {
                // A second damaged record is not this look's matter.
                if let Ok(IntakeRecord::Parked(parked)) = decode_intake(&message.value) {
                    words.push(parked);
                }
            }
        }
    }
    Ok(words)
}
