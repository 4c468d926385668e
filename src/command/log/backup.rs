//! `payfold log backup`: copies log, orders, claims and vault of a running system.
//!
//! Invariant: the order of the copies is orders of all builds, then the log, then the claims.
//! Orders that are behind their log are folded on after a restore; orders ahead of it would be
//! corrupt. A claim without its fact is repaired by the shop's retry; a fact without its claim
//! would let the same payment be created twice.

use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_engines::log::walk;
use payfold_engines::{EngineError, copy};
use payfold_partners::vault::VaultPlace;

use super::manifest::{CLAIMS, LOG, Manifest, ORDERS, VAULT};
use crate::error::{CORRUPT_FIX, Fixable};
use crate::settings::Settings;
use crate::wiring::{self, ChosenEngines, Engines, Paths};
use crate::{output, vault};

const POLL: Duration = Duration::from_millis(100);

/// Makes the copy and returns its engines, opened read-only. `backup.json` is written last: a
/// folder without it is no backup. Errors: the engines are not embedded; the folder is not empty; a
/// file can't be read or written.
pub(crate) async fn run(settings: &Settings, to: &Path) -> anyhow::Result<Engines> {
    let paths = embedded(settings, "backed up")?;
    paths.check_log()?;
    begin(to)?;
    let made_at = SystemClock.now();
    for (name, from) in paths.builds()? {
        copied(&from, &to.join(name)).await?;
    }
    for (from, name) in [(&paths.orders, ORDERS), (&paths.log, LOG), (&paths.claims(), CLAIMS)] {
        copied(from, &to.join(name)).await?;
    }
    if let VaultPlace::File { vault, .. } = vault::place(settings)?
        && vault.is_file()
    {
        // The identity that opens the vault is not copied: it must be kept apart from the backup.
        std::fs::copy(&vault, to.join(VAULT))?;
        std::fs::File::open(to.join(VAULT))?.sync_all()?;
    }
    let copies = Paths { log: to.join(LOG), orders: to.join(ORDERS) };
    let engines = copies.open_to_read(vault::record_keys(settings)).await?;
    engines.check_pair().await?;
    let ends = walk::ends(&*engines.log, Topic::Intake).await?;
    let log_end = ends.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let manifest = Manifest::of(to, made_at, log_end)?;
    manifest.write(to)?;
    output::line(&format!(
        "{}: orders, log to {}, claims{}; {} bytes",
        to.display(),
        manifest.log_end,
        if to.join(VAULT).exists() { ", encrypted vault" } else { "" },
        manifest.bytes()
    ));
    output::line("not included: vault.key (back it up in another place), payfold.toml, profiles");
    Ok(engines)
}

/// The files of embedded engines. Errors: the engines are Kafka and a CQL database, which have
/// tools of their own.
pub(crate) fn embedded(settings: &Settings, what: &str) -> anyhow::Result<Paths> {
    match wiring::choose_engines(settings)? {
        ChosenEngines::Embedded(paths) => Ok(paths),
        ChosenEngines::Distributed(_) => Err(Fixable::error(
            format!("Kafka and a CQL database can't be {what} by payfold"),
            "use their replication and snapshots, the table of claims after the log; \
             docs/how-to/back-up-and-restore.md",
        )),
    }
}

fn begin(to: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(to);
    let is_empty =
        made.and_then(|()| std::fs::read_dir(to)).map(|mut found| found.next().is_none());
    match is_empty {
        Ok(true) => Ok(()),
        Ok(false) => Err(Fixable::error(
            format!("{} is not empty", to.display()),
            "give a new folder for each backup, such as backup/$(date -u +%Y%m%dT%H%M%SZ)",
        )),
        Err(error) => Err(Fixable::error(
            format!("the folder {} can't be created: {error}", to.display()),
            "give a folder that this user can write, on a disk with free space",
        )),
    }
}

/// Copies one database, then checks every page of the copy.
pub(crate) async fn copied(from: &Path, to: &Path) -> anyhow::Result<()> {
    let bar = bar(from);
    let (source, target) = (from.to_owned(), to.to_owned());
    let mut work = tokio::task::spawn_blocking(move || {
        copy::file(&source, &target).map_err(explain)?;
        copy::check(&target).map_err(explain_copy)
    });
    let done = loop {
        tokio::select! {
            done = &mut work => break done?,
            () = tokio::time::sleep(POLL) => bar.set_position(size(to)),
        }
    };
    bar.finish_and_clear();
    done
}

/// The error of a finished copy. Its pages may have been damaged in the source, too.
fn explain_copy(error: EngineError) -> anyhow::Error {
    match error {
        EngineError::Corrupt(_) => Fixable::difference(
            format!("the copy is damaged: {error}"),
            "copy to another disk; if that copy is damaged, too, its source is: don't change any \
             file, docs/how-to/corrupt.md says how to recover",
        ),
        other => explain(other),
    }
}

fn explain(error: EngineError) -> anyhow::Error {
    let fix = match &error {
        EngineError::Unavailable(_) => {
            "free space on that disk and make it writable for this user, then back up into a new \
             folder"
        }
        EngineError::Invalid(_) => "check the data folder with `payfold check`",
        EngineError::Corrupt(_) => return Fixable::difference(error.to_string(), CORRUPT_FIX),
    };
    Fixable::error(error.to_string(), fix)
}

fn bar(from: &Path) -> ProgressBar {
    if !output::is_terminal() {
        return ProgressBar::hidden();
    }
    let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let style = ProgressStyle::with_template("{msg:18} {bar:40} {bytes}/{total_bytes}, {eta} left");
    let style = style.expect("the template is a valid one");
    ProgressBar::new(size(from)).with_style(style).with_message(name)
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |found| found.len())
}
