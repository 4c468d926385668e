//! Owns the order store as readers see it: the generation that is told now, changed under them when a switch is through.
//! Invariants: it moves only when every partition's fold into the new tables has passed the switch's marker, so that no
//! order is read older than before; it never moves back to an earlier publication; what is read between two equal numbers
//! is of that number.

use std::sync::{Arc, Mutex};

use payfold_schemas::chain::Head;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::publication::Publication;
use payfold_schemas::record::Position;

use super::{
    ClaimKey, Claimed, Commit, Cursor, Footprint, MoneyPage, OrderStore, Page, Progress, Scan,
    Walked, Window,
};
use crate::generations::{Generations, Journal};
use crate::log::epoch::current;
use crate::log::{EventLog, Topic};
use crate::{EngineError, SeamFuture, lock};

/// The generation that is read now.
struct Now {
    store: Arc<dyn OrderStore>,
    publication: Publication,
}

/// A store that follows what is told. It is for reading and claiming; who folds opens a generation of its own.
pub struct Live {
    log: Arc<dyn EventLog>,
    base: Arc<dyn OrderStore>,
    journal: Journal,
    now: Mutex<Now>,
}

impl Live {
    /// Follows the generations of `base`, beginning with the first; `look` finds the present one.
    pub fn new(log: Arc<dyn EventLog>, base: Arc<dyn OrderStore>) -> Self {
        let journal = Journal::new(Arc::clone(&base));
        let now = Now { store: Arc::clone(&base), publication: Publication::FIRST };
        Self { log, base, journal, now: Mutex::new(now) }
    }

    /// What is read now.
    pub fn publication(&self) -> Publication {
        lock(&self.now).publication
    }

    /// Looks whether something newer is told, and moves there; returns whether it did. Errors: the engines'; what was
    /// read before is read on.
    pub async fn look(&self) -> Result<bool, EngineError> {
        let known = self.journal.read().await?;
        let before = self.publication();
        for publication in known.publications().iter().rev() {
            if publication.number <= before.number {
                return Ok(false);
            }
            if known.get(publication.tables).is_none() {
                continue;
            }
            let store = self.base.generation(publication.tables).await?;
            if self.is_through(&known, *publication, &*store).await? {
                *lock(&self.now) = Now { store, publication: *publication };
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether every partition is folded past the marker that lets this be told.
    async fn is_through(
        &self,
        known: &Generations,
        publication: Publication,
        store: &dyn OrderStore,
    ) -> Result<bool, EngineError> {
        if known.unmarked().is_some_and(|switch| switch.publication == publication) {
            return Ok(false);
        }
        let extents = self.log.extent(Topic::Intake).await?;
        let Some(progress) = store.progress().await? else { return Ok(false) };
        Ok(passed(&progress, &current(&extents), publication.number))
    }

    fn now(&self) -> Arc<dyn OrderStore> {
        Arc::clone(&lock(&self.now).store)
    }
}

/// Whether these partitions are folded past the marker of a switch of this number.
pub fn passed(progress: &Progress, partitions: &[u32], number: u32) -> bool {
    partitions.iter().all(|partition| {
        let mut of = progress.folded.iter().filter(|one| one.position.partition == *partition);
        of.any(|one| one.publication.number >= number)
    })
}

impl OrderStore for Live {
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        let now = self.now();
        Box::pin(async move { now.load(keys).await })
    }

    fn commit(&self, _commit: Commit) -> SeamFuture<'_, (), EngineError> {
        let text = "who reads what is told commits nothing: folding has a generation of its own";
        Box::pin(std::future::ready(Err(EngineError::Invalid(text.to_owned()))))
    }

    fn scan(
        &self,
        scan: Scan,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Page, EngineError> {
        let now = self.now();
        Box::pin(async move { now.scan(scan, after, limit).await })
    }

    fn money(
        &self,
        window: Window,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, MoneyPage, EngineError> {
        let now = self.now();
        Box::pin(async move { now.money(window, after, limit).await })
    }

    fn claim(&self, key: ClaimKey, record: Vec<u8>) -> SeamFuture<'_, Claimed, EngineError> {
        self.base.claim(key, record)
    }

    fn claimed(&self, key: ClaimKey) -> SeamFuture<'_, Option<Vec<u8>>, EngineError> {
        self.base.claimed(key)
    }

    fn check_storage(&self) -> SeamFuture<'_, (), EngineError> {
        self.base.check_storage()
    }

    fn close(&self) -> SeamFuture<'_, (), EngineError> {
        self.base.close()
    }

    fn progress(&self) -> SeamFuture<'_, Option<Progress>, EngineError> {
        let now = self.now();
        Box::pin(async move { now.progress().await })
    }

    fn heads(
        &self,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<(Position, Head)>, EngineError> {
        let now = self.now();
        Box::pin(async move { now.heads(after, limit).await })
    }

    fn walk(
        &self,
        after: Option<Cursor>,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Walked>, EngineError> {
        let now = self.now();
        Box::pin(async move { now.walk(after, limit).await })
    }

    fn generation(&self, tables: u32) -> SeamFuture<'_, Arc<dyn OrderStore>, EngineError> {
        self.base.generation(tables)
    }

    fn drop_generation(&self, tables: u32) -> SeamFuture<'_, (), EngineError> {
        self.base.drop_generation(tables)
    }

    fn footprint(&self) -> SeamFuture<'_, Footprint, EngineError> {
        let now = self.now();
        Box::pin(async move { now.footprint().await })
    }

    fn number(&self) -> u32 {
        self.publication().number
    }
}
