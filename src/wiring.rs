//! Owns the choice of engines by URL and their pairing. Only here and in tests are engines named.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use payfold_engines::log::EventLog;
use payfold_engines::log::sqlite::{CommitObserver, SqliteLog, SqliteLogSettings};
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::sqlite::{SqliteOrders, SqliteOrdersSettings};
use payfold_engines::{EngineError, pairing};
use prometheus::{Histogram, HistogramOpts, IntCounter, Registry};

use crate::data_dir::DataDir;
use crate::error::Fixable;
use crate::settings::Settings;

/// The engines of one system.
pub struct Engines {
    /// The event log.
    pub log: Arc<dyn EventLog>,
    /// The order store.
    pub store: Arc<dyn OrderStore>,
    /// How the log is kept, for the banner.
    pub durability: &'static str,
}

/// Where the embedded engines' files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The log's database.
    pub log: PathBuf,
    /// The orders' database.
    pub orders: PathBuf,
}

/// The paths the settings' URLs name. Errors: an engine this version does not have.
pub fn paths(settings: &Settings) -> anyhow::Result<Paths> {
    let data = DataDir::of(settings);
    Ok(Paths {
        log: path("log", &settings.log, data.file("log.db"))?,
        orders: path("orders", &settings.orders, data.file("orders.db"))?,
    })
}

fn path(setting: &str, url: &str, default: PathBuf) -> anyhow::Result<PathBuf> {
    match url.split_once(':') {
        None if url.is_empty() => Ok(default),
        Some(("sqlite", path)) if !path.is_empty() => Ok(Path::new(path).to_owned()),
        _ => Err(Fixable::error(
            format!("{setting} = \"{url}\" names no engine of this version"),
            format!("write {setting} = \"sqlite:PATH\", or leave it out"),
        )),
    }
}

impl Engines {
    /// Opens both engines for a running system and checks that they belong together.
    pub async fn open(settings: &Settings, registry: &Registry) -> anyhow::Result<Self> {
        let paths = paths(settings)?;
        let log_settings = SqliteLogSettings {
            queue_max: settings.ingest.queue_max,
            observer: Some(commit_metrics(registry)?),
            ..SqliteLogSettings::default()
        };
        let log: Arc<dyn EventLog> =
            Arc::new(SqliteLog::open(&paths.log, log_settings).map_err(explain)?);
        let orders_settings = SqliteOrdersSettings {
            writer_cache_kib: settings.sqlite.orders_cache_mib.saturating_mul(1_024),
            ..SqliteOrdersSettings::default()
        };
        let store: Arc<dyn OrderStore> =
            Arc::new(SqliteOrders::open_with(&paths.orders, orders_settings).map_err(explain)?);
        pairing::check(&*log, &*store).await.map_err(explain)?;
        Ok(Self { log, store, durability: "SQLite, every 200 is synced first" })
    }

    /// Opens both for listings, beside a running system or without one; nothing can be changed.
    pub fn open_to_read(settings: &Settings) -> anyhow::Result<Self> {
        let paths = paths(settings)?;
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
        Ok(Self { log, store, durability: "read-only" })
    }
}

/// Counts what the log's writer does: `payfold_engine_sync_duration_seconds` and `payfold_engine_rows_total`.
fn commit_metrics(registry: &Registry) -> anyhow::Result<CommitObserver> {
    let options = HistogramOpts::new(
        "payfold_engine_sync_duration_seconds",
        "One commit of the log, from its begin until it is synced.",
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

fn explain(error: EngineError) -> anyhow::Error {
    let fix = match &error {
        EngineError::Unavailable(_) => {
            "mend that, then start again; `payfold check` looks at folder, disk and stores"
        }
        EngineError::Invalid(_) => "`payfold check` tells what the settings should be",
        EngineError::Corrupt(_) => {
            "keep the files as they are; docs/operations.md, \"Corrupt\" says how to recover"
        }
    };
    Fixable::error(error.to_string(), fix)
}
