//! Owns the scan of the deadline view. Every poll checks the deadlines that passed recently. After
//! a start, the deadlines that passed before it are checked once, page by page between the polls.
//!
//! Invariants: the recent range begins no later than the clock margin before the low watermark. A
//! record received at t sets a deadline later than t, so an entry that is still to be folded lies
//! after that beginning. The few entries that don't (a create request that was appended again long
//! after it was first tried) are checked by the reader of intake (`intake_reader`). The range moves
//! past an entry only when the entry is done with. Memory is one page and a bounded set of entries
//! that are done with.

use std::collections::BTreeSet;
use std::future::ready;
use std::time::Duration;

use payfold_engines::orders::{Cursor, Page, Scan, ViewEntry};
use payfold_kit::{BEGINNING, Halt, Watermark};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::time::Time;
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;

use crate::context::ReconcilerContext;
use crate::expiry::{EntryStatus, Expiry};

/// How many entries that are done with are remembered, some 20 MB. Entries beyond that are only
/// checked again.
const DONE_MAX: usize = 1 << 18;

/// Scans the deadline view until the role is signalled to stop. Errors: an engine's error that
/// trying again can't mend.
pub(crate) async fn scan_deadlines(
    context: &ReconcilerContext,
    expiry: &Mutex<Expiry>,
) -> Result<(), Halt> {
    let from = recent_since(context, context.watermark().await?.low());
    let mut recent = RecentDeadlines { from, done: BTreeSet::new() };
    let mut earlier = Some(EarlierDeadlines { until: from, after: None });
    let mut polls = tokio::time::interval(context.settings.deadline_poll);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // Biased: however many earlier deadlines there are, a poll that is due goes first.
            biased;
            () = context.storage.stopped() => return Ok(()),
            _ = polls.tick() => recent.check_all(context, expiry).await?,
            () = ready(()), if earlier.is_some() => {
                let page = earlier.take().expect("the guard of this branch checked it");
                earlier = page.check_page(context, expiry).await?;
            }
        }
    }
}

/// Where the recent range begins for this low watermark.
fn recent_since(context: &ReconcilerContext, low: Time) -> Time {
    low.plus_ms(-milliseconds(context.settings.clock_margin))
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The deadlines that passed before the start and are not checked yet.
struct EarlierDeadlines {
    until: Time,
    after: Option<Cursor>,
}

impl EarlierDeadlines {
    /// Checks one page; returns the rest, or `None` if it was the last page.
    async fn check_page(
        self,
        context: &ReconcilerContext,
        expiry: &Mutex<Expiry>,
    ) -> Result<Option<Self>, Halt> {
        let watermark = context.watermark().await?;
        let page = load_page(context, (BEGINNING, self.until), self.after).await?;
        let keys = page.entries.into_iter().map(|(key, _)| (key, None)).collect();
        let mut expiry = expiry.lock().await;
        expiry.forget_folded(context, &watermark.folded);
        expiry.check_entries(context, keys, &watermark).await?;
        Ok(page.next.map(|next| Self { until: self.until, after: Some(next) }))
    }
}

/// The deadlines that passed recently.
struct RecentDeadlines {
    from: Time,
    /// The entries after `from` that are done with: deadline, and digest of the order's key.
    done: BTreeSet<(Time, Digest)>,
}

impl RecentDeadlines {
    /// Checks all of them, then moves the beginning of the range.
    async fn check_all(
        &mut self,
        context: &ReconcilerContext,
        expiry: &Mutex<Expiry>,
    ) -> Result<(), Halt> {
        let watermark = context.watermark().await?;
        expiry.lock().await.forget_folded(context, &watermark.folded);
        // If the clock was ahead and was set back, the range has begun too late: begin it again at
        // the present, or the deadlines in between are never checked.
        self.from = self.from.min(recent_since(context, watermark.now));
        let mut after = None;
        loop {
            let page = load_page(context, (self.from, watermark.now), after).await?;
            self.check_page(context, expiry, page.entries, &watermark).await?;
            match page.next {
                Some(_) if context.storage.is_stopped() => return Err(Halt::Stopped),
                Some(next) => after = Some(next),
                None => break,
            }
        }
        self.from = self.from.max(recent_since(context, watermark.low()));
        self.done = self.done.split_off(&(self.from, Digest::from_bytes([0; 32])));
        Ok(())
    }

    async fn check_page(
        &mut self,
        context: &ReconcilerContext,
        expiry: &Mutex<Expiry>,
        entries: Vec<(OrderKey, ViewEntry)>,
        watermark: &Watermark,
    ) -> Result<(), Halt> {
        let marked = entries.into_iter().filter_map(|(key, entry)| {
            let ViewEntry::Deadline(time) = entry else { return None };
            let mark = (time, Digest::of_bytes(key.to_message_key().as_bytes()));
            (!self.done.contains(&mark)).then_some(((key, Some(time)), mark))
        });
        let (entries, marks): (Vec<_>, Vec<_>) = marked.unzip();
        if entries.is_empty() {
            return Ok(());
        }
        let statuses = expiry.lock().await.check_entries(context, entries, watermark).await?;
        let checked = statuses.into_iter().zip(marks);
        let done = checked.filter(|(status, _)| *status == EntryStatus::Done);
        let room = DONE_MAX.saturating_sub(self.done.len());
        self.done.extend(done.map(|(_, mark)| mark).take(room));
        Ok(())
    }
}

async fn load_page(
    context: &ReconcilerContext,
    (from, until): (Time, Time),
    after: Option<Cursor>,
) -> Result<Page, Halt> {
    let limit = context.settings.page_entries;
    let ask = || context.storage.store.scan(Scan::Deadline { from, until }, after.clone(), limit);
    context.storage.ask("walk the deadlines", ask).await
}
