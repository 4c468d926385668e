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

/// The word about a record of intake that can't be decoded; none: nobody has said so. Reads what stands behind it, to the
/// end of the log: for the rare case only.
pub async fn find(log: &dyn EventLog, damaged: &Delivered) -> Result<Option<Parked>, EngineError> {
    let epoch = epoch_of(damaged.position.partition);
    let mut places = vec![damaged.position];
    for extent in log.extent(Topic::Intake).await? {
        let of = epoch_of(extent.partition);
        // One partition of each later epoch.
        if of > epoch && !places.iter().any(|place| epoch_of(place.partition) == of) {
            let offset = extent.first.saturating_sub(1);
            places.push(Position { partition: extent.partition, offset });
        }
    }
    for place in places {
        if let Some(parked) = behind(log, place, damaged).await? {
            return Ok(Some(parked));
        }
    }
    Ok(None)
}

async fn behind(
    log: &dyn EventLog,
    mut place: Position,
    damaged: &Delivered,
) -> Result<Option<Parked>, EngineError> {
    loop {
        let page = log.read_after(Topic::Intake, place, PAGE).await?;
        let Some(last) = page.last() else { return Ok(None) };
        place = last.position;
        for message in &page {
            // A second damaged record is not this look's matter.
            if let Ok(IntakeRecord::Parked(parked)) = decode_intake(&message.value)
                && parked.is_of(damaged.position, &damaged.value)
            {
                return Ok(Some(parked));
            }
        }
    }
}
