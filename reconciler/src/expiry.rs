//! Owns the appending of X: looks at orders, appends for those that are due, and remembers for whom until the
//! fold has come there, so that an order is not appended for again while its X is on the way.
//! Invariant: an order counts as looked at only when its X is durable.

use std::collections::{BTreeMap, HashMap, VecDeque};

use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::record::Position;
use payfold_schemas::time::Time;

use crate::due::{Verdict, judge, knows};
use crate::run::{Halt, Shared, is_folded};
use crate::watermark::Watermark;

/// How many X are remembered until they are folded, some 12 MB. Beyond that the oldest is forgotten: its
/// order may get the same X again, which changes nothing.
const WAITING_MAX: usize = 1 << 15;

/// The X that are on their way to the order store.
#[derive(Default)]
pub(crate) struct Expiry {
    waiting: HashMap<OrderKey, (Time, Position)>,
    /// The same in the order of appending.
    appended: VecDeque<(OrderKey, Position)>,
}

/// Whether an entry that was looked at must be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Done,
    Again,
}

impl Expiry {
    /// Forgets the X that are folded by now.
    pub(crate) fn forget(&mut self, shared: &Shared, folded: &[Position]) {
        self.appended.retain(|(_, position)| !is_folded(folded, *position));
        self.waiting.retain(|_, (_, position)| !is_folded(folded, *position));
        shared.metrics.pending_are(self.waiting.len());
    }

    /// Looks at orders, each with the deadline entry that names it if one does; appends what is due, and tells of
    /// each whether it is done with.
    pub(crate) async fn look(
        &mut self,
        shared: &Shared,
        entries: Vec<(OrderKey, Option<Time>)>,
        watermark: &Watermark,
    ) -> Result<Vec<Look>, Halt> {
        let (keys, named): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        let rows = shared.load(&keys).await?;
        assert_eq!(rows.len(), keys.len(), "a row or none for each key");
        let mut due = BTreeMap::new();
        let mut looks = Vec::with_capacity(keys.len());
        for ((key, named), row) in keys.into_iter().zip(named).zip(rows) {
            // An entry may be there before its row, or before the row that knows of it.
            let row = row.filter(|order| named.is_none_or(|time| knows(order, time)));
            let verdict = row.as_ref().map_or(Verdict::NotYet, |order| {
                judge(order, watermark.now, watermark.judged_until(order.position.partition))
            });
            looks.push(if verdict == Verdict::NotYet { Look::Again } else { Look::Done });
            if let Verdict::Due(deadline) = verdict
                && !self.is_on_its_way(&key, deadline)
            {
                due.insert(key, deadline);
            }
        }
        self.append(shared, due).await?;
        Ok(looks)
    }

    fn is_on_its_way(&self, key: &OrderKey, deadline: Time) -> bool {
        self.waiting.get(key).is_some_and(|(appended, _)| *appended >= deadline)
    }

    async fn append(&mut self, shared: &Shared, due: BTreeMap<OrderKey, Time>) -> Result<(), Halt> {
        if due.is_empty() {
            return Ok(());
        }
        shared.metrics.pending_are(self.waiting.len().saturating_add(due.len()));
        let facts = (due.iter())
            .map(|(key, deadline)| (key.clone(), Fact::DeadlinePassed { deadline: *deadline }));
        let positions = shared.append(facts.collect()).await?;
        shared.metrics.deadlines_appended(positions.len());
        for ((key, deadline), position) in due.into_iter().zip(positions) {
            self.appended.push_back((key.clone(), position));
            self.waiting.insert(key, (deadline, position));
        }
        while self.appended.len() > WAITING_MAX
            && let Some((key, position)) = self.appended.pop_front()
        {
            if self.waiting.get(&key).is_some_and(|(_, known)| *known == position) {
                self.waiting.remove(&key);
            }
        }
        shared.metrics.pending_are(self.waiting.len());
        Ok(())
    }
}
