//! Owns reading the keys of all orders of a store, page by page.

use payfold_engines::EngineError;
use payfold_engines::orders::{Cursor, OrderStore, Scan};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::time::Time;

const EVER: Scan =
    Scan::Created { from: Time::from_unix_nanos(i64::MIN), until: Time::from_unix_nanos(i64::MAX) };

/// The position of a reading of all orders.
pub(crate) struct EveryOrder<'s> {
    store: &'s dyn OrderStore,
    after: Option<Cursor>,
    is_over: bool,
}

impl<'s> EveryOrder<'s> {
    /// Starts before the first order.
    pub(crate) fn of(store: &'s dyn OrderStore) -> Self {
        Self { store, after: None, is_over: false }
    }

    /// Reads the next keys, by the time their orders were first seen; `None` after the last.
    /// Errors: the engine's.
    pub(crate) async fn next(
        &mut self,
        limit: usize,
    ) -> Result<Option<Vec<OrderKey>>, EngineError> {
        if self.is_over {
            return Ok(None);
        }
        let page = self.store.scan(EVER, self.after.take(), limit).await?;
        (self.is_over, self.after) = (page.next.is_none(), page.next);
        Ok(Some(page.entries.into_iter().map(|(key, _)| key).collect()))
    }
}
