//! Owns the watch over notices that count only once a query confirms them: read from intake, asked about at the times
//! of the schedule after their receipt, until an equal answer is folded.
//!
//! Invariants: what is watched is acknowledged only when it is confirmed or its times are over, so the next run reads
//! it again and goes on where its own times say, asking nothing at once. An order is asked about only when the fold
//! has come past the notice. Bounded: what finds no room is confirmed by the next notice of its order, or by a person.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use payfold_engines::log::{Delivered, Start, Subscription, Topic};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::record::Position;
use payfold_schemas::time::Time;
use tokio::sync::mpsc::Sender;
use tokio::time::MissedTickBehavior;

use crate::line::{Purpose, Waiting};
use crate::outage::Outage;
use crate::partners::Partners;
use crate::reading;
use crate::run::{Halt, Shared};
use crate::stuck::confirming;

/// The group it reads intake as.
const GROUP: &str = "reconciler-queries";
/// Notices watched at the same time, some 20 MB.
const WATCHED_MAX: usize = 1 << 16;
/// How long a notice that is due waits for the fold before it is looked at again.
const FOLD_PAUSE_MS: i64 = 1_000;
/// The least pause between two looks at what is due.
const TURN: Duration = Duration::from_millis(20);

/// A notice that waits for its confirmation, by when it is looked at next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Watched {
    due: Time,
    position: Position,
    since: Time,
    key: OrderKey,
}

/// Reads and asks until told to stop. Errors: a record that can't be read.
pub(crate) async fn run(
    shared: &Shared,
    partners: &Partners,
    due: Sender<Waiting>,
) -> Result<(), Halt> {
    let ask = || shared.log.subscribe(Topic::Intake, GROUP, Start::Group);
    let mut intake = shared.ask("subscribe to intake", ask).await?;
    let mut watch = Watch::default();
    let mut turns = tokio::time::interval(shared.settings.query_poll.max(TURN));
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage = Outage::none(shared, "read intake");
    loop {
        tokio::select! {
            biased;
            () = shared.stopped() => break,
            _ = turns.tick() => {
                watch.turn(shared, partners, &due).await?;
                watch.ack(shared, &mut *intake).await?;
                shared.metrics.unconfirmed_wait(watch.waiting.len());
            }
            batch = intake.next_batch(shared.settings.batch_records_max) => match batch {
                Ok(batch) => {
                    std::mem::replace(&mut outage, Outage::none(shared, "read intake")).over();
                    watch.take(shared, &batch).await?;
                }
                Err(error) => outage.wait(error).await?,
            },
        }
    }
    // What is not remembered now is only read again by the next run.
    let _ = intake.ack(watch.done()).await;
    Ok(())
}

#[derive(Default)]
struct Watch {
    waiting: BinaryHeap<Reverse<Watched>>,
    /// Read up to here, by partition.
    read: BTreeMap<u32, u64>,
    /// The places of what is watched, by partition.
    open: BTreeSet<(u32, u64)>,
    acked: Vec<Position>,
}

impl Watch {
    async fn take(&mut self, shared: &Shared, batch: &[Delivered]) -> Result<(), Halt> {
        let (now, schedule) = (shared.clock.now(), &shared.settings.query_after);
        for message in batch {
            let (position, record) = (message.position, reading::fact(shared, message).await?);
            self.read.insert(position.partition, position.offset);
            let Some(record) = record else { continue };
            let Fact::Ipn(ipn) = &record.fact else { continue };
            let Some(due) = schedule.next(record.received_at, now) else { continue };
            if !ipn.policy.unconfirmed {
                continue;
            }
            if self.waiting.len() >= WATCHED_MAX {
                shared.metrics.query_ended(&record.order.partner, "put_off");
                continue;
            }
            let since = record.received_at;
            self.open.insert((position.partition, position.offset));
            self.waiting.push(Reverse(Watched { due, position, since, key: record.order }));
        }
        Ok(())
    }

    /// Looks at what is due, a page at a time.
    async fn turn(
        &mut self,
        shared: &Shared,
        partners: &Partners,
        due: &Sender<Waiting>,
    ) -> Result<(), Halt> {
        let now = shared.clock.now();
        let folded = shared.folded().await?;
        let mut page = Vec::new();
        while page.len() < shared.settings.page_entries
            && self.waiting.peek().is_some_and(|Reverse(next)| next.due <= now)
        {
            page.extend(self.waiting.pop().map(|Reverse(watched)| watched));
        }
        if page.is_empty() {
            return Ok(());
        }
        let askable = partners.askable();
        let keys: Vec<_> = page.iter().map(|watched| watched.key.clone()).collect();
        for (watched, row) in page.into_iter().zip(shared.load(&keys).await?) {
            let Some(row) = row.filter(|_| crate::run::is_folded(&folded, watched.position)) else {
                let again = Watched { due: now.plus_ms(FOLD_PAUSE_MS), ..watched };
                self.waiting.push(Reverse(again));
                continue;
            };
            let targets = confirming(&row);
            let next = shared.settings.query_after.next(watched.since, now);
            if askable.contains(&watched.key.partner) {
                for target in &targets {
                    let (key, target) = (watched.key.clone(), target.clone());
                    let waiting =
                        Waiting { key, target, due: watched.due, purpose: Purpose::Stuck };
                    due.send(waiting).await.map_err(|_| Halt::Stopped)?;
                }
            }
            match next {
                Some(next) if !targets.is_empty() => {
                    self.waiting.push(Reverse(Watched { due: next, ..watched }));
                }
                _ => {
                    self.open.remove(&(watched.position.partition, watched.position.offset));
                }
            }
        }
        Ok(())
    }

    /// Up to where nothing is watched any more.
    fn done(&self) -> Vec<Position> {
        let done = self.read.iter().filter_map(|(partition, read)| {
            let first = self.open.range((*partition, 0)..=(*partition, u64::MAX)).next();
            let offset = first.map_or(*read, |(_, offset)| offset.saturating_sub(1));
            (offset > 0).then_some(Position { partition: *partition, offset })
        });
        done.collect()
    }

    async fn ack(&mut self, shared: &Shared, intake: &mut dyn Subscription) -> Result<(), Halt> {
        let done = self.done();
        if done == self.acked || done.is_empty() {
            return Ok(());
        }
        let mut outage = Outage::none(shared, "acknowledge intake");
        while let Err(error) = intake.ack(done.clone()).await {
            outage.wait(error).await?;
        }
        outage.over();
        self.acked = done;
        Ok(())
    }
}
