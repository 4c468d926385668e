//! Owns reading two builds side by side: one walk along each, in the same order, in constant
//! memory. Invariant: the join meets each order once, whichever build has it. It skips rows of
//! equal bytes without decoding them.

use std::cmp::Ordering;
use std::collections::VecDeque;

use payfold_engines::EngineError;
use payfold_engines::orders::{Cursor, OrderStore, Walked};
use payfold_schemas::order::Order;

/// Rows read at once from each build.
const PAGE: usize = 1_000;

/// A walk along two builds.
pub struct BuildJoin<'a> {
    live: BuildWalk<'a>,
    new: BuildWalk<'a>,
    orders_met: u64,
}

/// One order as both builds have it; at least one of them does.
#[derive(Clone, Debug)]
pub struct OrderPair {
    /// The row of the live build.
    pub live: Option<Walked>,
    /// The row of the new build.
    pub new: Option<Walked>,
}

impl OrderPair {
    /// The order as the live build has it. Errors: `Corrupt`.
    pub(crate) fn live_order(&self) -> Result<Option<Order>, EngineError> {
        self.live.as_ref().map(Walked::order).transpose()
    }

    /// The order as the new build has it. Errors: `Corrupt`.
    pub(crate) fn new_order(&self) -> Result<Option<Order>, EngineError> {
        self.new.as_ref().map(Walked::order).transpose()
    }

    /// The cursor that continues a walk after this order.
    pub fn cursor(&self) -> Option<Cursor> {
        self.live.as_ref().or(self.new.as_ref()).map(Walked::cursor)
    }
}

/// A walk along one build, a page at a time.
struct BuildWalk<'a> {
    store: &'a dyn OrderStore,
    rows: VecDeque<Walked>,
    after: Option<Cursor>,
    ended: bool,
}

impl<'a> BuildWalk<'a> {
    fn new(store: &'a dyn OrderStore, after: Option<Cursor>) -> Self {
        Self { store, rows: VecDeque::new(), after, ended: false }
    }

    /// Reads the next page once the last one is used up.
    async fn fill(&mut self) -> Result<(), EngineError> {
        if !self.rows.is_empty() || self.ended {
            return Ok(());
        }
        let rows = self.store.walk(self.after.clone(), PAGE).await?;
        match rows.last() {
            Some(last) => self.after = Some(last.cursor()),
            None => self.ended = true,
        }
        self.rows = rows.into();
        Ok(())
    }
}

impl<'a> BuildJoin<'a> {
    /// Walks along both builds after a cursor, or from the start without one.
    pub fn new(live: &'a dyn OrderStore, new: &'a dyn OrderStore, after: Option<Cursor>) -> Self {
        let (live, new) = (BuildWalk::new(live, after.clone()), BuildWalk::new(new, after));
        Self { live, new, orders_met: 0 }
    }

    /// How many orders the join has met so far, equal ones included.
    pub fn orders_met(&self) -> u64 {
        self.orders_met
    }

    /// The next order with rows that differ in any byte; `None` at the end. Errors: the engines'; a
    /// retry continues at the same order.
    pub async fn next_unequal(&mut self) -> Result<Option<OrderPair>, EngineError> {
        loop {
            self.live.fill().await?;
            self.new.fill().await?;
            let side = match (self.live.rows.front(), self.new.rows.front()) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(live), Some(new)) => live.compare_place(new),
            };
            self.orders_met = self.orders_met.saturating_add(1);
            let pair = match side {
                Ordering::Less => OrderPair { live: self.live.rows.pop_front(), new: None },
                Ordering::Greater => OrderPair { live: None, new: self.new.rows.pop_front() },
                Ordering::Equal => {
                    OrderPair { live: self.live.rows.pop_front(), new: self.new.rows.pop_front() }
                }
            };
            if pair.live != pair.new {
                return Ok(Some(pair));
            }
        }
    }
}
