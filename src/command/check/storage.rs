//! Owns the checks of this machine's storage: free disk space, writable files, and whether the
//! process that runs here is ready and no role of it stands still. Changes nothing.

use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::row::CheckRow;
use crate::admin_client::AdminListener;
use crate::data_dir::{DataDir, disk_free_bytes};
use crate::settings::{Loaded, Settings};
use crate::wiring::{self, ChosenEngines};
use crate::{error, run_file};

/// Below this (1 GiB) a day of notices may not fit.
const DISK_FREE_MIN: u64 = 1 << 30;
/// Below this (8 MiB) the write-ahead logs of log, orders and claims don't fit, so the disk is
/// full.
const DISK_FULL: u64 = 8 << 20;
const FREE_SOME: &str = "free space outside the data folder, or grow the disk; a running process \
    then recovers by itself";

/// Metrics that are not 0 where a role stands still, and what then stands still.
const HALTS: [(&str, &str); 2] = [
    ("payfold_projector_partitions_halted", "orders of some partitions don't follow their notices"),
    ("payfold_reconciler_halted", "no order expires, and no day is compared"),
];
const FIX_HALT: &str =
    "the last ERROR line of its log says why and what to do; notices are stored all the same";

/// The rows of all storage checks.
pub(super) fn rows(loaded: &Loaded, data: &DataDir) -> Vec<CheckRow> {
    let files = files(&loaded.settings);
    let mut rows = vec![disk(data, &files)];
    rows.extend(files.iter().filter_map(|file| writable(file)));
    rows.extend(process(data));
    rows
}

/// The database files of embedded engines; none for distributed engines.
fn files(settings: &Settings) -> Vec<PathBuf> {
    match wiring::choose_engines(settings) {
        Ok(ChosenEngines::Embedded(paths)) => {
            let claims = paths.claims();
            vec![paths.log, paths.orders, claims]
        }
        Ok(ChosenEngines::Distributed(_)) | Err(_) => Vec::new(),
    }
}

/// Checks the fullest of the disks that hold data.
fn disk(data: &DataDir, files: &[PathBuf]) -> CheckRow {
    let folders = files.iter().filter_map(|file| file.parent());
    let free = std::iter::once(data.path())
        .chain(folders)
        .map(|folder| disk_free_bytes(existing(folder)))
        .collect::<std::io::Result<Vec<_>>>();
    let free = match free {
        Ok(free) => free.into_iter().min().unwrap_or(u64::MAX),
        Err(error) => {
            let detail = format!("the free space can't be read: {error}");
            return CheckRow::warn("disk", detail, "check it with df");
        }
    };
    let detail = format!("{} MiB free", free >> 20);
    match free {
        ..DISK_FULL => {
            let detail = format!("{detail}: the disk is full, notices and payments get 503");
            CheckRow::storing_nothing("disk", detail, FREE_SOME)
        }
        DISK_FULL..DISK_FREE_MIN => CheckRow::warn(
            "disk",
            detail,
            "free space: on a full disk notices and payments get 503",
        ),
        DISK_FREE_MIN.. => CheckRow::ok("disk", detail),
    }
}

/// The nearest existing folder on a path.
fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."))
}

/// A row for a file that exists and can't be written.
fn writable(file: &Path) -> Option<CheckRow> {
    let error = rustix::fs::access(file, Access::READ_OK | Access::WRITE_OK).err()?;
    if error == rustix::io::Errno::NOENT {
        return None;
    }
    let detail = format!("{} can't be written: {error}", file.display());
    let fix = "run as its owner; if you are, check its disk: `mount`, `dmesg | tail`";
    Some(CheckRow::storing_nothing("storage", detail, fix))
}

/// Checks the process that runs on this folder: whether it is ready, and whether a role of it
/// stands still. Empty if none runs.
fn process(data: &DataDir) -> Vec<CheckRow> {
    let Ok(file) = run_file::RunFile::read(data) else { return Vec::new() };
    let listener = AdminListener::of_run_file(&file);
    let mut rows = match readiness(&listener) {
        Ok(ready) => vec![ready],
        Err(error) => {
            let (detail, fix) = error::describe(&error);
            return vec![CheckRow::warn("process", detail, fix.unwrap_or_default())];
        }
    };
    match listener.read_metrics() {
        Ok(metrics) => rows.extend(halts(&metrics)),
        Err(error) => rows.push(CheckRow::of_error("process", &error, "")),
    }
    rows
}

/// A row for each metric that says that a role stands still.
fn halts(metrics: &str) -> impl Iterator<Item = CheckRow> {
    HALTS.iter().filter_map(|(metric, stands)| {
        let value =
            metrics.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '))?;
        let detail = format!("{stands} ({metric} is {value})");
        (value != "0").then(|| CheckRow::failed("process", detail, FIX_HALT))
    })
}

/// Whether the process is ready. Errors: it does not answer.
fn readiness(listener: &AdminListener) -> anyhow::Result<CheckRow> {
    let url = listener.url();
    Ok(match listener.ask_ready()? {
        None => CheckRow::ok("process", format!("ready: {url}")),
        Some(said) => {
            let fix = "see the last WARN or ERROR line of its log, which says what to do";
            CheckRow::storing_nothing("process", format!("{url} is not ready: {said}"), fix)
        }
    })
}
