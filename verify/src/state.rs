//! Owns the state digest of all orders, for comparing two stores, or a store before and after a
//! rebuild.

use payfold_engines::EngineError;
use payfold_engines::orders::{OrderStore, Progress};
use payfold_schemas::digest::Digest;
use payfold_schemas::state::StateDigest;
use serde::Serialize;

use crate::every_order::EveryOrder;

const PAGE: usize = 1_000;

/// The state digest of a store, and how far the store was folded.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The digest of all orders; their sequence doesn't matter.
    pub state_digest: Digest,
    /// How many orders the digest covers.
    pub orders: usize,
    /// The last folded position of each partition.
    pub folded: Vec<String>,
    /// Whether the store was folded further while it was read; then the digest mixes two states.
    pub moved: bool,
}

/// Computes the state digest of a store. Errors: the engine's.
pub async fn read(store: &dyn OrderStore) -> Result<State, EngineError> {
    let before = store.progress().await?;
    let (mut sum, mut reading) = (StateDigest::default(), EveryOrder::of(store));
    while let Some(keys) = reading.next(PAGE).await? {
        for order in store.load(keys).await?.iter().flatten() {
            sum.add(order);
        }
    }
    let moved = store.progress().await? != before;
    let orders = sum.orders();
    Ok(State { state_digest: sum.finish(), orders, folded: positions(before), moved })
}

fn positions(progress: Option<Progress>) -> Vec<String> {
    let folded = progress.into_iter().flat_map(|progress| progress.folded);
    folded.map(|one| one.position.to_string()).collect()
}
