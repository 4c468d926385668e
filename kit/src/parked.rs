//! Owns finding parking markers: by one, two people decide that readers skip a damaged record of
//! intake. Before it the first of them proposes that, by a marker that no reader acts on. A marker
//! is in every partition of the log epoch that was the newest when it was written: the record's own
//! epoch, where it follows the record, or a later one. Invariant: a marker parks a record only if
//! both its position and the digest of its bytes match.

#[cfg(test)]
mod tests;

use payfold_engines::EngineError;
use payfold_engines::log::epoch::epoch_of;
use payfold_engines::log::{Delivered, EventLog, Message, Topic, walk};
use payfold_schemas::parked::Parked;
use payfold_schemas::position::Position;
use payfold_schemas::record::{IntakeRecord, MARKER_KEY, encode_parked, encode_parking_proposed};

/// Messages read at once.
const PAGE: usize = 1_024;

/// A part of one partition: the messages after `after`, up to and including offset `last`.
struct MessageRange {
    after: Position,
    last: u64,
}

/// The parking marker as a message, to be appended to every partition of intake's newest epoch.
pub fn marker_message(parked: &Parked) -> Message {
    message_of(encode_parked(parked))
}

/// A proposal to park as a message, to be appended in the same way.
pub fn proposal_message(parked: &Parked) -> Message {
    message_of(encode_parking_proposed(parked))
}

fn message_of(value: Vec<u8>) -> Message {
    Message { key: MARKER_KEY.to_owned(), event: None, value, mac: None }
}

/// The marker that parks a record of intake which can't be decoded; `None` if the record is not
/// parked. Reads the rest of the record's partition and one whole partition of each later epoch, up
/// to the end the log has when this begins, so it is for the rare case only. Errors: the engine's.
pub async fn find_marker(
    log: &dyn EventLog,
    damaged: &Delivered,
) -> Result<Option<Parked>, EngineError> {
    Ok(find_markers(log, damaged, parked).await?.into_iter().next())
}

/// The proposals to park a record, read in the same way; a person may have made several. Errors:
/// the engine's.
pub async fn find_proposals(
    log: &dyn EventLog,
    damaged: &Delivered,
) -> Result<Vec<Parked>, EngineError> {
    find_markers(log, damaged, proposed).await
}

async fn find_markers(
    log: &dyn EventLog,
    damaged: &Delivered,
    choose: MarkerChoice,
) -> Result<Vec<Parked>, EngineError> {
    let own = damaged.position.partition;
    let mut ranges = Vec::new();
    for extent in log.extent(Topic::Intake).await? {
        if extent.partition == own {
            ranges.push(MessageRange { after: damaged.position, last: extent.last });
        }
    }
    ranges.extend(one_partition_per_epoch(log, Some(epoch_of(own))).await?);
    let mut markers = read_markers(log, ranges, choose).await?;
    markers.retain(|marker| marker.is_of(damaged.position, &damaged.value));
    Ok(markers)
}

/// Takes a marker of one kind out of a record.
type MarkerChoice = fn(IntakeRecord) -> Option<Parked>;

fn parked(record: IntakeRecord) -> Option<Parked> {
    if let IntakeRecord::Parked(parked) = record { Some(parked) } else { None }
}

fn proposed(record: IntakeRecord) -> Option<Parked> {
    if let IntakeRecord::ParkingProposed(parked) = record { Some(parked) } else { None }
}

/// All parking markers of the log, for a caller that reads the whole log. Errors: the engine's.
pub async fn read_all_markers(log: &dyn EventLog) -> Result<Vec<Parked>, EngineError> {
    let ranges = one_partition_per_epoch(log, None).await?;
    read_markers(log, ranges, parked).await
}

/// The whole of one partition of each epoch, of the epochs after `after` only if that is given. One
/// partition is enough, because a marker is written to every partition of an epoch.
async fn one_partition_per_epoch(
    log: &dyn EventLog,
    after: Option<u32>,
) -> Result<Vec<MessageRange>, EngineError> {
    let mut ranges: Vec<MessageRange> = Vec::new();
    for extent in log.extent(Topic::Intake).await? {
        let epoch = epoch_of(extent.partition);
        let is_known = ranges.iter().any(|range| epoch_of(range.after.partition) == epoch);
        if after.is_none_or(|after| epoch > after) && !is_known {
            ranges.push(MessageRange { after: walk::before(&extent), last: extent.last });
        }
    }
    Ok(ranges)
}

async fn read_markers(
    log: &dyn EventLog,
    ranges: Vec<MessageRange>,
    choose: MarkerChoice,
) -> Result<Vec<Parked>, EngineError> {
    let mut markers = Vec::new();
    for MessageRange { mut after, last } in ranges {
        while after.offset < last {
            let page = log.read_after(Topic::Intake, after, PAGE).await?;
            let Some(end) = page.last() else { break };
            after = end.position;
            for message in &page {
                // Records that can't be decoded are passed over: only markers are searched for.
                markers.extend(message.intake_record().ok().and_then(choose));
            }
        }
    }
    Ok(markers)
}

/// The parked records of a log, for a caller that reads the whole log. The markers are read once,
/// when the first damaged record is met, because most logs have neither.
#[derive(Default)]
pub struct ParkedRecords(Option<Vec<Parked>>);

impl ParkedRecords {
    /// Whether this record is parked. Errors: the engine's.
    pub async fn contain(
        &mut self,
        log: &dyn EventLog,
        message: &Delivered,
    ) -> Result<bool, EngineError> {
        if self.0.is_none() {
            self.0 = Some(read_all_markers(log).await?);
        }
        let mut markers = self.0.iter().flatten();
        Ok(markers.any(|marker| marker.is_of(message.position, &message.value)))
    }
}
