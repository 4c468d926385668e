//! Owns the last stage: writes rows, views and progress of a batch once its events are durable.
//! Invariant: batches are committed in log order.

use std::sync::atomic::Ordering;

use payfold_engines::orders::Commit;
use tokio::sync::mpsc;

use super::error::Halt;
use super::folding::FoldedBatch;
use super::shared::Shared;
use crate::batch::Changes;

/// Commits until there is no more input.
pub(super) async fn run(
    shared: &Shared,
    mut published: mpsc::Receiver<FoldedBatch>,
) -> Result<(), Halt> {
    while let Some(FoldedBatch { number, changes, folded, permit }) = published.recv().await {
        assert!(changes.events.is_empty(), "events are taken out as they are published");
        let Changes { orders, views, .. } = changes;
        let (views, log_id) = (views.into(), shared.log.id());
        let commit = Commit { orders, views, folded: folded.clone(), log_id };
        shared.outage("commit orders").ask(|| shared.store.commit(commit.clone())).await?;
        let before = shared.committed.swap(number, Ordering::AcqRel);
        assert_eq!(before.checked_add(1), Some(number), "batches are committed in order");
        for one in &folded {
            if let Some(head) = one.head {
                shared.metrics().set_chain_head(one.position, head);
            }
        }
        shared.status.advance(folded.iter().map(|folded| folded.position));
        drop(permit);
    }
    Ok(())
}
