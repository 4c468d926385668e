//! Owns the embedded engines of a process: where their files are, and opening files that belong together.
//! Invariant: a file is made only once it is known that no other file misses it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use payfold_engines::log::EventLog;
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::orders::sqlite::{
    PairedClaims, SqliteOrders, SqliteOrdersSettings, claims_beside,
};
use payfold_engines::{file_exists, follow_links, pairing};

use super::{ClaimsPair, Engines, explain, explain_pairing};
use crate::data_dir::DataDir;
use crate::error::{Fixable, unreadable};
use crate::settings::Settings;

/// Where the embedded engines' files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The log's database.
    pub log: PathBuf,
    /// The orders' database.
    pub orders: PathBuf,
}

impl Paths {
    /// The files that the settings name. Errors: a URL that names none.
    pub(super) fn of(settings: &Settings) -> anyhow::Result<Self> {
        let data = DataDir::of(settings);
        Ok(Self {
            log: path("log", &settings.log, data.file("log.db"))?,
            orders: path("orders", &settings.orders, data.file("orders.db"))?,
        })
    }

    /// Where the order store is.
    fn folder(&self) -> &Path {
        let parent = self.orders.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    /// The files of the generations that are beside the first one, by name (`orders.g2.db`), where they are.
    pub fn generations(&self) -> std::io::Result<Vec<(String, PathBuf)>> {
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

    /// Where the file of a generation is, by the name `generations` gives it.
    pub fn generation(&self, name: &str) -> Option<PathBuf> {
        let number = name.strip_prefix("orders.g")?.strip_suffix(".db")?.parse::<u32>().ok()?;
        Some(self.orders.with_extension(format!("g{number}.db")))
    }

    /// Where the claims are.
    pub fn claims(&self) -> PathBuf {
        claims_beside(&self.orders)
    }

    /// Checks that the log is there, or nothing that is made after it. Errors: the log is missing; a file can't be
    /// read.
    pub fn check_log(&self) -> anyhow::Result<()> {
        let mut others = vec![self.orders.clone(), self.claims()];
        let generations = self.generations().map_err(|error| unreadable(self.folder(), &error))?;
        others.extend(generations.into_iter().map(|(_, path)| path));
        for database in BTreeSet::from([self.log.clone(), follow_links(&self.log)]) {
            let mut wal = database.into_os_string();
            wal.push("-wal");
            others.push(wal.into());
        }
        pairing::log_file::check(&self.log, &others).map_err(explain_pairing)
    }

    /// Checks that the claims belong to the log. Errors: they don't, or a file can't be read.
    pub async fn check_claims(&self) -> anyhow::Result<()> {
        let log = SqliteLog::open_read_only(&self.log).map_err(explain)?;
        let claims = PairedClaims::beside(&self.orders);
        pairing::claims::check_files(&log, &claims).await.map_err(explain_pairing)
    }

    /// Whether nothing was made here yet. Errors: a file can't be read.
    pub fn is_new(&self) -> anyhow::Result<bool> {
        self.check_log()?;
        Ok(!file_exists(&self.log).map_err(explain)?)
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
    /// Opens embedded engines that belong together, making those that are missing. Claims are paired with the log last,
    /// once the order store was found to be of this log, because a pairing is for ever. Errors: the log or the claims are
    /// missing or another system's, and then nothing is made; the order store is another log's.
    pub(super) async fn open_paired(
        paths: &Paths,
        log_settings: SqliteLogSettings,
        orders_settings: SqliteOrdersSettings,
    ) -> anyhow::Result<Self> {
        paths.check_log()?;
        let log = Arc::new(SqliteLog::open(&paths.log, log_settings).map_err(explain)?);
        let claims = PairedClaims::beside(&paths.orders);
        pairing::claims::check_files(&log, &claims).await.map_err(explain_pairing)?;
        let store = SqliteOrders::open_with(&paths.orders, orders_settings).map_err(explain)?;
        let durability = "SQLite, every 200 is synced first";
        let opened = Self { durability, ..Self::of_files(log, claims, store) };
        opened.check_store().await?;
        if let Some(ClaimsPair::Files(log, claims)) = &opened.claims {
            pairing::claims::pair_files(log, claims).map_err(explain)?;
        }
        Ok(opened)
    }

    fn of_files(log: Arc<SqliteLog>, claims: PairedClaims, store: SqliteOrders) -> Self {
        let opened = Self::new(Arc::clone(&log) as Arc<dyn EventLog>, Some(Arc::new(store)));
        Self { claims: Some(ClaimsPair::Files(log, claims)), embedded: true, ..opened }
    }

    /// Opens embedded engines that no other process runs on, to change them. Errors: a process runs on them; as `open`.
    pub async fn open_files_to_write(paths: &Paths) -> anyhow::Result<Self> {
        let (log, orders) = (SqliteLogSettings::default(), SqliteOrdersSettings::default());
        Self::open_paired(paths, log, orders).await
    }

    /// Opens embedded engines for listings. Errors: a file is not there, or is none of theirs.
    pub async fn open_files_to_read(paths: &Paths) -> anyhow::Result<Self> {
        if paths.is_new()? {
            return Err(Fixable::error(
                format!("there is no {}", paths.log.display()),
                "run `payfold run` once, or name the data folder with --data DIR",
            ));
        }
        if !file_exists(&paths.orders).map_err(explain)? {
            return Err(Fixable::error(
                format!("there is no {}", paths.orders.display()),
                "the next `payfold run` folds it anew from the log",
            ));
        }
        let log = Arc::new(SqliteLog::open_read_only(&paths.log).map_err(explain)?);
        let store = SqliteOrders::open_read_only(&paths.orders).map_err(explain)?;
        Self::of_files(log, PairedClaims::beside(&paths.orders), store).into_reader().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_write_ahead_log_of_a_log_behind_a_link_shows_that_the_log_is_missing() {
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
