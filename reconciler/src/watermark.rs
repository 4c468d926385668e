//! Owns the low watermark: up to which time of receipt each partition of intake is folded.
//! Everything received before it is in the order store, but for what clocks and slow appends blur.
//! Invariant: it never goes back while the process runs, also when a record with an old time of receipt comes.

use payfold_engines::log::{Extent, Topic};
use payfold_schemas::record::{Position, decode_intake};
use payfold_schemas::time::Time;

use crate::run::{Halt, Shared, is_folded};

/// Before anything that is stored.
pub(crate) const BEGINNING: Time = Time::from_unix_nanos(i64::MIN);

/// A fold that is behind by less is not waited for, ms: what it has not seen is of the last moments.
const PATIENCE_MS: i64 = 5_000;

/// How far intake was folded at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Watermark {
    pub(crate) now: Time,
    /// The last folded positions.
    pub(crate) folded: Vec<Position>,
    /// The watermark of each partition, at most `now`.
    partitions: Vec<(u32, Time)>,
    /// When the first record that waits to be folded was received.
    waiting: Option<Time>,
}

impl Watermark {
    /// Asks log and store.
    pub(crate) async fn measure(shared: &Shared) -> Result<Self, Halt> {
        // In this order: what is appended between the questions makes the answer older, never too new.
        let now = shared.clock.now();
        let folded = shared.folded().await?;
        let ask = || shared.log.extent(Topic::Intake);
        let extents = shared.ask("read how far intake reaches", ask).await?;
        let mut partitions = Vec::with_capacity(extents.len());
        let mut waiting: Option<Time> = None;
        for extent in &extents {
            let first = first_waiting(shared, &folded, extent).await?;
            let time = first.map_or(now, |received| received.min(now));
            partitions.push((extent.partition, shared.raise(extent.partition, time).min(now)));
            waiting = waiting.into_iter().chain(first).min();
        }
        shared.metrics.lag_is(lag(shared, &extents));
        Ok(Self { now, folded, partitions, waiting })
    }

    /// Whether everything is folded that was received until `time`, this moment included.
    pub(crate) fn is_past(&self, time: Time) -> bool {
        self.low() >= time && self.waiting.is_none_or(|received| received > time)
    }

    /// Everything received before it is folded, in every partition.
    pub(crate) fn low(&self) -> Time {
        self.partitions.iter().map(|(_, time)| *time).min().unwrap_or(self.now)
    }

    /// Up to which time the orders of a partition may be judged: what came in time is folded.
    pub(crate) fn judged_until(&self, partition: u32) -> Time {
        let of = self.partitions.iter().find(|(known, _)| *known == partition);
        let folded_until = of.map_or_else(|| self.low(), |(_, time)| *time);
        if folded_until.plus_ms(PATIENCE_MS) >= self.now { self.now } else { folded_until }
    }
}

impl Shared {
    /// The highest watermark of a partition so far, this one included.
    fn raise(&self, partition: u32, time: Time) -> Time {
        let mut reached = self.reached.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let highest = reached.entry(partition).or_insert(time);
        *highest = time.max(*highest);
        *highest
    }
}

/// When the first record that is not folded was received; `None` if there is none.
async fn first_waiting(
    shared: &Shared,
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
    let ask = || shared.log.read_after(Topic::Intake, *after, 1);
    let next = shared.ask("read intake", ask).await?;
    // What can't be read stops whoever reads intake; until then nothing after it is folded.
    let received = next.first().map(|record| decode_intake(&record.value).map(|r| r.received_at()));
    Ok(received.map(|received| received.unwrap_or(BEGINNING)))
}

/// How many records of intake are not checked for refs; those of partitions not read yet are not counted.
fn lag(shared: &Shared, extents: &[Extent]) -> u64 {
    let checked = shared.checked.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let waiting = extents.iter().filter_map(|extent| {
        let checked = checked.get(&extent.partition)?;
        Some(extent.last.saturating_sub(*checked))
    });
    waiting.fold(0, u64::saturating_add)
}
