//! Owns how fast a projector reads: as fast as it goes, so many facts a second at most, or not at all.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Shared;

/// Batches a second at least, of one that is held back.
const STEPS_PER_S: u32 = 10;

/// How fast a generation is folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speed {
    /// Not at all.
    pub paused: bool,
    /// Facts a second at most; none is as fast as it goes.
    pub facts_per_s: Option<u32>,
}

/// Keeps a projector to its speed.
pub(super) struct Pace {
    speed: Option<watch::Receiver<Speed>>,
    /// When what was read so far may all have been read.
    due: Instant,
}

impl Pace {
    pub(super) fn of(shared: &Shared) -> Self {
        Self { speed: shared.settings.speed.clone(), due: Instant::now() }
    }

    /// How many records a batch may have: what is to go slowly goes in small steps, so that others get their turns.
    pub(super) fn limit(&self, limit: usize) -> usize {
        let facts_per_s = self.speed.as_ref().and_then(|speed| speed.borrow().facts_per_s);
        let step = facts_per_s.map(|facts| facts.div_ceil(STEPS_PER_S));
        step.and_then(|step| usize::try_from(step).ok())
            .map_or(limit, |step| limit.min(step.max(1)))
    }

    /// Waits until so many more may be read; not longer than until the projector is told to stop.
    pub(super) async fn keep(&mut self, shared: &Shared, records: usize) {
        let Some(speed) = &mut self.speed else { return };
        tokio::select! {
            () = shared.stopped() => return,
            // Nobody left to let it go on is nobody who holds it.
            _ = speed.wait_for(|speed| !speed.paused) => {}
        }
        let Some(facts_per_s) = speed.borrow().facts_per_s else { return };
        let seconds =
            f64::from(u32::try_from(records).unwrap_or(u32::MAX)) / f64::from(facts_per_s.max(1));
        // What was missed while there was nothing to read is not made up for.
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
