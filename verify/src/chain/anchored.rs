//! Owns the anchor: a partition's head as it is saved outside the system.

use payfold_schemas::chain::Head;
use payfold_schemas::position::Position;
use serde::{Deserialize, Serialize};

/// The head of a partition after one of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Anchored {
    /// The partition.
    pub partition: u32,
    /// The record's offset.
    pub offset: u64,
    /// The head, SHA-256 in hex.
    pub head: Head,
}

impl Anchored {
    /// The record's position.
    pub fn position(&self) -> Position {
        Position { partition: self.partition, offset: self.offset }
    }
}
