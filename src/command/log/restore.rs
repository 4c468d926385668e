//! `payfold log restore`: a backup becomes a data folder again.
//! Invariants: a file that is there is never written over; nothing is copied from a backup that is not whole; what the
//! restored log has lost is said; nothing it goes on with is told under a version that readers have seen.

use std::path::Path;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::follow_links;
use payfold_engines::generations::Asked;
use payfold_projector::rebuild::renumber::renumber;
use payfold_schemas::ids::Author;
use payfold_schemas::publication::Publication;

use super::backup;
use super::manifest::{CLAIMS, LOG, Manifest, ORDERS, VAULT};
use crate::data_dir::DataDir;
use crate::error::Fixable;
use crate::keys::LOCAL_ADMIN;
use crate::output;
use crate::settings::Settings;
use crate::wiring::{Engines, Paths};

/// Restores. Errors: the backup is not whole; there is a log or a store already; a file can't be written.
pub async fn run(
    settings: &Settings,
    from: &Path,
    (claims, seen): (Option<&Path>, u32),
) -> anyhow::Result<()> {
    let paths = backup::embedded(settings, "restored")?;
    let manifest = Manifest::read(from)?;
    let files = manifest.whole(from)?;
    let data = DataDir::of(settings);
    for path in [&paths.log, &paths.orders, &paths.claims()] {
        let path = follow_links(path);
        let beside = ["", "-wal"].map(|suffix| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            std::path::PathBuf::from(name)
        });
        if let Some(there) = beside.iter().find(|path| path.exists()) {
            return Err(Fixable::error(
                format!("there is a {} already", there.display()),
                "stop payfold, move the old folder aside whole and keep it; its orders.claims.db, if it is sound, is newer \
                 than the backup's: pass it with --claims",
            ));
        }
    }
    data.create()?;
    for (name, path) in &files {
        match name.as_str() {
            ORDERS => backup::copied(path, &paths.orders).await?,
            LOG => backup::copied(path, &paths.log).await?,
            CLAIMS => backup::copied(claims.unwrap_or(path), &paths.claims()).await?,
            VAULT if data.vault().exists() => {}
            VAULT => {
                std::fs::copy(path, data.vault())?;
                std::fs::File::open(data.vault())?.sync_all()?;
            }
            generation => {
                if let Some(to) = paths.generation(generation) {
                    backup::copied(path, &to).await?;
                }
            }
        }
    }
    Engines::open_files_to_read(&paths).await?.check_pair().await?;
    let publication = begin_anew(&paths, &manifest, seen).await?;
    tell(&manifest, &data, publication);
    Ok(())
}

/// Whoever has seen what was told after the backup takes what is told from here on for newer.
async fn begin_anew(paths: &Paths, manifest: &Manifest, seen: u32) -> anyhow::Result<Publication> {
    let engines = Engines::open_files_to_write(paths).await?;
    let asked = Asked {
        author: Author::parse(LOCAL_ADMIN).expect("a fixed name"),
        reason: format!("restored from the backup of {}", manifest.made_at),
        request_id: SystemClock.request_id(),
        at: SystemClock.now(),
    };
    Ok(renumber(&*engines.log, engines.base()?, &asked, seen).await?)
}

fn tell(manifest: &Manifest, data: &DataDir, publication: Publication) {
    output::line(&format!(
        "restored into {}: the log to {}, as of {}",
        data.path().display(),
        manifest.log_end,
        output::time(manifest.made_at)
    ));
    output::line(&format!(
        "what it tells from here on has generation {}: later than all that backup and claims know of; have readers seen a \
         later one, restore again with --above",
        publication.number
    ));
    if !data.identity().exists() {
        output::line(&format!("put vault.key back: {} is not there", data.identity().display()));
    }
    output::line(
        "what came after that time is not in it: start, then ask each partner to send its notices since then again, \
         and tell subscribers and shops (docs/operations.md, \"Backup and restore\")",
    );
}
