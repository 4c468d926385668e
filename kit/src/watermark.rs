//! Owns the low watermark: the time of receipt up to which each partition of intake is folded.
//! Everything received before it is in the order store, except that clocks which differ and slow
//! appends can put a record with an earlier time behind it. Invariant: a watermark never goes back
//! while the process runs, even if a record with an old time of receipt is appended.

use payfold_engines::log::{Extent, Topic};
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

use crate::halt::Halt;
use crate::storage::{Storage, is_folded};

/// A time before the receipt of any record.
pub const BEGINNING: Time = Time::from_unix_nanos(i64::MIN);

/// How far the fold may be behind, ms, and orders are still judged at the present time. Under
/// constant load the fold is always a little behind; waiting for that would delay every judgement.
const FOLD_LAG_TOLERATED_MS: i64 = 5_000;

/// How far intake was folded at one moment.
#[derive(Clone, Debug)]
pub struct Watermark {
    /// When it was measured.
    pub now: Time,
    /// The last folded position of each partition.
    pub folded: Vec<Position>,
    /// The first and last offset of each partition of intake.
    pub extents: Vec<Extent>,
    /// The watermark of each partition, at most `now`.
    partitions: Vec<(u32, Time)>,
    /// The earliest time of receipt among the first unfolded records of the partitions; `None` if
    /// everything is folded.
    first_unfolded: Option<Time>,
}

impl Watermark {
    /// Measures it from the log and the order store. Errors: stop, or an engine's error that trying
    /// again can't mend.
    pub async fn measure(storage: &Storage) -> Result<Self, Halt> {
        // The order of these reads matters: a record that is appended between them makes the
        // watermark too old, never too new.
        let now = storage.clock.now();
        let folded = storage.folded().await?;
        let ask = || storage.log.extent(Topic::Intake);
        let extents = storage.ask("read how far intake reaches", ask).await?;
        let mut partitions = Vec::with_capacity(extents.len());
        let mut first_unfolded: Option<Time> = None;
        for extent in &extents {
            let first = first_unfolded_at(storage, &folded, extent).await?;
            let time = first.map_or(now, |received| received.min(now));
            partitions
                .push((extent.partition, storage.raise_watermark(extent.partition, time).min(now)));
            first_unfolded = first_unfolded.into_iter().chain(first).min();
        }
        Ok(Self { now, folded, extents, partitions, first_unfolded })
    }

    /// Whether everything received at `time` or earlier is folded.
    pub fn is_past(&self, time: Time) -> bool {
        self.low() >= time && self.first_unfolded.is_none_or(|received| received > time)
    }

    /// The lowest watermark: in every partition, everything received before it is folded.
    pub fn low(&self) -> Time {
        self.partitions.iter().map(|(_, time)| *time).min().unwrap_or(self.now)
    }

    /// The time up to which deadlines of a partition's orders may be judged: whatever was received
    /// in time for such a deadline is folded.
    pub fn judged_until(&self, partition: u32) -> Time {
        let of = self.partitions.iter().find(|(known, _)| *known == partition);
        let folded_until = of.map_or_else(|| self.low(), |(_, time)| *time);
        if folded_until.plus_ms(FOLD_LAG_TOLERATED_MS) >= self.now {
            self.now
        } else {
            folded_until
        }
    }
}

/// When the first unfolded record of a partition was received; `None` if everything is folded.
async fn first_unfolded_at(
    storage: &Storage,
    folded: &[Position],
    extent: &Extent,
) -> Result<Option<Time>, Halt> {
    let partition = extent.partition;
    if extent.last == 0 || is_folded(folded, extent.end()) {
        return Ok(None);
    }
    let Some(after) = folded.iter().find(|position| position.partition == partition) else {
        return Ok(Some(BEGINNING));
    };
    let ask = || storage.log.read_after(Topic::Intake, *after, 1);
    let next = storage.ask("read intake", ask).await?;
    // A record that can't be decoded stops the projector, so nothing after it is folded, whenever
    // that was received.
    let received = next.first().map(|record| record.intake_record().map(|r| r.received_at()));
    Ok(received.map(|received| received.unwrap_or(BEGINNING)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Partition 0 is folded until 20 s, partition 1 until 2 s, at 30 s.
    fn watermark() -> Watermark {
        let s = |seconds: i64| Time::from_unix_ms(seconds * 1_000);
        Watermark {
            now: s(30),
            folded: Vec::new(),
            extents: Vec::new(),
            partitions: vec![(0, s(20)), (1, s(2))],
            first_unfolded: Some(s(2)),
        }
    }

    #[test]
    fn the_low_watermark_is_that_of_the_partition_farthest_behind() {
        let (watermark, s) = (watermark(), |seconds: i64| Time::from_unix_ms(seconds * 1_000));
        assert_eq!(watermark.low(), s(2));
        for (seconds, is_past) in [(1, true), (2, false), (3, false), (20, false)] {
            assert_eq!(watermark.is_past(s(seconds)), is_past, "{seconds}");
        }
        let judged = [0, 1, 7].map(|partition| watermark.judged_until(partition));
        assert_eq!(judged, [s(20), s(2), s(2)], "an unknown partition is behind all");
    }
}
