//! Owns the appending of `DeadlinePassed` facts: checks orders and appends the fact for those that
//! are due. It remembers each fact until the fold has reached it, so that an order does not get the
//! same fact again meanwhile. Invariant: an entry counts as done only when its fact is durable.

use std::collections::{BTreeMap, HashMap, VecDeque};

use payfold_kit::{Halt, Watermark, is_folded};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

use crate::context::ReconcilerContext;
use crate::due::{DeadlineVerdict, has_deadline, judge_deadline};

/// How many unfolded facts are remembered, some 12 MB. Beyond that the oldest is forgotten: its
/// order may get the same fact again, which changes nothing.
const UNFOLDED_MAX: usize = 1 << 15;

/// The `DeadlinePassed` facts that are appended and not folded yet.
#[derive(Default)]
pub(crate) struct Expiry {
    /// Deadline and position of an order's newest fact.
    unfolded: HashMap<OrderKey, (Time, Position)>,
    /// The same facts in the order of appending.
    appended: VecDeque<(OrderKey, Position)>,
}

/// Whether an entry of the deadline view has to be checked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryStatus {
    /// The entry needs no further check.
    Done,
    /// The fold has not come far enough to judge the entry.
    CheckAgain,
}

impl Expiry {
    /// Forgets the facts that are folded by now.
    pub(crate) fn forget_folded(&mut self, context: &ReconcilerContext, folded: &[Position]) {
        self.appended.retain(|(_, position)| !is_folded(folded, *position));
        self.unfolded.retain(|_, (_, position)| !is_folded(folded, *position));
        context.metrics.set_pending_past_deadline(self.unfolded.len());
    }

    /// Checks orders, each with the deadline of its view entry if it comes from one. Appends the
    /// facts that are due and returns the status of each entry, in the same order.
    pub(crate) async fn check_entries(
        &mut self,
        context: &ReconcilerContext,
        entries: Vec<(OrderKey, Option<Time>)>,
        watermark: &Watermark,
    ) -> Result<Vec<EntryStatus>, Halt> {
        let (keys, deadlines): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        let rows = context.storage.load(&keys).await?;
        assert_eq!(rows.len(), keys.len(), "a row or none for each key");
        let mut due = BTreeMap::new();
        let mut statuses = Vec::with_capacity(keys.len());
        for ((key, deadline), row) in keys.into_iter().zip(deadlines).zip(rows) {
            // An engine without transactions writes the entry before the row, so the row may be
            // missing or may not have this deadline yet. It is checked again then.
            let row = row.filter(|order| deadline.is_none_or(|time| has_deadline(order, time)));
            let verdict = row.as_ref().map_or(DeadlineVerdict::NotYet, |order| {
                let folded_until = watermark.judged_until(order.position.partition);
                judge_deadline(order, watermark.now, folded_until)
            });
            statuses.push(match verdict {
                DeadlineVerdict::NotYet => EntryStatus::CheckAgain,
                DeadlineVerdict::Due(_) | DeadlineVerdict::Settled => EntryStatus::Done,
            });
            if let DeadlineVerdict::Due(deadline) = verdict
                && !self.is_appended(&key, deadline)
            {
                due.insert(key, deadline);
            }
        }
        self.append_facts(context, due).await?;
        Ok(statuses)
    }

    fn is_appended(&self, key: &OrderKey, deadline: Time) -> bool {
        self.unfolded.get(key).is_some_and(|(appended, _)| *appended >= deadline)
    }

    async fn append_facts(
        &mut self,
        context: &ReconcilerContext,
        due: BTreeMap<OrderKey, Time>,
    ) -> Result<(), Halt> {
        if due.is_empty() {
            return Ok(());
        }
        let pending = self.unfolded.len().saturating_add(due.len());
        context.metrics.set_pending_past_deadline(pending);
        let facts = (due.iter())
            .map(|(key, deadline)| (key.clone(), Fact::DeadlinePassed { deadline: *deadline }));
        let positions = context.storage.append(facts.collect()).await?;
        context.metrics.count_deadlines_appended(positions.len());
        for ((key, deadline), position) in due.into_iter().zip(positions) {
            self.appended.push_back((key.clone(), position));
            self.unfolded.insert(key, (deadline, position));
        }
        while self.appended.len() > UNFOLDED_MAX
            && let Some((key, position)) = self.appended.pop_front()
        {
            // The order may have a newer fact by now, which stays.
            if self.unfolded.get(&key).is_some_and(|(_, known)| *known == position) {
                self.unfolded.remove(&key);
            }
        }
        context.metrics.set_pending_past_deadline(self.unfolded.len());
        Ok(())
    }
}
