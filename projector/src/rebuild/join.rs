//! Owns the reading of two generations side by side: one walk along each, in the same order, in constant memory.
//! Invariant: an order is met once, whichever of them has it; rows of equal bytes are passed over undecoded.

use std::cmp::Ordering;
use std::collections::VecDeque;

use payfold_engines::EngineError;
use payfold_engines::orders::{Cursor, OrderStore, Walked};
use payfold_schemas::order::Order;

/// Rows read at once, of each side.
const PAGE: usize = 1_000;

/// A walk along two generations.
pub struct Join<'a> {
    live: Side<'a>,
    new: Side<'a>,
    seen: u64,
}

/// One order as both have it; at least one does.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The row of the one that is told.
    pub live: Option<Walked>,
    /// The row of the other.
    pub new: Option<Walked>,
}

impl Pair {
    /// The order as it is told. Errors: `Corrupt`.
    pub fn live_order(&self) -> Result<Option<Order>, EngineError> {
        self.live.as_ref().map(Walked::order).transpose()
    }

    /// The order as the other has it. Errors: `Corrupt`.
    pub fn new_order(&self) -> Result<Option<Order>, EngineError> {
        self.new.as_ref().map(Walked::order).transpose()
    }

    /// Where a walk goes on after this order.
    pub fn cursor(&self) -> Option<Cursor> {
        self.live.as_ref().or(self.new.as_ref()).map(Walked::cursor)
    }
}

struct Side<'a> {
    store: &'a dyn OrderStore,
    rows: VecDeque<Walked>,
    after: Option<Cursor>,
    ended: bool,
}

impl<'a> Side<'a> {
    fn new(store: &'a dyn OrderStore, after: Option<Cursor>) -> Self {
        Self { store, rows: VecDeque::new(), after, ended: false }
    }

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

impl<'a> Join<'a> {
    /// Walks along both after a cursor, from the start without one.
    pub fn new(live: &'a dyn OrderStore, new: &'a dyn OrderStore, after: Option<Cursor>) -> Self {
        let (live, new) = (Side::new(live, after.clone()), Side::new(new, after));
        Self { live, new, seen: 0 }
    }

    /// How many orders it has come by.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The next order whose rows are not equal byte by byte; none at the end. Errors: the engines'; asked again it goes
    /// on where it stood.
    pub async fn next_unequal(&mut self) -> Result<Option<Pair>, EngineError> {
        loop {
            self.live.fill().await?;
            self.new.fill().await?;
            let side = match (self.live.rows.front(), self.new.rows.front()) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(live), Some(new)) => live.compare_place(new),
            };
            self.seen = self.seen.saturating_add(1);
            let pair = match side {
                Ordering::Less => Pair { live: self.live.rows.pop_front(), new: None },
                Ordering::Greater => Pair { live: None, new: self.new.rows.pop_front() },
                Ordering::Equal => {
                    Pair { live: self.live.rows.pop_front(), new: self.new.rows.pop_front() }
                }
            };
            if pair.live != pair.new {
                return Ok(Some(pair));
            }
        }
    }
}
