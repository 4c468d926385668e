//! Owns the choice of engines by URL and their pairing. Only here and in tests are engines named.
//! Invariant: log and orders are both embedded or both distributed. Without the feature `cluster` there are no
//! distributed ones, and whoever names them is told so.

pub mod asked;
#[cfg(feature = "cluster")]
mod distributed;
#[cfg(not(feature = "cluster"))]
#[path = "wiring/embedded_only.rs"]
mod distributed;
mod embedded;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use payfold_engines::log::EventLog;
use payfold_engines::log::sqlite::{CommitObserver, SqliteLog, SqliteLogSettings};
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::live::Live;
use payfold_engines::orders::sqlite::{PairedClaims, SqliteOrdersSettings};
use payfold_engines::{EngineError, pairing};
use prometheus::{Histogram, HistogramOpts, IntCounter, Registry};

pub use self::distributed::{Distributed, Twin};
pub use self::embedded::Paths;
use crate::error::Fixable;
use crate::search;
use crate::settings::Settings;

/// What to do where log, order store and claims don't belong together.
const RESTORE: &str = "restore log.db and orders.claims.db as they were used together: put the files back with their -wal, or \
    `payfold log restore` a backup (at scale, topic and table); until then move, delete and make nothing; \
    docs/operations.md, \"Corrupt\"";

/// The engines of one process.
pub struct Engines {
    /// The event log.
    pub log: Arc<dyn EventLog>,
    stores: Option<Stores>,
    /// The compacted twin of `orders`, where there is one.
    twin: Option<Twin>,
    /// What the claims are compared with the log by; none in a process without an order store.
    claims: Option<ClaimsPair>,
    /// How the log is kept, for the banner.
    pub durability: &'static str,
    /// Whether the engines are files of this machine.
    pub embedded: bool,
}

/// Log and claims, as the engines they are.
enum ClaimsPair {
    Files(Arc<SqliteLog>, PairedClaims),
    #[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "there are no tables"))]
    Tables(distributed::Tables),
}

/// The order store, as it is folded into and as it is read.
struct Stores {
    base: Arc<dyn OrderStore>,
    live: Arc<Live>,
    reads: Arc<dyn OrderStore>,
}

impl Stores {
    fn new(log: &Arc<dyn EventLog>, base: Arc<dyn OrderStore>) -> Self {
        let live = Arc::new(Live::new(Arc::clone(log), Arc::clone(&base)));
        let reads: Arc<dyn OrderStore> = Arc::clone(&live) as Arc<dyn OrderStore>;
        Self { base, live, reads }
    }
}

/// Which engines a process needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// None at all.
    Nothing,
    /// The log only: what takes notices does not need the database.
    Log,
    /// Both.
    Both,
}

/// The engines that the settings name.
#[derive(Clone, Debug)]
pub enum Chosen {
    /// SQLite files.
    Embedded(Paths),
    /// Kafka, and a CQL database unless none is named.
    Distributed(Box<Distributed>),
}

/// The engines the settings name. Errors: a URL that names none, or a mix.
pub fn chosen(settings: &Settings) -> anyhow::Result<Chosen> {
    let distributed = (settings.logs_to_kafka(), settings.orders.starts_with("cql"));
    match distributed {
        (false, false) => Ok(Chosen::Embedded(Paths::of(settings)?)),
        (true, _) if distributed.1 || settings.orders.is_empty() => {
            Ok(Chosen::Distributed(Box::new(Distributed::of(settings)?)))
        }
        _ => Err(Fixable::error(
            format!(
                "log = \"{}\" with orders = \"{}\": a SQLite file is one process's, Kafka and CQL are shared by \
                 many, and a mix would be folded by some and read by others",
                settings.log, settings.orders
            ),
            "name both engines as sqlite: (or leave both out), or log as kafka:// and orders as cql://",
        )),
    }
}

impl Engines {
    /// Engines that are open.
    pub fn new(log: Arc<dyn EventLog>, store: Option<Arc<dyn OrderStore>>) -> Self {
        let stores = store.map(|store| Stores::new(&log, store));
        let durability = "engines of a test";
        Self { log, stores, twin: None, claims: None, durability, embedded: false }
    }

    /// The order store as readers see it: the generation that is told. Errors: this process has none.
    pub fn store(&self) -> anyhow::Result<&Arc<dyn OrderStore>> {
        Ok(&self.stores()?.reads)
    }

    /// The order store itself, for whoever folds and for what is about its generations. Errors: this process has none.
    pub fn base(&self) -> anyhow::Result<&Arc<dyn OrderStore>> {
        Ok(&self.stores()?.base)
    }

    /// What moves readers to another generation; none without an order store.
    pub fn live(&self) -> Option<&Arc<Live>> {
        self.stores.as_ref().map(|stores| &stores.live)
    }

    /// The compacted twin of `orders`, to be kept beside the projector; none where there is none.
    pub fn twin(&self) -> Option<Twin> {
        self.twin.clone()
    }

    fn stores(&self) -> anyhow::Result<&Stores> {
        self.stores.as_ref().context("this process was started without an order store")
    }

    /// Opens what is needed for a running system and checks that it belongs together.
    pub async fn open(
        settings: &Settings,
        registry: &Registry,
        need: Need,
    ) -> anyhow::Result<Option<Self>> {
        if need == Need::Nothing {
            return Ok(None);
        }
        let opened = match chosen(settings)? {
            Chosen::Embedded(paths) => Self::open_files(settings, &paths, registry).await?,
            Chosen::Distributed(distributed) => distributed.open(registry, need).await?,
        };
        Ok(Some(opened))
    }

    /// Checks that what is read of the order store was folded from the log. Errors: it was not; the log was written by a
    /// newer program.
    async fn check_store(&self) -> anyhow::Result<()> {
        let Some(stores) = &self.stores else { return Ok(()) };
        stores.live.look().await.map_err(explain)?;
        // Who only writes reads nothing, and may be older than who reads.
        search::refuse_newer(&*self.log).await?;
        pairing::check(&*self.log, &*stores.reads).await.map_err(explain_pairing)
    }

    /// Ends log and claims: what they took is where a restart finds it when this returns. Errors: the engines'.
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

    async fn open_files(
        settings: &Settings,
        paths: &Paths,
        registry: &Registry,
    ) -> anyhow::Result<Self> {
        let log_settings = SqliteLogSettings {
            queue_max: settings.ingest.queue_max,
            observer: Some(commit_metrics(registry)?),
            ..SqliteLogSettings::default()
        };
        let orders_settings = SqliteOrdersSettings {
            writer_cache_kib: settings.sqlite.orders_cache_mib.saturating_mul(1_024),
            ..SqliteOrdersSettings::default()
        };
        Self::open_paired(paths, log_settings, orders_settings).await
    }

    /// Opens both for listings, beside a running system or without one; nothing can be changed.
    pub async fn open_to_read(settings: &Settings) -> anyhow::Result<Self> {
        let paths = match chosen(settings)? {
            Chosen::Embedded(paths) => paths,
            Chosen::Distributed(distributed) => {
                return distributed.open_to_read().await?.into_reader().await;
            }
        };
        Self::open_files_to_read(&paths).await
    }

    /// What is told at this moment.
    async fn into_reader(self) -> anyhow::Result<Self> {
        if let Some(live) = self.live() {
            live.look().await.map_err(explain)?;
        }
        Ok(Self { durability: "read-only", ..self })
    }

    /// Checks that order store and claims belong to the log. Errors: they don't, with what to do.
    pub async fn check_pair(&self) -> anyhow::Result<()> {
        pairing::check(&*self.log, &**self.store()?).await.map_err(explain_pairing)?;
        self.check_claims().await
    }

    async fn check_claims(&self) -> anyhow::Result<()> {
        let checked = match &self.claims {
            Some(ClaimsPair::Files(log, claims)) => pairing::claims::check_files(log, claims).await,
            Some(ClaimsPair::Tables(tables)) => tables.check(&*self.log).await,
            None => Ok(()),
        };
        checked.map_err(explain_pairing)
    }
}

/// Counts what the log's writer does: `payfold_engine_sync_duration_seconds` and `payfold_engine_rows_total`.
fn commit_metrics(registry: &Registry) -> anyhow::Result<CommitObserver> {
    let options = HistogramOpts::new(
        "payfold_engine_sync_duration_seconds",
        "One commit of the log, from its begin until it is synced, or acknowledged by the in-sync replicas.",
    );
    let buckets = prometheus::exponential_buckets(0.000_1, 2.5, 12)?;
    let sync_duration = Histogram::with_opts(options.buckets(buckets))?;
    let rows = IntCounter::new("payfold_engine_rows_total", "Messages made durable.")?;
    registry.register(Box::new(sync_duration.clone()))?;
    registry.register(Box::new(rows.clone()))?;
    Ok(Arc::new(move |committed, duration: Duration| {
        sync_duration.observe(duration.as_secs_f64());
        rows.inc_by(u64::try_from(committed).unwrap_or(0));
    }))
}

pub(crate) fn explain(error: EngineError) -> anyhow::Error {
    let fix = match &error {
        EngineError::Unavailable(_) => {
            "mend that, then start again; `payfold check --connect` looks at folder, disk and engines"
        }
        EngineError::Invalid(_) => "`payfold check --connect` tells what the settings should be",
        EngineError::Corrupt(_) => {
            "keep everything as it is; docs/operations.md, \"Corrupt\" says how to recover"
        }
    };
    Fixable::error(error.to_string(), fix)
}

/// Says how files or tables that don't belong together are restored.
pub(crate) fn explain_pairing(error: EngineError) -> anyhow::Error {
    match error {
        EngineError::Corrupt(_) => Fixable::difference(error.to_string(), RESTORE),
        EngineError::Unavailable(_) | EngineError::Invalid(_) => explain(error),
    }
}
