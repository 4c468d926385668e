//! `payfold log restore`: restores a backup into a data folder. Invariants: an existing file is
//! never overwritten; nothing is copied from an incomplete or changed backup; the output names
//! what the restored log lacks; the restored system publishes under a new epoch, so that no event
//! has a version that readers have seen.

use std::path::Path;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::follow_links;
use payfold_projector::journal::DecisionRequest;
use payfold_projector::rebuild::restored_epoch::raise_epoch_after_restore;
use payfold_schemas::ids::Author;
use payfold_schemas::publication::Publication;
use payfold_views::listing::moment;

use super::backup;
use super::manifest::{CLAIMS, LOG, Manifest, ORDERS, VAULT};
use crate::data_dir::DataDir;
use crate::error::Fixable;
use crate::output;
use crate::settings::Settings;
use crate::vault;
use crate::wiring::Paths;
use payfold_partners::token::LOCAL_OWNER;

/// Restores a backup. Errors: the backup is incomplete or was changed; a log or an order store
/// exists already; a file can't be written.
pub(crate) async fn run(
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
                format!("{} exists already", there.display()),
                "stop payfold, move the whole old folder aside and keep it; if its \
                 orders.claims.db is undamaged, it is newer than the backup's: give it with \
                 --claims",
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
            build => {
                if let Some(to) = paths.build(build) {
                    backup::copied(path, &to).await?;
                }
            }
        }
    }
    paths.open_to_read(vault::record_keys(settings)).await?.check_pair().await?;
    let publication = begin_anew(&paths, &manifest, seen).await?;
    print_result(&manifest, &data, publication);
    Ok(())
}

/// Starts a new publication epoch, so that readers who saw events from after the backup take the
/// coming ones as newer.
async fn begin_anew(paths: &Paths, manifest: &Manifest, seen: u32) -> anyhow::Result<Publication> {
    let engines = paths.open_to_write().await?;
    let asked = DecisionRequest {
        author: Author::parse(LOCAL_OWNER).expect("a fixed name"),
        reason: format!("restored from the backup of {}", manifest.made_at),
        request_id: SystemClock.request_id(),
        at: SystemClock.now(),
    };
    Ok(raise_epoch_after_restore(engines.base()?, &asked, seen).await?)
}

fn print_result(manifest: &Manifest, data: &DataDir, publication: Publication) {
    output::line(&format!(
        "restored into {}: the log up to {}, as of {}",
        data.path().display(),
        manifest.log_end,
        moment(manifest.made_at)
    ));
    output::line(&format!(
        "coming events have publication epoch {}, which is later than all epochs in backup and \
         claims; if subscribers have seen a later one, restore again with --above",
        publication.epoch
    ));
    if !data.identity().exists() {
        output::line(&format!("restore vault.key: {} does not exist", data.identity().display()));
    }
    output::line(
        "later records are lost: start payfold, then ask each partner to send its notices since \
         that time again, and inform subscribers and shops (docs/how-to/back-up-and-restore.md)",
    );
}
