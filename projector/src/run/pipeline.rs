//! Owns the four stages of an assignment and their order: read, fold, publish, commit. Each stage
//! takes one batch at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use payfold_engines::log::AssignedReader;
use tokio::sync::{Semaphore, mpsc};

use super::error::Halt;
use super::read::{Ended, PartitionStates};
use super::shared::Shared;
use super::{commit, folding, publish, read};

/// Runs the stages over the records the reader delivers. Returns why reading ended, once everything
/// that was read is committed.
pub(super) async fn run(
    shared: &Shared,
    reader: &mut dyn AssignedReader,
    states: &mut PartitionStates,
) -> Result<Ended, Halt> {
    shared.committed.store(0, Ordering::Release);
    // One batch may wait before each stage; more would only take memory.
    let under_way = Arc::new(Semaphore::new(shared.settings.batches_max.max(1)));
    let (to_fold, decoded) = mpsc::channel(1);
    let (to_publish, folded) = mpsc::channel(1);
    let (to_commit, published) = mpsc::channel(1);
    let (ended, (), (), ()) = tokio::try_join!(
        read::run(shared, (reader, states), (under_way, to_fold)),
        folding::run(shared, decoded, to_publish),
        publish::run(shared, folded, to_commit),
        commit::run(shared, published),
    )?;
    Ok(ended)
}
