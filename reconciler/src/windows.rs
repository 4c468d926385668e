//! Owns the search for stuck orders. Each delay of the schedule has a window that moves along the
//! creation view, that delay behind the present. Only the end of each window is remembered.
//!
//! Invariants: no window is ahead of the fold's low watermark, so an order is judged with every
//! record that was received before its query is due. A late window is walked late, also after a
//! start: it begins at the progress of the fold, not at the present. A window skips only the range
//! that the next window walks now, so an order that has passed all delays is asked about once, for
//! the last of them. An order that a window missed (a restart, a late append) is found by the next
//! window. Memory is one page.

use payfold_engines::orders::{Cursor, Scan};
use payfold_kit::{Halt, Watermark};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::time::Time;
use tokio::sync::mpsc::Sender;
use tokio::time::MissedTickBehavior;

use crate::context::ReconcilerContext;
use crate::partners::Partners;
use crate::query_queue::{QueryPurpose, QueuedQuery};
use crate::schedule::DELAY_MS_MAX;
use crate::stuck::{query_reasons, targets_for};

/// How much of what was due before a start is asked again, ms, at most: a restart that takes no
/// longer misses nothing.
const OVERLAP_MS_MAX: i64 = 30_000;
/// A window is walked when it has moved by this part of its delay, so that a window of days is not
/// walked every second. A query is late by no more than that.
const STEP_PART: i64 = 60;
/// The longest step of a window, ms: every window is walked at least this often.
const STEP_MS_MAX: i64 = 60_000;

/// The window of one delay: orders created before `from` are checked.
struct CreationWindow {
    delay_ms: i64,
    from: Time,
}

/// A range of creation times: from `from` until `until`.
struct CreationRange {
    from: Time,
    until: Time,
}

/// Walks all windows until the role is signalled to stop, and sends the queries that are due.
pub(crate) async fn walk_windows(
    context: &ReconcilerContext,
    partners: &Partners,
    due: Sender<QueuedQuery>,
) -> Result<(), Halt> {
    // An empty store has no watermark yet. It begins at the longest possible delay: no older order
    // is asked about.
    let watermark = context.watermark().await?;
    let oldest = watermark.now.plus_ms(-DELAY_MS_MAX);
    let folded_until = watermark.low().min(watermark.now).max(oldest);
    let window = |(delay_ms, half_gap_ms): (i64, i64)| {
        let overlap_ms = half_gap_ms.min(OVERLAP_MS_MAX);
        let from = folded_until.plus_ms(-delay_ms).plus_ms(-overlap_ms);
        CreationWindow { delay_ms, from }
    };
    let delays = context.settings.query_after.delays_with_half_gaps();
    let mut windows: Vec<_> = delays.map(window).collect();
    let mut polls = tokio::time::interval(context.settings.query_poll);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = context.storage.stopped() => return Ok(()),
            _ = polls.tick() => {}
        }
        let watermark = context.watermark().await?;
        for index in 0..windows.len() {
            let next = windows
                .get(index.saturating_add(1))
                .map(|next| CreationRange { from: next.from, until: next.until(&watermark) });
            let Some(window) = windows.get_mut(index) else { break };
            window.skip_range_of_next(next);
            window.walk(context, partners, &watermark, &due).await?;
        }
    }
}

impl CreationWindow {
    /// The creation time up to which it may be walked now.
    fn until(&self, watermark: &Watermark) -> Time {
        watermark.low().min(watermark.now).plus_ms(-self.delay_ms)
    }

    /// Skips the orders that are due in the next window, too, if its range reaches this window.
    fn skip_range_of_next(&mut self, next: Option<CreationRange>) {
        if let Some(next) = next
            && next.from <= self.from
        {
            self.from = self.from.max(next.until);
        }
    }

    async fn walk(
        &mut self,
        context: &ReconcilerContext,
        partners: &Partners,
        watermark: &Watermark,
        due: &Sender<QueuedQuery>,
    ) -> Result<(), Halt> {
        let until = self.until(watermark);
        let step_ms = (self.delay_ms / STEP_PART).clamp(1, STEP_MS_MAX);
        if until < self.from.plus_ms(step_ms) {
            return Ok(());
        }
        let (scan, limit) =
            (Scan::Created { from: self.from, until }, context.settings.page_entries);
        let mut after: Option<Cursor> = None;
        loop {
            let ask = || context.storage.store.scan(scan.clone(), after.clone(), limit);
            let page = context.storage.ask("walk the orders by creation", ask).await?;
            let queryable = partners.queryable();
            let keys = page.entries.into_iter().map(|(key, _)| key);
            let keys: Vec<_> = keys.filter(|key| queryable.contains(&key.partner)).collect();
            self.send_queries(context, keys, due).await?;
            match page.next {
                Some(_) if context.storage.is_stopped() => return Err(Halt::Stopped),
                Some(next) => after = Some(next),
                None => break,
            }
        }
        self.from = until;
        Ok(())
    }

    /// Sends the queries of these orders. An order that has no row yet is found by the next window.
    async fn send_queries(
        &self,
        context: &ReconcilerContext,
        keys: Vec<OrderKey>,
        due: &Sender<QueuedQuery>,
    ) -> Result<(), Halt> {
        if keys.is_empty() {
            return Ok(());
        }
        for order in context.storage.load(&keys).await?.into_iter().flatten() {
            for target in targets_for(&order, &query_reasons(&order)) {
                let query = QueuedQuery {
                    key: order.key.clone(),
                    target,
                    due: order.first_seen.plus_ms(self.delay_ms),
                    purpose: QueryPurpose::StuckOrder,
                };
                due.send(query).await.map_err(|_| Halt::Stopped)?;
            }
        }
        Ok(())
    }
}
