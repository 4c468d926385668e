//! Owns how far the order store is folded, and which orders one pass over the log covers.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use payfold_engines::EngineError;
use payfold_engines::orders::{OrderStore, Progress};
use payfold_schemas::position::Position;

/// One of several passes over the log; each covers other orders, which bounds memory.
#[derive(Clone, Copy)]
pub(crate) struct Pass {
    /// Counted from 0.
    pub(crate) number: u64,
    pub(crate) of: u64,
}

/// How far each partition is folded.
pub struct Through(HashMap<u32, u64>);

impl Through {
    /// The number of folded records in all partitions.
    pub(crate) fn records(&self) -> u64 {
        self.0.values().sum()
    }

    /// Takes the offsets from a store's progress.
    pub(crate) fn of(progress: Option<Progress>) -> Self {
        let positions = progress.into_iter().flat_map(|progress| progress.folded);
        Self(positions.map(|one| (one.position.partition, one.position.offset)).collect())
    }

    /// The last folded offset of a partition; 0 for none.
    pub fn offset(&self, partition: u32) -> u64 {
        self.0.get(&partition).copied().unwrap_or(0)
    }

    /// Whether the record at this position is folded.
    pub fn has(&self, position: Position) -> bool {
        position.offset <= self.offset(position.partition)
    }
}

/// Reads how far an order store is folded. Errors: the engine's.
pub async fn folded(store: &dyn OrderStore) -> Result<Through, EngineError> {
    Ok(Through::of(store.progress().await?))
}

/// Whether a pass covers the order with this key.
pub(crate) fn in_pass(key: &str, pass: Pass) -> bool {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(key) % pass.of == pass.number
}
