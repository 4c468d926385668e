//! Owns the open engines of one process: the log, the order store for writers and for readers, and
//! the checks that they belong together.

use std::sync::Arc;

use anyhow::Context;
use arc_swap::ArcSwap;
use payfold_checkout::paired_claims;
use payfold_engines::clock::SystemClock;
use payfold_engines::log::EventLog;
use payfold_engines::log::authenticated::AuthenticatedLog;
use payfold_engines::log::sqlite::SqliteLog;
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::sqlite::PairedClaims;
use payfold_engines::{EngineError, pairing};
use payfold_projector::live::LiveStore;
use payfold_schemas::record_keys::RecordKeys;
use payfold_schemas::record_mac::Writer;

use super::distributed::compacted_copy::{ClaimsTable, CompactedCopy};
use super::explain::{explain, explain_pairing, refuse_newer};

/// The engines of one process.
pub struct Engines {
    /// The event log, as operators write it; what is read is checked with the record keys.
    pub log: Arc<dyn EventLog>,
    /// The log itself.
    pub(crate) raw: Arc<dyn EventLog>,
    /// The record keys in force; the pointee is swapped when the vault changes.
    pub(crate) record_keys: Arc<ArcSwap<RecordKeys>>,
    pub(super) stores: Option<Stores>,
    /// The compacted copy of `orders`, if there is one.
    pub(super) compacted_copy: Option<CompactedCopy>,
    /// Log and claims, to check that they belong together; `None` in a process without an order
    /// store.
    pub(super) claims: Option<ClaimsPair>,
    /// The durability of the log, for the banner.
    pub durability: &'static str,
    /// Whether the engines are files of this machine.
    pub embedded: bool,
}

/// Log and claims of the same kind of engine.
pub(super) enum ClaimsPair {
    Files(Arc<SqliteLog>, PairedClaims),
    #[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "there are no tables"))]
    Tables(ClaimsTable),
}

/// The order store for writers (`base`) and for readers of the published build (`reads`).
pub(super) struct Stores {
    base: Arc<dyn OrderStore>,
    live: Arc<LiveStore>,
    reads: Arc<dyn OrderStore>,
}

impl Stores {
    fn new(log: &Arc<dyn EventLog>, base: Arc<dyn OrderStore>) -> Self {
        let live = Arc::new(LiveStore::new(Arc::clone(log), Arc::clone(&base)));
        let reads: Arc<dyn OrderStore> = Arc::clone(&live) as Arc<dyn OrderStore>;
        Self { base, live, reads }
    }
}

fn authenticated(
    log: &Arc<dyn EventLog>,
    keys: &Arc<ArcSwap<RecordKeys>>,
    writer: Writer,
) -> Arc<dyn EventLog> {
    let (log, keys) = (Arc::clone(log), Arc::clone(keys));
    Arc::new(AuthenticatedLog::new(log, keys, writer, Arc::new(SystemClock)))
}

/// Which engines a process needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// No engine.
    Nothing,
    /// The log only: ingest does not need the order store.
    Log,
    /// The log and the order store.
    Both,
}

impl Engines {
    /// Combines open engines. Messages of the log are checked with these keys until others are in
    /// force.
    pub fn new(
        raw: Arc<dyn EventLog>,
        store: Option<Arc<dyn OrderStore>>,
        keys: RecordKeys,
    ) -> Self {
        let record_keys = Arc::new(ArcSwap::from_pointee(keys));
        let log = authenticated(&raw, &record_keys, Writer::Operator);
        let stores = store.map(|store| Stores::new(&log, store));
        let durability = "engines of a test";
        Self {
            log,
            raw,
            record_keys,
            stores,
            compacted_copy: None,
            claims: None,
            durability,
            embedded: false,
        }
    }

    /// The log as this role writes it.
    pub(crate) fn log_of(&self, writer: Writer) -> Arc<dyn EventLog> {
        authenticated(&self.raw, &self.record_keys, writer)
    }

    /// The order store for readers: it reads the published build. Errors: this process has no order
    /// store.
    pub fn store(&self) -> anyhow::Result<&Arc<dyn OrderStore>> {
        Ok(&self.stores()?.reads)
    }

    /// The order store for the fold and for work on builds. Errors: this process has no order
    /// store.
    pub fn base(&self) -> anyhow::Result<&Arc<dyn OrderStore>> {
        Ok(&self.stores()?.base)
    }

    /// The switch of readers between builds; `None` without an order store.
    pub fn live(&self) -> Option<&Arc<LiveStore>> {
        self.stores.as_ref().map(|stores| &stores.live)
    }

    /// The compacted copy of `orders`, which runs beside the projector; `None` if there is none.
    pub(crate) fn compacted_copy(&self) -> Option<CompactedCopy> {
        self.compacted_copy.clone()
    }

    fn stores(&self) -> anyhow::Result<&Stores> {
        self.stores.as_ref().context("this process has no order store")
    }

    /// Checks that the published build was folded from the log. Errors: it was not; a newer program
    /// wrote the log.
    pub(super) async fn check_store(&self) -> anyhow::Result<()> {
        let Some(stores) = &self.stores else { return Ok(()) };
        stores.live.refresh().await.map_err(explain)?;
        stores.live.check_sealed().await.map_err(explain)?;
        // Only readers check this: a process that only appends may be older than the newest writer.
        refuse_newer(&*self.log).await?;
        pairing::check(&*self.log, &*stores.reads).await.map_err(explain_pairing)
    }

    /// Closes log and claims. When this returns, everything they accepted is in the files that a
    /// restart opens. Errors: the engines'.
    pub async fn close(&self) -> Result<(), EngineError> {
        let claims = async {
            match &self.stores {
                Some(stores) => stores.base.close().await,
                None => Ok(()),
            }
        };
        let (log, claims) = tokio::join!(self.log.close(), claims);
        log.and(claims)
    }

    /// Makes read-only engines that read the build that is published now.
    pub(super) async fn into_reader(self) -> anyhow::Result<Self> {
        if let Some(live) = self.live() {
            live.refresh().await.map_err(explain)?;
        }
        Ok(Self { durability: "read-only", ..self })
    }

    /// Checks that order store and claims belong to the log. Errors: they don't, with what to do.
    pub async fn check_pair(&self) -> anyhow::Result<()> {
        pairing::check(&*self.log, &**self.store()?).await.map_err(explain_pairing)?;
        if let Some(stores) = &self.stores {
            stores.live.check_sealed().await.map_err(explain)?;
        }
        self.check_claims().await
    }

    pub(super) async fn check_claims(&self) -> anyhow::Result<()> {
        let checked = match &self.claims {
            Some(ClaimsPair::Files(log, claims)) => paired_claims::check_files(log, claims).await,
            Some(ClaimsPair::Tables(tables)) => tables.check(&*self.log).await,
            None => Ok(()),
        };
        checked.map_err(explain_pairing)
    }
}
