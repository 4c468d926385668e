//! Owns reading a topic without a group, over all its partitions: page by page, one partition after the other.

use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, EventLog, Extent, Topic};
use payfold_schemas::record::Position;

/// A walk along a topic. Where it stands is kept by partition.
pub struct Walk<'a> {
    log: &'a dyn EventLog,
    topic: Topic,
    places: Vec<Position>,
    /// The partition whose turn it is.
    turn: usize,
    /// Where partitions are left; one that is not here is followed.
    ends: Vec<Position>,
}

impl<'a> Walk<'a> {
    /// From the first message of every partition.
    pub async fn from_the_start(
        log: &'a dyn EventLog,
        topic: Topic,
    ) -> Result<Walk<'a>, EngineError> {
        Ok(Self::from(log, topic, starts(log, topic).await?))
    }

    /// From the first message of every partition to its last as of now, and what is read along with that: beside a running
    /// system there is always more.
    pub async fn to_the_end(log: &'a dyn EventLog, topic: Topic) -> Result<Walk<'a>, EngineError> {
        let extents = log.extent(topic).await?;
        let ends = extents.iter().map(Extent::end).collect();
        Ok(Self { ends, ..Self::from(log, topic, extents.iter().map(before).collect()) })
    }

    /// From these places, one for each partition.
    pub fn from(log: &'a dyn EventLog, topic: Topic, places: Vec<Position>) -> Walk<'a> {
        Self { log, topic, places, turn: 0, ends: Vec::new() }
    }

    /// The next messages of one partition, up to `limit`; none when every partition is at its end for now.
    pub async fn next(&mut self, limit: usize) -> Result<Option<Vec<Delivered>>, EngineError> {
        for _ in 0..self.places.len() {
            let place = &mut self.places[self.turn];
            let page = self.log.read_after(self.topic, *place, limit).await?;
            if let Some(last) = page.last().map(|message| message.position) {
                *place = last;
                let is_end =
                    |end: &Position| end.partition == last.partition && end.offset <= last.offset;
                if self.ends.iter().any(is_end) {
                    self.leave();
                }
                return Ok(Some(page));
            }
            self.turn = (self.turn + 1) % self.places.len();
        }
        Ok(None)
    }

    /// Leaves the partition it reads, whatever is left of it.
    pub fn leave(&mut self) {
        self.places.remove(self.turn);
        if self.turn >= self.places.len() {
            self.turn = 0;
        }
    }
}

/// The place before a partition's first message.
pub fn before(extent: &Extent) -> Position {
    Position { partition: extent.partition, offset: extent.first.saturating_sub(1) }
}

/// Before the first message of every partition of a topic.
pub async fn starts(log: &dyn EventLog, topic: Topic) -> Result<Vec<Position>, EngineError> {
    Ok(log.extent(topic).await?.iter().map(before).collect())
}

/// Where every partition of a topic ends.
pub async fn ends(log: &dyn EventLog, topic: Topic) -> Result<Vec<Position>, EngineError> {
    Ok(log.extent(topic).await?.iter().map(Extent::end).collect())
}

/// From a place on, in the order of partitions: those before it are done, those after it begin at their start.
pub async fn places_after(
    log: &dyn EventLog,
    topic: Topic,
    after: Option<Position>,
) -> Result<Vec<Position>, EngineError> {
    let extents = log.extent(topic).await?;
    let after = after.unwrap_or_default();
    let later = extents.iter().filter(|extent| extent.partition >= after.partition);
    Ok(later
        .map(|extent| if extent.partition == after.partition { after } else { before(extent) })
        .collect())
}
