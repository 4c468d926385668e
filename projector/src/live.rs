//! Owns the order store as readers see it: the published build. It changes under them once a switch
//! is complete.
//!
//! Invariants: it moves to a build only when that build has passed the switch's marker in every
//! partition, so that no order is read older than before. It never moves back to an earlier
//! publication. What is read between two equal values of `epoch` is of that epoch.

use std::sync::{Arc, Mutex};

use payfold_engines::log::epoch::{current, publication_in};
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::{
    ClaimKey, Claimed, Commit, Cursor, Footprint, MoneyPage, OrderStore, Page, Progress, Scan,
    Walked, Window,
};
use payfold_engines::{EngineError, SeamFuture, pairing};
use payfold_schemas::chain::Head;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::position::Position;
use payfold_schemas::publication::Publication;

use crate::journal::{Builds, Journal};
use crate::lock::lock;

/// The build that readers see now.
struct CurrentBuild {
    store: Arc<dyn OrderStore>,
    publication: Publication,
}

/// A store that follows the published build. It is for reading and claiming; a projector opens the
/// build it folds into.
pub struct LiveStore {
    log: Arc<dyn EventLog>,
    base: Arc<dyn OrderStore>,
    journal: Journal,
    now: Mutex<CurrentBuild>,
}

impl LiveStore {
    /// A store on the first build of `base`; `refresh` moves it to the published one.
    pub fn new(log: Arc<dyn EventLog>, base: Arc<dyn OrderStore>) -> Self {
        let journal = Journal::new(Arc::clone(&base));
        let now = CurrentBuild { store: Arc::clone(&base), publication: Publication::FIRST };
        Self { log, base, journal, now: Mutex::new(now) }
    }

    /// The publication that readers see now.
    pub fn publication(&self) -> Publication {
        lock(&self.now).publication
    }

    /// Moves to the newest build with a complete switch; returns whether it moved. Errors: the
    /// engines'; readers stay on the build they see then.
    pub async fn refresh(&self) -> Result<bool, EngineError> {
        let known = self.journal.read().await?;
        let before = self.publication();
        for publication in known.publications().iter().rev() {
            if publication.epoch <= before.epoch {
                return Ok(false);
            }
            if known.get(publication.build).is_none() {
                continue;
            }
            let store = self.base.build(publication.build).await?;
            if self.is_switch_complete(&known, *publication, &*store).await? {
                *lock(&self.now) = CurrentBuild { store, publication: *publication };
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks that the build that is published, or will be after a switch under way, goes on where
    /// earlier log epochs ended. Errors: `Invalid` with what to do; the engines'.
    pub async fn check_sealed(&self) -> Result<(), EngineError> {
        let build = self.journal.read().await?.published().build;
        pairing::check_build(&*self.log, &*self.base.build(build).await?).await
    }

    /// Whether every partition is folded past the marker of this publication.
    async fn is_switch_complete(
        &self,
        known: &Builds,
        publication: Publication,
        store: &dyn OrderStore,
    ) -> Result<bool, EngineError> {
        if known.unmarked_switch().is_some_and(|switch| switch.publication == publication) {
            return Ok(false);
        }
        let extents = self.log.extent(Topic::Intake).await?;
        let Some(progress) = store.progress().await? else { return Ok(false) };
        Ok(has_passed_switch(&progress, &current(&extents), publication.epoch))
    }

    fn now(&self) -> Arc<dyn OrderStore> {
        Arc::clone(&lock(&self.now).store)
    }
}

/// Whether these partitions are folded past the marker of the switch to this epoch, or were made
/// after it.
pub(crate) fn has_passed_switch(progress: &Progress, partitions: &[u32], epoch: u32) -> bool {
    let published = progress.publications();
    partitions.iter().all(|partition| publication_in(*partition, &published).epoch >= epoch)
}

impl OrderStore for LiveStore {
    fn load(&self, keys: Vec<OrderKey>) -> SeamFuture<'_, Vec<Option<Order>>, EngineError> {
        let now = self.now();
        Box::pin(async move { now.load(keys).await })
    }

    fn commit(&self, _commit: Commit) -> SeamFuture<'_, (), EngineError> {
        let text =
            "the published build is open for reading only: open a build by its number to fold";
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

    fn build(&self, build: u32) -> SeamFuture<'_, Arc<dyn OrderStore>, EngineError> {
        self.base.build(build)
    }

    fn drop_build(&self, build: u32) -> SeamFuture<'_, (), EngineError> {
        self.base.drop_build(build)
    }

    fn footprint(&self) -> SeamFuture<'_, Footprint, EngineError> {
        let now = self.now();
        Box::pin(async move { now.footprint().await })
    }

    fn epoch(&self) -> u32 {
        self.publication().epoch
    }
}
