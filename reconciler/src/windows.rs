//! Owns the finding of stuck orders: for each time of the schedule a window that moves along the creation view, so
//! far behind the present. Nothing is remembered but where each window ends.
//!
//! Invariants: no window is ahead of the fold's low watermark, so an order is judged by all that came before its
//! question. A window that is late is walked late, also after a start: it begins where the fold stands, not at the present.
//! It leaves out only what the next window walks now, so that an order whose times are over is asked about once, for the
//! last of them. An order that a window missed (a restart, a late append) is found by the next one. Memory is one page.

use payfold_engines::orders::{Cursor, Scan};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::time::Time;
use tokio::sync::mpsc::Sender;
use tokio::time::MissedTickBehavior;

use crate::line::{Purpose, Waiting};
use crate::partners::Partners;
use crate::run::{Halt, Shared};
use crate::schedule::AFTER_MS_MAX;
use crate::stuck::{reasons, targets};
use crate::watermark::Watermark;

/// So much of what was due before a start is asked again, at most: a restart takes no longer.
const OVERLAP_MS_MAX: i64 = 30_000;
/// A window is walked when it has come on by this part of its time, so that those of days are not walked every second:
/// a question is late by so much, at most.
const STEP_PART: i64 = 60;
/// And at least this often.
const STEP_MS_MAX: i64 = 60_000;

/// One window: orders that were created before `from` have been looked at.
struct Window {
    after_ms: i64,
    from: Time,
}

/// Walks until told to stop, and lines up what is due.
pub(crate) async fn run(
    shared: &Shared,
    partners: &Partners,
    due: Sender<Waiting>,
) -> Result<(), Halt> {
    // A new store was folded up to no time at all: no order older than the longest schedule is asked about.
    let watermark = Watermark::measure(shared).await?;
    let begun = watermark.low().min(watermark.now).max(watermark.now.plus_ms(-AFTER_MS_MAX));
    let window = |(after_ms, half_ms): (i64, i64)| {
        let overlap_ms = half_ms.min(OVERLAP_MS_MAX);
        Window { after_ms, from: begun.plus_ms(-after_ms).plus_ms(-overlap_ms) }
    };
    let mut windows: Vec<_> = shared.settings.query_after.slots().map(window).collect();
    let mut polls = tokio::time::interval(shared.settings.query_poll);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = shared.stopped() => return Ok(()),
            _ = polls.tick() => {}
        }
        let watermark = Watermark::measure(shared).await?;
        for index in 0..windows.len() {
            let next = windows
                .get(index.saturating_add(1))
                .map(|next| (next.from, next.until(&watermark)));
            let Some(window) = windows.get_mut(index) else { break };
            window.leave_to(next);
            window.walk(shared, partners, (&watermark, &due)).await?;
        }
    }
}

impl Window {
    /// Up to which creation it may be walked now.
    fn until(&self, watermark: &Watermark) -> Time {
        watermark.low().min(watermark.now).plus_ms(-self.after_ms)
    }

    /// Leaves to the next window the orders that are due there, too: from where it stands to where it may be walked.
    fn leave_to(&mut self, next: Option<(Time, Time)>) {
        if let Some((from, until)) = next
            && from <= self.from
        {
            self.from = self.from.max(until);
        }
    }

    async fn walk(
        &mut self,
        shared: &Shared,
        partners: &Partners,
        (watermark, due): (&Watermark, &Sender<Waiting>),
    ) -> Result<(), Halt> {
        let until = self.until(watermark);
        let step_ms = (self.after_ms / STEP_PART).clamp(1, STEP_MS_MAX);
        if until < self.from.plus_ms(step_ms) {
            return Ok(());
        }
        let (scan, limit) =
            (Scan::Created { from: self.from, until }, shared.settings.page_entries);
        let mut after: Option<Cursor> = None;
        loop {
            let ask = || shared.store.scan(scan.clone(), after.clone(), limit);
            let page = shared.ask("walk the orders by creation", ask).await?;
            let askable = partners.askable();
            let keys = page.entries.into_iter().map(|(key, _)| key);
            let keys: Vec<_> = keys.filter(|key| askable.contains(&key.partner)).collect();
            self.line_up(shared, keys, due).await?;
            match page.next {
                Some(_) if *shared.stop.borrow() => return Err(Halt::Stopped),
                Some(next) => after = Some(next),
                None => break,
            }
        }
        self.from = until;
        Ok(())
    }

    /// An order whose row is not there yet is found by the next window.
    async fn line_up(
        &self,
        shared: &Shared,
        keys: Vec<OrderKey>,
        due: &Sender<Waiting>,
    ) -> Result<(), Halt> {
        if keys.is_empty() {
            return Ok(());
        }
        for order in shared.load(&keys).await?.into_iter().flatten() {
            for target in targets(&order, &reasons(&order)) {
                let since = order.first_seen.plus_ms(self.after_ms);
                let waiting =
                    Waiting { key: order.key.clone(), target, due: since, purpose: Purpose::Stuck };
                due.send(waiting).await.map_err(|_| Halt::Stopped)?;
            }
        }
        Ok(())
    }
}
