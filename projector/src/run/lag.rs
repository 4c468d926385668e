//! Owns the measuring of the lag, once a second: how many records are not folded yet, and how old
//! the oldest of them is. The figures are for people and probes; the pipeline never waits for them.

use std::time::Duration;

use payfold_engines::log::{Extent, Topic, epoch};
use payfold_kit::search;
use payfold_schemas::position::Position;

use super::shared::Shared;
use crate::status::Lag;

const EVERY: Duration = Duration::from_secs(1);

/// Measures until it is dropped.
pub(super) async fn keep_measuring(shared: &Shared) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if shared.status.owned().is_empty() {
            shared.status.set_lag(None);
            shared.metrics().set_lag_records(0);
            shared.status.owns_any().await;
        }
        // While the log can't be read, the last lag stays; the read stage reports the error.
        if let Ok(extents) = shared.log.extent(Topic::Intake).await {
            // Set at each tick: a process may run projectors of two builds, and a switch changes
            // which of them exports its metrics.
            shared.metrics().set_partitions(shared.status.owned().len());
            shared.metrics().set_intake_partitions(epoch::current(&extents).len());
            let lag = measure(shared, &extents).await;
            shared.metrics().set_lag_records(lag.records);
            shared.measure_build_lag(lag.records);
            shared.status.set_lag(Some(lag));
        }
    }
}

/// Measures for the last time, after the run has ended with an error: nothing is folded from now
/// on, so what waits grows older unmeasured, and its age is not exported any longer.
pub(super) async fn end_measuring(shared: &Shared) {
    if let Ok(extents) = shared.log.extent(Topic::Intake).await {
        shared.metrics().set_lag_records(measure(shared, &extents).await.records);
    }
    for partition in shared.status.owned() {
        shared.metrics().clear_lag_age(partition);
    }
}

async fn measure(shared: &Shared, extents: &[Extent]) -> Lag {
    let mut lag = Lag::default();
    let folded = shared.status.folded().borrow().clone();
    let owned = shared.status.owned();
    for extent in extents.iter().filter(|extent| owned.contains(&extent.partition)) {
        let known = folded.iter().find(|position| position.partition == extent.partition);
        let through = known.map_or(0, |position| position.offset);
        let waiting = extent.last.saturating_sub(through);
        lag.records = lag.records.saturating_add(waiting);
        let after = Position { partition: extent.partition, offset: through };
        let age_nanos = if waiting == 0 { 0 } else { age_after(shared, after).await };
        shared.metrics().set_lag_age(extent.partition, age_nanos);
        lag.age_ms = lag.age_ms.max(age_nanos.checked_div(1_000_000).unwrap_or(0));
    }
    lag
}

/// The age of the first record after a position that is not damaged, in nanoseconds; 0 if there is
/// none, or it can't be read.
async fn age_after(shared: &Shared, after: Position) -> i64 {
    let oldest = search::oldest_received(&*shared.log, after).await.ok().flatten();
    oldest.map_or(0, |received| shared.metrics().now().nanos_since(received).max(0))
}
