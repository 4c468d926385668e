//! Owns the last stage: writes rows, views and progress of batches whose events are durable.
//! Invariant: batches are committed in log order, each once it is published, none before the one before it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use payfold_engines::orders::{Commit, Folded};
use payfold_schemas::order::Order;
use tokio::sync::mpsc;

use super::folding::FoldedBatch;
use super::outage::Outage;
use super::{Halt, Shared, compute};
use crate::batch::Changes;

/// Commits until there is no more input.
pub(super) async fn run(
    shared: &Shared,
    mut published: mpsc::Receiver<FoldedBatch>,
) -> Result<(), Halt> {
    while let Some(FoldedBatch { number, changes, folded, leave }) = published.recv().await {
        assert!(changes.events.is_empty(), "events are taken out as they are published");
        let (records, changes) = (changes.effects.len(), Arc::new(changes));
        let mut outage = Outage::none(shared, "commit orders");
        loop {
            let (changes, folded) = (Arc::clone(&changes), folded.clone());
            let log_id = shared.log.id();
            let commit = compute(records, move || commit_of(&changes, folded, log_id)).await?;
            match shared.store.commit(commit).await {
                Ok(()) => break,
                Err(error) => outage.wait(error).await?,
            }
        }
        outage.over();
        let before = shared.committed.swap(number, Ordering::AcqRel);
        assert_eq!(before.checked_add(1), Some(number), "batches are committed in order");
        for one in &folded {
            if let Some(head) = one.head {
                shared.metrics().chained(one.position, head);
            }
        }
        shared.status.advance(folded.iter().map(|folded| folded.position));
        drop(leave);
    }
    Ok(())
}

fn commit_of(changes: &Changes, folded: Vec<Folded>, log_id: [u8; 16]) -> Commit {
    let orders = changes.orders.iter().map(|order| Order::clone(order)).collect();
    Commit { orders, views: changes.views.clone(), folded, log_id }
}
