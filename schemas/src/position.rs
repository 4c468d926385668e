//! Owns the position of a record in a topic.

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A position in a topic: partition and offset. SQLite has one partition, 0.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Encode,
    Decode,
    JsonSchema,
)]
pub struct Position {
    /// Partition of the topic.
    #[n(0)]
    pub partition: u32,
    /// Offset within the partition; the first record of SQLite has 1.
    #[n(1)]
    pub offset: u64,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.partition, self.offset)
    }
}

/// A text that is not `partition-offset` or a plain offset of partition 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a position is written partition-offset, such as 0-1234")]
pub struct PositionError;

impl std::str::FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let (partition, offset) = text.split_once('-').unwrap_or(("0", text));
        let partition = partition.parse().map_err(|_| PositionError)?;
        Ok(Self { partition, offset: offset.parse().map_err(|_| PositionError)? })
    }
}
