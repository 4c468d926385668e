//! Owns the checks of what this machine stores on: room on the disks, files that can be written, and whether the process
//! that runs here takes what it is sent. Changes nothing.

use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::Row;
use crate::data_dir::DataDir;
use crate::settings::{Loaded, Settings};
use crate::wiring::{self, Chosen};
use crate::{error, running};

/// Under this a day of notices may not fit.
const DISK_FREE_MIN: u64 = 1 << 30;
/// Under this the write-ahead logs of log, orders and claims don't fit: the disk is full.
const DISK_FULL: u64 = 8 << 20;
const FREE_SOME: &str =
    "free room outside the data folder, or grow the disk: what runs goes on by itself then";

/// All of them.
pub(super) fn rows(loaded: &Loaded, data: &DataDir) -> Vec<Row> {
    let files = files(&loaded.settings);
    let mut rows = vec![disk(data, &files)];
    rows.extend(files.iter().filter_map(|file| writable(file)));
    rows.extend(process(data));
    rows
}

/// The databases of embedded engines; none where they are elsewhere.
fn files(settings: &Settings) -> Vec<PathBuf> {
    match wiring::chosen(settings) {
        Ok(Chosen::Embedded(paths)) => {
            let claims = paths.claims();
            vec![paths.log, paths.orders, claims]
        }
        Ok(Chosen::Distributed(_)) | Err(_) => Vec::new(),
    }
}

/// The fullest of the disks that are stored on.
fn disk(data: &DataDir, files: &[PathBuf]) -> Row {
    let folders = files.iter().filter_map(|file| file.parent());
    let free = std::iter::once(data.path())
        .chain(folders)
        .map(|folder| disk_free_bytes(existing(folder)))
        .collect::<std::io::Result<Vec<_>>>();
    let free = match free {
        Ok(free) => free.into_iter().min().unwrap_or(u64::MAX),
        Err(error) => {
            let detail = format!("free space is not known: {error}");
            return Row::warn("disk", detail, "look at it with df");
        }
    };
    let detail = format!("{} MiB free", free >> 20);
    match free {
        ..DISK_FULL => {
            let detail = format!("{detail}: the disk is full, notices and payments get 503");
            Row::refusing("disk", detail, FREE_SOME)
        }
        DISK_FULL..DISK_FREE_MIN => {
            Row::warn("disk", detail, "free some: a full disk is answered 503")
        }
        DISK_FREE_MIN.. => Row::ok("disk", detail),
    }
}

/// The nearest folder on a path that is there.
fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."))
}

/// Bytes a process of this user may still write where `path` is.
pub fn disk_free_bytes(path: &Path) -> std::io::Result<u64> {
    let found =
        rustix::fs::statvfs(if path.as_os_str().is_empty() { Path::new(".") } else { path })?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// What is wrong with a file that is there and can't be written.
fn writable(file: &Path) -> Option<Row> {
    let error = rustix::fs::access(file, Access::READ_OK | Access::WRITE_OK).err()?;
    if error == rustix::io::Errno::NOENT {
        return None;
    }
    let detail = format!("{} can't be written: {error}", file.display());
    let fix = "run as its owner; look at its disk: `mount`, `dmesg | tail`";
    Some(Row::refusing("storage", detail, fix))
}

/// What the process that runs on this folder says of itself; nothing where none does.
fn process(data: &DataDir) -> Option<Row> {
    let url = running::RunFile::read(data).ok()?.admin_url;
    Some(match running::ask_ready(&url) {
        Ok(None) => Row::ok("process", format!("ready: {url}")),
        Ok(Some(said)) => {
            let fix = "its log's last WARN or ERROR line says what to do";
            Row::refusing("process", format!("{url} is not ready: {said}"), fix)
        }
        Err(error) => {
            let (detail, fix) = error::told(&error);
            Row::warn("process", detail, fix.unwrap_or_default())
        }
    })
}
