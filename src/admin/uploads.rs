//! Owns the partners' files that people send. A file is deleted when it was compared or can't be
//! used; one that was only read, an hour after that.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use actix_web::web::Payload;
use futures_util::StreamExt;
use payfold_reconcile::preview::RecordsPreview;
use payfold_reconcile::request::NamedFile;
use payfold_schemas::ids::PartnerCode;

use super::answer::Refusal;

/// How long a file is kept after it was read.
pub(super) const KEPT: Duration = Duration::from_secs(3_600);

/// Files that are older are of a process that has ended.
const LEFT_OVER: Duration = Duration::from_secs(24 * 3_600);
/// What the names of these files begin with.
const PREFIX: &str = "upload-";

/// A file that somebody sent. It is deleted when nothing uses it any more.
pub(super) struct Upload {
    pub(super) file: NamedFile,
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.file.path) {
            let file = self.file.path.display();
            tracing::warn!(%error, %file, "a file that somebody sent can't be deleted");
        }
    }
}

impl Upload {
    /// Stores a file under its ticket. Blocks while it writes: chunks are small and go to the page
    /// cache. Errors: the connection or the disk; then nothing of it is left.
    pub(super) async fn store(
        folder: &Path,
        ticket: &str,
        name: String,
        mut body: Payload,
    ) -> Result<Arc<Self>, Refusal> {
        let failed = |error: io::Error| Refusal::NotStored(error.into());
        fs::create_dir_all(folder).map_err(failed)?;
        let path = folder.join(format!("{PREFIX}{ticket}"));
        let mut file = fs::File::create_new(&path).map_err(failed)?;
        let upload = Arc::new(Self { file: NamedFile { path, name } });
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|error| Refusal::NotStored(anyhow::anyhow!("{error}")))?;
            file.write_all(&chunk).map_err(failed)?;
        }
        Ok(upload)
    }
}

/// Deletes files of processes that have ended without it. Younger ones may be another process's.
pub(super) fn sweep(folder: &Path) {
    // Without the folder there is nothing to delete.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LEFT_OVER));
        if is_ours && is_old {
            drop(Upload { file: NamedFile { path: entry.path(), name: String::new() } });
        }
    }
}

/// A file that is read before it is compared.
#[derive(Clone)]
pub(super) struct PreviewedFile {
    pub(super) partner: PartnerCode,
    /// `None` if it can't be used.
    pub(super) upload: Option<Arc<Upload>>,
    pub(super) reading: Reading,
}

/// How far the reading of a file is.
#[derive(Clone)]
pub(super) enum Reading {
    /// It is being read; the number of lines so far.
    Lines(Arc<AtomicU64>),
    Read(Box<RecordsPreview>),
    Refused(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_has_left_is_deleted_after_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, age: Duration| {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            let now = file.metadata().unwrap().modified().unwrap();
            file.set_modified(now - age).unwrap();
        };
        write("upload-old", LEFT_OVER + Duration::from_secs(60));
        write("upload-new", LEFT_OVER - Duration::from_secs(60));
        write("ledger", LEFT_OVER * 2);
        sweep(folder.path());
        sweep(&folder.path().join("none"));
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort_unstable();
        assert_eq!(left, ["ledger", "upload-new"]);
    }
}
