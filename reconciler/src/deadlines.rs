//! Owns the walk along the deadline view: every poll what passed lately, and after a start, page by page between
//! the polls, all that passed before.
//!
//! Invariants: the lately passed begin no later than the clock margin before the low watermark. A record
//! received at t gives a deadline later than t, so an entry that is still to be folded lies after that
//! beginning; the few that don't (a create request appended again long after it was first tried) are looked at by
//! the reader of intake (`follow`). An entry is left behind only when it is done with. Memory is a page, and a
//! bounded list of what is done with.

use std::collections::BTreeSet;
use std::future::ready;
use std::time::Duration;

use payfold_engines::orders::{Cursor, Page, Scan, ViewEntry};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::time::Time;
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;

use crate::expiry::{Expiry, Look};
use crate::run::{Halt, Shared};
use crate::watermark::{BEGINNING, Watermark};

/// How many entries done with are remembered, some 20 MB; beyond that they are only looked at again.
const DONE_MAX: usize = 1 << 18;

/// Walks until told to stop.
pub(crate) async fn run(shared: &Shared, expiry: &Mutex<Expiry>) -> Result<(), Halt> {
    let from = beginning_at(shared, Watermark::measure(shared).await?.low());
    let mut lately = Lately { from, done: BTreeSet::new() };
    let mut before = Some(Before { until: from, after: None });
    let mut polls = tokio::time::interval(shared.settings.deadline_poll);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = shared.stopped() => return Ok(()),
            _ = polls.tick() => lately.walk(shared, expiry).await?,
            () = ready(()), if before.is_some() => {
                before = before.take().expect("it was just there").step(shared, expiry).await?;
            }
        }
    }
}

/// Where the lately passed begin.
fn beginning_at(shared: &Shared, low: Time) -> Time {
    low.plus_ms(-milliseconds(shared.settings.clock_margin))
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// What passed before the start and is not looked at yet.
struct Before {
    until: Time,
    after: Option<Cursor>,
}

impl Before {
    /// Looks at one page; none when it was the last.
    async fn step(self, shared: &Shared, expiry: &Mutex<Expiry>) -> Result<Option<Self>, Halt> {
        let watermark = Watermark::measure(shared).await?;
        let page = page(shared, (BEGINNING, self.until), self.after).await?;
        let keys = page.entries.into_iter().map(|(key, _)| (key, None)).collect();
        let mut expiry = expiry.lock().await;
        expiry.forget(shared, &watermark.folded);
        expiry.look(shared, keys, &watermark).await?;
        Ok(page.next.map(|next| Self { until: self.until, after: Some(next) }))
    }
}

/// What passed lately.
struct Lately {
    from: Time,
    /// The entries after `from` that are done with.
    done: BTreeSet<(Time, Digest)>,
}

impl Lately {
    /// Looks at all of it, then moves its beginning.
    async fn walk(&mut self, shared: &Shared, expiry: &Mutex<Expiry>) -> Result<(), Halt> {
        let watermark = Watermark::measure(shared).await?;
        expiry.lock().await.forget(shared, &watermark.folded);
        // A clock that was ahead and is put right must not leave a gap.
        self.from = self.from.min(beginning_at(shared, watermark.now));
        let mut after = None;
        loop {
            let page = page(shared, (self.from, watermark.now), after).await?;
            self.look(shared, expiry, (page.entries, &watermark)).await?;
            match page.next {
                Some(_) if *shared.stop.borrow() => return Err(Halt::Stopped),
                Some(next) => after = Some(next),
                None => break,
            }
        }
        self.from = self.from.max(beginning_at(shared, watermark.low()));
        self.done = self.done.split_off(&(self.from, Digest::from_bytes([0; 32])));
        Ok(())
    }

    async fn look(
        &mut self,
        shared: &Shared,
        expiry: &Mutex<Expiry>,
        (entries, watermark): (Vec<(OrderKey, ViewEntry)>, &Watermark),
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
        let looks = expiry.lock().await.look(shared, entries, watermark).await?;
        let done = looks.into_iter().zip(marks).filter(|(look, _)| *look == Look::Done);
        let room = DONE_MAX.saturating_sub(self.done.len());
        self.done.extend(done.map(|(_, mark)| mark).take(room));
        Ok(())
    }
}

async fn page(
    shared: &Shared,
    (from, until): (Time, Time),
    after: Option<Cursor>,
) -> Result<Page, Halt> {
    let limit = shared.settings.page_entries;
    let ask = || shared.store.scan(Scan::Deadline { from, until }, after.clone(), limit);
    shared.ask("walk the deadlines", ask).await
}
