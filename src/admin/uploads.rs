//! Owns the partners' files that people send. A file is deleted when it was compared; one that is
//! read before, an hour after.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use actix_web::web::Payload;
use futures_util::StreamExt;
use payfold_reconcile::preview::RecordsPreview;
use payfold_schemas::ids::PartnerCode;

/// How long a file is kept after it was read.
pub(super) const KEPT: Duration = Duration::from_secs(3_600);

/// A file that somebody sent. It is deleted when nothing uses it any more.
pub(super) struct Upload {
    pub(super) path: PathBuf,
    pub(super) name: String,
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            let file = self.path.display();
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
    ) -> anyhow::Result<Arc<Self>> {
        fs::create_dir_all(folder)?;
        let path = folder.join(format!("upload-{ticket}"));
        let mut file = fs::File::create_new(&path)?;
        let upload = Arc::new(Self { path, name });
        while let Some(chunk) = body.next().await {
            file.write_all(&chunk.map_err(|error| anyhow::anyhow!("{error}"))?)?;
        }
        Ok(upload)
    }
}

/// A file that is read before it is compared.
#[derive(Clone)]
pub(super) struct PreviewedFile {
    pub(super) partner: PartnerCode,
    pub(super) upload: Arc<Upload>,
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
