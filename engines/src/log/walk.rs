//! Owns reading all partitions of a topic outside any group: page by page, one partition after the
//! other.

use std::cmp::Ordering;

use payfold_schemas::position::Position;

use super::{Delivered, EventLog, Extent, Topic};
use crate::EngineError;

/// A walk over all partitions of a topic. It holds one position per partition.
pub struct Walk<'a> {
    log: &'a dyn EventLog,
    topic: Topic,
    places: Vec<Position>,
    /// Index into `places` of the partition that is read next.
    current: usize,
    /// Where the walk of each partition ends; empty for a walk without an end.
    ends: Vec<Position>,
}

impl<'a> Walk<'a> {
    /// Starts at the first message of every partition and ends with the page that holds the
    /// partition's present last message. Without this bound a walk beside a running system would
    /// never end.
    pub async fn to_the_end(log: &'a dyn EventLog, topic: Topic) -> Result<Walk<'a>, EngineError> {
        let extents = log.extent(topic).await?;
        let ends = extents.iter().map(Extent::end).collect();
        Ok(Self { ends, ..Self::from(log, topic, extents.iter().map(before).collect()) })
    }

    /// Starts after these positions, one for each partition.
    pub fn from(log: &'a dyn EventLog, topic: Topic, places: Vec<Position>) -> Walk<'a> {
        Self { log, topic, places, current: 0, ends: Vec::new() }
    }

    /// Reads up to `limit` messages of one partition; `None` when no partition has more for now.
    pub async fn next(&mut self, limit: usize) -> Result<Option<Vec<Delivered>>, EngineError> {
        for _ in 0..self.places.len() {
            let place = &mut self.places[self.current];
            let page = self.log.read_after(self.topic, *place, limit).await?;
            if let Some(last) = page.last().map(|message| message.position) {
                *place = last;
                let is_end =
                    |end: &Position| end.partition == last.partition && end.offset <= last.offset;
                if self.ends.iter().any(is_end) {
                    self.drop_current_partition();
                }
                return Ok(Some(page));
            }
            self.current = (self.current + 1) % self.places.len();
        }
        Ok(None)
    }

    /// Drops the partition of the last page, whatever is left of it. Not for a walk with an end,
    /// which may have dropped it.
    pub fn drop_current_partition(&mut self) {
        self.places.remove(self.current);
        if self.current >= self.places.len() {
            self.current = 0;
        }
    }
}

/// The position before a partition's first message.
pub fn before(extent: &Extent) -> Position {
    Position { partition: extent.partition, offset: extent.first.saturating_sub(1) }
}

/// The positions before the first message of every partition of a topic.
pub async fn starts(log: &dyn EventLog, topic: Topic) -> Result<Vec<Position>, EngineError> {
    Ok(log.extent(topic).await?.iter().map(before).collect())
}

/// The position of the last message of every partition of a topic.
pub async fn ends(log: &dyn EventLog, topic: Topic) -> Result<Vec<Position>, EngineError> {
    Ok(log.extent(topic).await?.iter().map(Extent::end).collect())
}

/// The positions to continue a walk that read one partition after the other up to `after`: earlier
/// partitions are left out, later ones start at their first message.
pub async fn places_after(
    log: &dyn EventLog,
    topic: Topic,
    after: Option<Position>,
) -> Result<Vec<Position>, EngineError> {
    let after = after.unwrap_or_default();
    let mut places = places_to_follow(&log.extent(topic).await?, after);
    places.retain(|place| place.partition >= after.partition);
    Ok(places)
}

/// The same with a place for each partition, to go on with what is appended to any of them: what
/// earlier partitions hold now is behind it.
pub async fn places_to_follow_after(
    log: &dyn EventLog,
    topic: Topic,
    after: Position,
) -> Result<Vec<Position>, EngineError> {
    Ok(places_to_follow(&log.extent(topic).await?, after))
}

fn places_to_follow(extents: &[Extent], after: Position) -> Vec<Position> {
    let place = |extent: &Extent| match extent.partition.cmp(&after.partition) {
        Ordering::Less => extent.end(),
        Ordering::Equal => after,
        Ordering::Greater => before(extent),
    };
    extents.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_that_is_taken_up_follows_every_partition() {
        let extents = [(0, 1, 9), (1, 5, 20), (2, 3, 7)];
        let extents =
            extents.map(|(partition, first, last)| Extent { partition, first, last, bytes: None });
        let at = |partition, offset| Position { partition, offset };
        let taken_up = places_to_follow(&extents, at(1, 12));
        assert_eq!(taken_up, [at(0, 9), at(1, 12), at(2, 2)]);
    }
}
