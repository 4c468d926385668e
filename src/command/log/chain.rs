//! `payfold log verify --chain`: whether the log's records are those that were folded, byte for byte and in their places,
//! by the heads kept with each commit; and by heads that were remembered elsewhere (`--against`), which are the only ones
//! that prove anything against whoever can write the order store too.

mod anchor;
mod partition;

use payfold_engines::clock::{Clock, SystemClock};

use self::anchor::{Anchor, Anchored};
use self::partition::Partition;
pub(super) use self::partition::{Next, next};
use super::{Verdict, print};
use crate::args::{ChainArgs, OutputArgs};
use crate::output;
use crate::wiring::Engines;

/// Checks every partition. Errors: `DifferencesFound`; an anchor that is none, or another log's.
pub async fn verify(
    engines: &Engines,
    files: &ChainArgs,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let log_id = engines.log.id();
    let remembered = files.against.as_deref().map(|path| Anchor::read(path, log_id)).transpose()?;
    let remembered = remembered.map_or_else(Vec::new, |anchor| anchor.heads);
    let progress = engines.store()?.progress().await?;
    let folded = progress.map_or_else(Vec::new, |progress| progress.folded);
    let bar = output::progress_bar(
        output.output,
        folded.iter().map(|one| one.position.offset).sum(),
        "records",
    );
    let (mut verdict, mut heads) = (Verdict::default(), Vec::new());
    for one in &folded {
        let partition = one.position.partition;
        let known = remembered.iter().filter(|known| known.partition == partition);
        let mut partition = Partition::new(engines, *one, known.copied().collect());
        partition.check(&mut verdict, &bar).await?;
        heads.extend(partition.end());
    }
    bar.finish_and_clear();
    let is_folded =
        |known: &&Anchored| folded.iter().any(|one| one.position.partition == known.partition);
    for known in remembered.iter().filter(|known| !is_folded(known)) {
        verdict.differs(&"-", "anchor", &"nothing of the partition", &known.position());
    }
    let whole = verdict.differences.is_empty();
    if let Some(path) = files.anchor.as_deref().filter(|_| whole) {
        Anchor { log_id: hex::encode(log_id), at: SystemClock.now(), heads: heads.clone() }
            .write(path)?;
    }
    for one in heads.iter().filter(|_| whole) {
        output::error_line(&format!("head of {}: {}", one.position(), one.head));
    }
    print(&verdict, output)
}
