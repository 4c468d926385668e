//! Owns the watch over unconfirmed notices, which count only once a query confirms them. They are
//! read from intake and asked about at the times of the schedule after their receipt, until an
//! equal answer is folded.
//!
//! Invariants: a watched notice is acknowledged only when it is confirmed or its last time has
//! passed. So the next run reads it again and goes on with the notice's own schedule, without
//! asking at once. An order is asked about only when the fold has passed the notice. The watch is
//! bounded for each partner: a notice that finds no room is asked about on the schedule of its
//! order, with the next notice of its order, or by a person.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use payfold_engines::log::{Delivered, Start, Subscription, Topic};
use payfold_kit::Halt;
use payfold_reconcile::question::QueryTarget;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::order::Order;
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;
use tokio::sync::mpsc::Sender;
use tokio::time::MissedTickBehavior;

use crate::context::ReconcilerContext;
use crate::decode::decode_fact;
use crate::partners::Partners;
use crate::query_queue::{QueryPurpose, QueuedQuery};
use crate::stuck::{TARGETS_MAX, confirmation_targets, needs_confirmation, target_of};

/// The consumer group that reads intake for unconfirmed notices.
const GROUP: &str = "reconciler-queries";
/// The most notices of one partner watched at the same time, some 24 MB: anybody can send notices
/// that wait, and those of one partner must not take the place of another's.
const WATCHED_MAX: usize = 1 << 16;
/// How long a due notice waits if the fold has not reached it, ms.
const FOLD_PAUSE_MS: i64 = 1_000;
/// The least pause between two checks of what is due.
const POLL_MIN: Duration = Duration::from_millis(20);

/// A notice that waits for its confirmation. The first field orders the heap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WatchedNotice {
    /// When it is checked next.
    due: Time,
    position: Position,
    received_at: Time,
    key: OrderKey,
    /// What the notice names.
    target: QueryTarget,
}

/// Watches notices until the role is signalled to stop, and sends the queries that are due. Errors:
/// a record that can't be decoded.
pub(crate) async fn watch_notices(
    context: &ReconcilerContext,
    partners: &Partners,
    due: Sender<QueuedQuery>,
) -> Result<(), Halt> {
    let ask = || context.storage.log.subscribe(Topic::Intake, GROUP, Start::Group);
    let mut intake = context.storage.ask("subscribe to intake", ask).await?;
    let mut watch = NoticeWatch::default();
    let mut polls = tokio::time::interval(context.settings.query_poll.max(POLL_MIN));
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage = context.storage.outage("read intake");
    loop {
        tokio::select! {
            biased;
            () = context.storage.stopped() => break,
            _ = polls.tick() => {
                watch.check_due(context, partners, &due).await?;
                watch.ack_done(context, &mut *intake).await?;
                context.metrics.set_unconfirmed_waiting(watch.waiting.len());
            }
            batch = intake.next_batch(context.settings.batch_records_max) => match batch {
                Ok(batch) => {
                    std::mem::replace(&mut outage, context.storage.outage("read intake")).over();
                    watch.add_notices(context, &batch).await?;
                }
                Err(error) => outage.wait(error).await?,
            },
        }
    }
    // If this fails, the next run only reads the same records again.
    let _ = intake.ack(watch.done_positions()).await;
    Ok(())
}

#[derive(Default)]
struct NoticeWatch {
    waiting: BinaryHeap<Reverse<WatchedNotice>>,
    /// How many notices of each partner wait.
    watched: BTreeMap<PartnerCode, usize>,
    /// The last offset that was read, by partition.
    read: BTreeMap<u32, u64>,
    /// Partition and offset of each watched notice.
    open: BTreeSet<(u32, u64)>,
    acked: Vec<Position>,
}

impl NoticeWatch {
    async fn add_notices(
        &mut self,
        context: &ReconcilerContext,
        batch: &[Delivered],
    ) -> Result<(), Halt> {
        let (now, schedule) = (context.storage.clock.now(), &context.settings.query_after);
        for message in batch {
            let (position, record) = (message.position, decode_fact(context, message).await?);
            self.read.insert(position.partition, position.offset);
            let Some(record) = record else { continue };
            let Fact::Ipn(ipn) = &record.fact else { continue };
            let Some(due) = schedule.next_due(record.received_at, now) else { continue };
            if !ipn.policy.unconfirmed {
                continue;
            }
            if !self.take_room(&record.order.partner) {
                context.metrics.count_query(&record.order.partner, "put_off");
                continue;
            }
            self.open.insert((position.partition, position.offset));
            let target = target_of(ipn.policy, &ipn.provider_ref);
            let (received_at, key) = (record.received_at, record.order);
            self.waiting.push(Reverse(WatchedNotice { due, position, received_at, key, target }));
        }
        Ok(())
    }

    /// Takes the room of one notice. `false` if its partner has no room left.
    fn take_room(&mut self, partner: &PartnerCode) -> bool {
        let watched = self.watched.entry(partner.clone()).or_default();
        let has_room = *watched < WATCHED_MAX;
        *watched += usize::from(has_room);
        has_room
    }

    fn give_room_back(&mut self, partner: &PartnerCode) {
        if let Some(watched) = self.watched.get_mut(partner) {
            *watched -= 1;
        }
    }

    /// Checks the notices that are due, one page at most.
    async fn check_due(
        &mut self,
        context: &ReconcilerContext,
        partners: &Partners,
        due: &Sender<QueuedQuery>,
    ) -> Result<(), Halt> {
        let now = context.storage.clock.now();
        // Before the rows: a row that is read after this has every fact up to these positions.
        let folded = context.storage.folded().await?;
        let mut page = Vec::new();
        while page.len() < context.settings.page_entries
            && self.waiting.peek().is_some_and(|Reverse(next)| next.due <= now)
        {
            page.extend(self.waiting.pop().map(|Reverse(notice)| notice));
        }
        if page.is_empty() {
            return Ok(());
        }
        let queryable = partners.queryable();
        let keys: Vec<_> = page.iter().map(|notice| notice.key.clone()).collect();
        for (notice, row) in page.into_iter().zip(context.storage.load(&keys).await?) {
            let row = row.filter(|_| payfold_kit::is_folded(&folded, notice.position));
            let Some(row) = row else {
                let later = WatchedNotice { due: now.plus_ms(FOLD_PAUSE_MS), ..notice };
                self.waiting.push(Reverse(later));
                continue;
            };
            let targets = targets_for(&notice, &row);
            let is_confirmed = targets.is_empty();
            if queryable.contains(&notice.key.partner) {
                send_queries(&notice, targets, due).await?;
            }
            match context.settings.query_after.next_due(notice.received_at, now) {
                Some(next) if !is_confirmed => {
                    self.waiting.push(Reverse(WatchedNotice { due: next, ..notice }));
                }
                _ => {
                    self.open.remove(&(notice.position.partition, notice.position.offset));
                    self.give_room_back(&notice.key.partner);
                }
            }
        }
        Ok(())
    }

    /// The last position of each partition before its first watched notice.
    fn done_positions(&self) -> Vec<Position> {
        let done = self.read.iter().filter_map(|(partition, read)| {
            let first = self.open.range((*partition, 0)..=(*partition, u64::MAX)).next();
            let offset = first.map_or(*read, |(_, offset)| offset.saturating_sub(1));
            (offset > 0).then_some(Position { partition: *partition, offset })
        });
        done.collect()
    }

    async fn ack_done(
        &mut self,
        context: &ReconcilerContext,
        intake: &mut dyn Subscription,
    ) -> Result<(), Halt> {
        let done = self.done_positions();
        if done == self.acked || done.is_empty() {
            return Ok(());
        }
        let mut outage = context.storage.outage("acknowledge intake");
        while let Err(error) = intake.ack(done.clone()).await {
            outage.wait(error).await?;
        }
        outage.over();
        self.acked = done;
        Ok(())
    }
}

/// What to ask for to confirm a notice, if it needs that, and then the others of its order: some of
/// those may have found no room in the watch.
fn targets_for(notice: &WatchedNotice, row: &Order) -> Vec<QueryTarget> {
    let own = needs_confirmation(row, &notice.target).then(|| notice.target.clone());
    let others = confirmation_targets(row).into_iter().filter(|target| *target != notice.target);
    own.into_iter().chain(others).collect()
}

/// Sends the queries about the first of these targets.
async fn send_queries(
    notice: &WatchedNotice,
    targets: Vec<QueryTarget>,
    due: &Sender<QueuedQuery>,
) -> Result<(), Halt> {
    for target in targets.into_iter().take(TARGETS_MAX) {
        let (key, purpose) = (notice.key.clone(), QueryPurpose::StuckOrder);
        let query = QueuedQuery { key, target, due: notice.due, purpose };
        due.send(query).await.map_err(|_| Halt::Stopped)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notices_of_one_partner_take_no_room_of_another() {
        let partner = |code: &str| PartnerCode::parse(code).unwrap();
        let mut watch = NoticeWatch::default();
        let taken = (0..WATCHED_MAX + 9).filter(|_| watch.take_room(&partner("loud"))).count();
        assert_eq!(taken, WATCHED_MAX);
        assert!(watch.take_room(&partner("other")));
        watch.give_room_back(&partner("loud"));
        assert!(watch.take_room(&partner("loud")) && !watch.take_room(&partner("loud")));
    }
}
