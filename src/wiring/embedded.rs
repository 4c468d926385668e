//! Owns the embedded engines of a process: the paths of their files, and opening files that belong
//! together. Invariant: a missing file is created only if the other files show that it never
//! existed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use payfold_checkout::paired_claims;
use payfold_engines::log::EventLog;
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::orders::sqlite::{
    PairedClaims, SqliteOrders, SqliteOrdersSettings, claims_beside,
};
use payfold_engines::{file_exists, follow_links, pairing};
use payfold_schemas::record_keys::RecordKeys;
use prometheus::Registry;

use super::engines::{ClaimsPair, Engines};
use super::explain::{explain, explain_pairing};
use super::metrics::commit_metrics;
use crate::data_dir::DataDir;
use crate::error::{Fixable, unreadable};
use crate::settings::Settings;
use crate::vault;

/// The paths of the embedded engines' files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    /// The log's database.
    pub log: PathBuf,
    /// The orders' database.
    pub orders: PathBuf,
}

impl Paths {
    /// The files that the settings name. Errors: a URL that can't be parsed.
    pub(super) fn of(settings: &Settings) -> anyhow::Result<Self> {
        let data = DataDir::of(settings);
        Ok(Self {
            log: path("log", &settings.log, data.file("log.db"))?,
            orders: path("orders", &settings.orders, data.file("orders.db"))?,
        })
    }

    /// The folder of the order store.
    fn folder(&self) -> &Path {
        let parent = self.orders.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    /// The existing files of builds besides the first one, each with its name in a backup
    /// (`orders.g2.db`).
    pub(crate) fn builds(&self) -> std::io::Result<Vec<(String, PathBuf)>> {
        let stem = self.orders.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut found = Vec::new();
        let entries = match std::fs::read_dir(self.folder()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        for entry in entries {
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

    /// The path of a build's file, by its name in a backup.
    pub(crate) fn build(&self, name: &str) -> Option<PathBuf> {
        let number = name.strip_prefix("orders.g")?.strip_suffix(".db")?.parse::<u32>().ok()?;
        Some(self.orders.with_extension(format!("g{number}.db")))
    }

    /// The path of the claims.
    pub(crate) fn claims(&self) -> PathBuf {
        claims_beside(&self.orders)
    }

    /// Checks that the log exists, or that no file exists that is created after it. Errors: the log
    /// is missing; a file can't be read.
    pub(crate) fn check_log(&self) -> anyhow::Result<()> {
        let mut others = vec![self.orders.clone(), self.claims()];
        let builds = self.builds().map_err(|error| unreadable(self.folder(), &error))?;
        others.extend(builds.into_iter().map(|(_, path)| path));
        for database in BTreeSet::from([self.log.clone(), follow_links(&self.log)]) {
            let mut wal = database.into_os_string();
            wal.push("-wal");
            others.push(wal.into());
        }
        pairing::log_file::check(&self.log, &others).map_err(explain_pairing)
    }

    /// Checks that the claims belong to the log. Errors: they don't, or a file can't be read.
    pub(crate) async fn check_claims(&self) -> anyhow::Result<()> {
        let log = SqliteLog::open_read_only(&self.log).map_err(explain)?;
        let claims = PairedClaims::beside(&self.orders);
        paired_claims::check_files(&log, &claims).await.map_err(explain_pairing)
    }

    /// Whether no file has been created yet. Errors: a file can't be read.
    pub(crate) fn is_new(&self) -> anyhow::Result<bool> {
        self.check_log()?;
        Ok(!file_exists(&self.log).map_err(explain)?)
    }

    /// Opens the engines of a running system.
    pub(super) async fn open(
        &self,
        settings: &Settings,
        registry: &Registry,
    ) -> anyhow::Result<Engines> {
        let log_settings = SqliteLogSettings {
            queue_max: settings.ingest.queue_max,
            observer: Some(commit_metrics(registry)?),
            ..SqliteLogSettings::default()
        };
        let orders_settings = SqliteOrdersSettings {
            writer_cache_kib: settings.sqlite.orders_cache_mib.saturating_mul(1_024),
            ..SqliteOrdersSettings::default()
        };
        let keys = vault::record_keys(settings);
        self.open_paired(log_settings, orders_settings, keys).await
    }

    /// Opens embedded engines that belong together, and creates missing ones. Claims are paired
    /// with the log last, after the order store was found to belong to this log, because a pairing
    /// can't be undone. Errors: the log or the claims are missing or another system's, and then
    /// nothing is created; the order store belongs to another log.
    async fn open_paired(
        &self,
        log_settings: SqliteLogSettings,
        orders_settings: SqliteOrdersSettings,
        keys: RecordKeys,
    ) -> anyhow::Result<Engines> {
        self.check_log()?;
        let log = Arc::new(SqliteLog::open(&self.log, log_settings).map_err(explain)?);
        let claims = PairedClaims::beside(&self.orders);
        paired_claims::check_files(&log, &claims).await.map_err(explain_pairing)?;
        let store = SqliteOrders::open_with(&self.orders, orders_settings).map_err(explain)?;
        let durability = "SQLite, every 200 is synced first";
        let opened = Engines { durability, ..engines(log, (claims, store), keys) };
        opened.check_store().await?;
        if let Some(ClaimsPair::Files(log, claims)) = &opened.claims {
            paired_claims::pair_files(log, claims).map_err(explain)?;
        }
        Ok(opened)
    }

    /// Opens embedded engines to change the order store. Errors: a process runs on them; as `open`.
    pub(crate) async fn open_to_write(&self) -> anyhow::Result<Engines> {
        let (log, orders) = (SqliteLogSettings::default(), SqliteOrdersSettings::default());
        self.open_paired(log, orders, RecordKeys::default()).await
    }

    /// Opens embedded engines read-only; what is read is checked with these keys. Errors: a file is
    /// missing, or was not written by these engines.
    pub(crate) async fn open_to_read(&self, keys: RecordKeys) -> anyhow::Result<Engines> {
        if self.is_new()? {
            return Err(Fixable::error(
                format!("the log {} does not exist", self.log.display()),
                "run `payfold run` once, or give the data folder of your system with --data DIR",
            ));
        }
        if !file_exists(&self.orders).map_err(explain)? {
            return Err(Fixable::error(
                format!("the order store {} does not exist", self.orders.display()),
                "start `payfold run`, which folds it anew from the log",
            ));
        }
        let log = Arc::new(SqliteLog::open_read_only(&self.log).map_err(explain)?);
        let store = SqliteOrders::open_read_only(&self.orders).map_err(explain)?;
        let claims = PairedClaims::beside(&self.orders);
        engines(log, (claims, store), keys).into_reader().await
    }
}

fn engines(
    log: Arc<SqliteLog>,
    (claims, store): (PairedClaims, SqliteOrders),
    keys: RecordKeys,
) -> Engines {
    let raw = Arc::clone(&log) as Arc<dyn EventLog>;
    let opened = Engines::new(raw, Some(Arc::new(store)), keys);
    Engines { claims: Some(ClaimsPair::Files(log, claims)), embedded: true, ..opened }
}

fn path(setting: &str, url: &str, default: PathBuf) -> anyhow::Result<PathBuf> {
    match url.split_once(':') {
        None if url.is_empty() => Ok(default),
        Some(("sqlite", path)) if !path.is_empty() => Ok(Path::new(path).to_owned()),
        _ => Err(Fixable::error(
            format!("{setting} = \"{url}\" is not the URL of an engine that this version has"),
            format!(
                "write {setting} = \"sqlite:PATH\" or leave it out; at scale log = \"kafka://…\" \
                    and orders = \"cql://…\""
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_ahead_log_behind_a_link_shows_that_the_log_is_missing() {
        let dir = tempfile::tempdir().expect("a folder");
        let [log, orders, real] =
            ["log.db", "orders.db", "real.db"].map(|name| dir.path().join(name));
        std::os::unix::fs::symlink(&real, &log).expect("a link");
        let paths = Paths { log, orders };
        paths.check_log().expect("a new system");
        std::fs::write(dir.path().join("real.db-wal"), b"facts").expect("it can be written");
        let refused = paths.check_log().expect_err("its log is missing").to_string();
        assert!(refused.contains("real.db-wal"), "{refused}");
    }
}
