//! Owns the choice of engines by URL and their pairing. Only here and in tests are engines named.
//! Invariant: log and orders are both embedded or both distributed.

mod distributed;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use payfold_engines::log::EventLog;
use payfold_engines::log::kafka::{KafkaLog, KafkaSettings, Latest};
use payfold_engines::log::sqlite::{CommitObserver, SqliteLog, SqliteLogSettings};
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::cql::CqlOrders;
use payfold_engines::orders::live::Live;
use payfold_engines::orders::sqlite::{SqliteOrders, SqliteOrdersSettings, claims_beside};
use payfold_engines::{EngineError, pairing};
use prometheus::{Histogram, HistogramOpts, IntCounter, Registry};

pub use self::distributed::{Distributed, topics_wanted};
use crate::data_dir::DataDir;
use crate::error::Fixable;
use crate::search;
use crate::settings::Settings;

/// The engines of one process.
pub struct Engines {
    /// The event log.
    pub log: Arc<dyn EventLog>,
    stores: Option<Stores>,
    /// Where the compacted twin of `orders` is kept.
    latest: Option<KafkaSettings>,
    /// How the log is kept, for the banner.
    pub durability: &'static str,
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

/// Where the embedded engines' files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The log's database.
    pub log: PathBuf,
    /// The orders' database.
    pub orders: PathBuf,
}

impl Paths {
    /// The files of the generations that are beside the first one, by name (`orders.g2.db`), where they are.
    pub fn generations(&self) -> std::io::Result<Vec<(String, PathBuf)>> {
        let stem = self.orders.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let parent = self.orders.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut found = Vec::new();
        for entry in std::fs::read_dir(parent.unwrap_or(Path::new(".")))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let number =
                name.strip_prefix(&format!("{stem}.g")).and_then(|rest| rest.strip_suffix(".db"));
            if let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) {
                found.push((format!("orders.g{number}.db"), path));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Where the file of a generation is, by the name `generations` gives it.
    pub fn generation(&self, name: &str) -> Option<PathBuf> {
        let number = name.strip_prefix("orders.g")?.strip_suffix(".db")?.parse::<u32>().ok()?;
        Some(self.orders.with_extension(format!("g{number}.db")))
    }

    /// Where the claims are.
    pub fn claims(&self) -> PathBuf {
        claims_beside(&self.orders)
    }
}

/// The engines the settings name. Errors: a URL that names none, or a mix.
pub fn chosen(settings: &Settings) -> anyhow::Result<Chosen> {
    let distributed = (settings.logs_to_kafka(), settings.orders.starts_with("cql"));
    match distributed {
        (false, false) => {
            let data = DataDir::of(settings);
            Ok(Chosen::Embedded(Paths {
                log: path("log", &settings.log, data.file("log.db"))?,
                orders: path("orders", &settings.orders, data.file("orders.db"))?,
            }))
        }
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

fn path(setting: &str, url: &str, default: PathBuf) -> anyhow::Result<PathBuf> {
    match url.split_once(':') {
        None if url.is_empty() => Ok(default),
        Some(("sqlite", path)) if !path.is_empty() => Ok(Path::new(path).to_owned()),
        _ => Err(Fixable::error(
            format!("{setting} = \"{url}\" names no engine of this version"),
            format!(
                "write {setting} = \"sqlite:PATH\" or leave it out; at scale log = \"kafka://…\" and orders = \
                 \"cql://…\""
            ),
        )),
    }
}

impl Engines {
    /// Engines that are open.
    pub fn new(log: Arc<dyn EventLog>, store: Option<Arc<dyn OrderStore>>) -> Self {
        let stores = store.map(|store| Stores::new(&log, store));
        Self { log, stores, latest: None, durability: "engines of a test" }
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

    /// What keeps the compacted twin of `orders`; none where there is none.
    pub fn latest(&self) -> Option<Latest> {
        let settings = self.latest.clone()?;
        Some(Latest::new(settings, Arc::clone(&self.log)))
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
            Chosen::Embedded(paths) => Self::open_files(settings, &paths, registry)?,
            Chosen::Distributed(distributed) => {
                Self::open_cluster(&distributed, registry, need).await?
            }
        };
        if let Some(stores) = &opened.stores {
            stores.live.look().await.map_err(explain)?;
            // Who only writes reads nothing, and may be older than who reads.
            search::refuse_newer(&*opened.log).await?;
            pairing::check(&*opened.log, &*stores.reads).await.map_err(explain)?;
        }
        Ok(Some(opened))
    }

    fn open_files(settings: &Settings, paths: &Paths, registry: &Registry) -> anyhow::Result<Self> {
        let log_settings = SqliteLogSettings {
            queue_max: settings.ingest.queue_max,
            observer: Some(commit_metrics(registry)?),
            ..SqliteLogSettings::default()
        };
        let log = SqliteLog::open(&paths.log, log_settings).map_err(explain)?;
        let orders_settings = SqliteOrdersSettings {
            writer_cache_kib: settings.sqlite.orders_cache_mib.saturating_mul(1_024),
            ..SqliteOrdersSettings::default()
        };
        let store = SqliteOrders::open_with(&paths.orders, orders_settings).map_err(explain)?;
        let durability = "SQLite, every 200 is synced first";
        Ok(Self { durability, ..Self::new(Arc::new(log), Some(Arc::new(store))) })
    }

    async fn open_cluster(
        distributed: &Distributed,
        registry: &Registry,
        need: Need,
    ) -> anyhow::Result<Self> {
        distributed.refuse_unsafe().await?;
        let observers = distributed::observers(registry, commit_metrics(registry)?)?;
        let open = async || KafkaLog::open(&distributed.kafka, observers.clone()).await;
        let log = distributed::patiently("open the log", open).await?;
        let store: Option<Arc<dyn OrderStore>> = match need {
            Need::Both => {
                let cql = distributed.cql()?;
                let told = distributed::statements(registry)?;
                let open = async || CqlOrders::open_observed(cql.clone(), Some(told.clone())).await;
                Some(Arc::new(distributed::patiently("open the order store", open).await?))
            }
            Need::Log | Need::Nothing => None,
        };
        let durability = "Kafka, every 200 is on all in-sync replicas first";
        let latest = distributed.kafka.orders_latest.then(|| distributed.kafka.clone());
        Ok(Self { durability, latest, ..Self::new(Arc::new(log), store) })
    }

    /// Opens both for listings, beside a running system or without one; nothing can be changed.
    pub async fn open_to_read(settings: &Settings) -> anyhow::Result<Self> {
        let paths = match chosen(settings)? {
            Chosen::Embedded(paths) => paths,
            Chosen::Distributed(distributed) => {
                let log = KafkaLog::open_read_only(&distributed.kafka).await.map_err(explain)?;
                let cql = distributed.cql()?.clone();
                let store: Arc<dyn OrderStore> =
                    Arc::new(CqlOrders::open(cql).await.map_err(explain)?);
                return Self::to_read(Arc::new(log), store).await;
            }
        };
        Self::open_files_to_read(&paths).await
    }

    /// Opens embedded engines to change what nobody runs on. Errors: somebody does.
    pub fn open_files_to_write(paths: &Paths) -> anyhow::Result<Self> {
        let log = SqliteLog::open(&paths.log, SqliteLogSettings::default()).map_err(explain)?;
        let settings = SqliteOrdersSettings::default();
        let store = SqliteOrders::open_with(&paths.orders, settings).map_err(explain)?;
        let durability = "SQLite, every 200 is synced first";
        Ok(Self { durability, ..Self::new(Arc::new(log), Some(Arc::new(store))) })
    }

    /// Opens embedded engines for listings. Errors: a file is not there, or is none of theirs.
    pub async fn open_files_to_read(paths: &Paths) -> anyhow::Result<Self> {
        for path in [&paths.log, &paths.orders] {
            if !path.is_file() {
                return Err(Fixable::error(
                    format!("there is no {}", path.display()),
                    "run `payfold run` once, or name the data folder with --data DIR",
                ));
            }
        }
        let log = Arc::new(SqliteLog::open_read_only(&paths.log).map_err(explain)?);
        let store = Arc::new(SqliteOrders::open_read_only(&paths.orders).map_err(explain)?);
        Self::to_read(log, store).await
    }

    /// What is told at this moment.
    async fn to_read(log: Arc<dyn EventLog>, store: Arc<dyn OrderStore>) -> anyhow::Result<Self> {
        let opened = Self { durability: "read-only", ..Self::new(log, Some(store)) };
        if let Some(live) = opened.live() {
            live.look().await.map_err(explain)?;
        }
        Ok(opened)
    }

    /// Checks that the order store was folded from the log. Errors: it was not, with what to do.
    pub async fn check_pair(&self) -> anyhow::Result<()> {
        pairing::check(&*self.log, &**self.store()?).await.map_err(explain)
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
