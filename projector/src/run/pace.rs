//! Owns the pace of a projector's reading: unlimited, limited to a number of facts a second, or
//! paused.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::settings::Speed;
use super::shared::Shared;

/// The fewest batches a second of a projector with a limit, unless nothing is to be read.
const STEPS_PER_S: u32 = 10;

/// Limits a projector to its speed.
pub(super) struct Pace {
    speed: Option<watch::Receiver<Speed>>,
    /// When the next batch may be read.
    due: Instant,
}

impl Pace {
    pub(super) fn new(shared: &Shared) -> Self {
        Self { speed: shared.settings.speed.clone(), due: Instant::now() }
    }

    /// How many records a batch may have. With a speed limit, batches are small, so that the load
    /// is spread evenly.
    pub(super) fn limit(&self, limit: usize) -> usize {
        let facts_per_s = self.speed.as_ref().and_then(|speed| speed.borrow().facts_per_s);
        let step = facts_per_s.map(|facts| facts.div_ceil(STEPS_PER_S));
        step.and_then(|step| usize::try_from(step).ok())
            .map_or(limit, |step| limit.min(step.max(1)))
    }

    /// Waits after a batch of this many records until the next one may be read, or until the
    /// projector is signalled to stop.
    pub(super) async fn wait_after(&mut self, shared: &Shared, records: usize) {
        let Some(speed) = &mut self.speed else { return };
        tokio::select! {
            () = shared.stopped() => return,
            // An error means that the sender is gone; then the pause ends, too.
            _ = speed.wait_for(|speed| !speed.paused) => {}
        }
        let Some(facts_per_s) = speed.borrow().facts_per_s else { return };
        let seconds =
            f64::from(u32::try_from(records).unwrap_or(u32::MAX)) / f64::from(facts_per_s.max(1));
        // Time in which there was nothing to read is not made up for.
        let now = Instant::now();
        let wait = Duration::from_secs_f64(seconds);
        self.due = self.due.max(now).checked_add(wait).unwrap_or(now);
        let changed = async {
            if speed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = tokio::time::sleep_until(self.due) => {}
            () = changed => self.due = Instant::now(),
            () = shared.stopped() => {}
        }
    }
}
