//! Owns the second stage: loads the orders of a batch, each once, and folds the batch over them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use payfold_engines::orders::Folded;
use payfold_schemas::ids::OrderKey;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::cache::Cache;
use super::compute::compute;
use super::error::Halt;
use super::read::{DecodedBatch, ReadBatch};
use super::shared::Shared;
use crate::batch::{Changes, FoldOptions, Orders, fold_batch};

/// A folded batch.
pub(super) struct FoldedBatch {
    /// Counted from 1 in each assignment.
    pub(super) number: u64,
    pub(super) changes: Changes,
    pub(super) folded: Vec<Folded>,
    /// Released once the batch is committed.
    pub(super) permit: OwnedSemaphorePermit,
}

/// Folds until there is no more input.
pub(super) async fn run(
    shared: &Shared,
    mut read: mpsc::Receiver<ReadBatch>,
    to_publish: mpsc::Sender<FoldedBatch>,
) -> Result<(), Halt> {
    let mut cache = Cache::new(shared.settings.cache_bytes);
    let mut number = 0_u64;
    while let Some(ReadBatch { decoded, permit }) = read.recv().await {
        let DecodedBatch { records, folded, epochs } = decoded;
        number = number.checked_add(1).expect("no run folds 2^64 batches");
        let (mut orders, missing) = cache.take(&records);
        load(shared, missing, &mut orders).await?;
        let options = FoldOptions { rules: shared.settings.rules, epochs };
        let metrics = Arc::clone(shared.metrics());
        let (orders, changes) = compute(records.len(), move || {
            let changes = fold_batch(&mut orders, &records, &options);
            for ((_, record), effect) in records.iter().zip(&changes.effects) {
                metrics.fact_folded(&record.fact, *effect);
            }
            changes.entered.iter().for_each(|state| metrics.state_entered(*state));
            changes.raised.iter().for_each(|flag| metrics.flag_raised(*flag));
            (orders, changes)
        })
        .await?;
        cache.put(number, orders, shared.committed.load(Ordering::Acquire));
        if to_publish.send(FoldedBatch { number, changes, folded, permit }).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Adds the rows of `keys` to `orders`; a key without a row stays out.
async fn load(shared: &Shared, keys: Vec<OrderKey>, orders: &mut Orders) -> Result<(), Halt> {
    if keys.is_empty() {
        return Ok(());
    }
    let rows = shared.outage("load orders").ask(|| shared.store.load(keys.clone())).await?;
    assert_eq!(rows.len(), keys.len(), "a store returns one row or none for each key");
    for (key, row) in keys.into_iter().zip(rows) {
        if let Some(order) = row {
            assert_eq!(order.key, key, "a row holds the key it is stored under");
            orders.insert(key, Arc::new(order));
        }
    }
    Ok(())
}
