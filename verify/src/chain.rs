//! Owns verifying the log's hash chain: the records must be the ones that were folded, byte for
//! byte and in their positions. The chain is compared with the heads that the order store keeps for
//! each commit, and with heads that were saved outside the system (anchors). Only anchors prove
//! anything against a person who can write the order store, too.

mod anchored;
pub(crate) mod partition;

use indicatif::ProgressBar;
use payfold_engines::EngineError;

pub use self::anchored::Anchored;
use self::partition::PartitionCheck;
use crate::subject::Subject;
use crate::verification::Verification;

/// The result of verifying the chain.
#[derive(Default)]
pub struct Chain {
    /// The differences.
    pub verification: Verification,
    /// The head of every partition that was folded with heads.
    pub heads: Vec<Anchored>,
}

/// Checks every partition against its stored heads and these anchors. Errors: the engines'.
pub async fn verify(
    subject: &Subject,
    anchors: &[Anchored],
    progress: &ProgressBar,
) -> Result<Chain, EngineError> {
    let folded = subject.store.progress().await?.map_or_else(Vec::new, |progress| progress.folded);
    progress.set_length(folded.iter().map(|one| one.position.offset).sum());
    let mut chain = Chain::default();
    for one in &folded {
        let partition = one.position.partition;
        let known = anchors.iter().filter(|known| known.partition == partition);
        let mut partition = PartitionCheck::new(subject, *one, known.copied().collect());
        partition.check(&mut chain.verification, progress).await?;
        chain.heads.extend(partition.end());
    }
    let is_folded =
        |known: &&Anchored| folded.iter().any(|one| one.position.partition == known.partition);
    for known in anchors.iter().filter(|known| !is_folded(known)) {
        chain.verification.differs(&"-", "anchor", &"nothing of the partition", &known.position());
    }
    Ok(chain)
}
