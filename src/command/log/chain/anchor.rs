//! Owns the file of heads that are remembered outside of the system. It is JSON, and nothing in it is secret.

use std::path::Path;

use anyhow::Context;
use payfold_schemas::chain::Head;
use payfold_schemas::record::Position;
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use crate::data_dir;
use crate::error::Fixable;

/// Heads of one log at one time.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Anchor {
    /// The log's id, hex.
    pub log_id: String,
    /// When they were written down, RFC 3339.
    pub at: Time,
    /// One for each partition.
    pub heads: Vec<Anchored>,
}

/// The head of a partition after one of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Anchored {
    /// The partition.
    pub partition: u32,
    /// The record's offset.
    pub offset: u64,
    /// SHA-256, hex.
    pub head: Head,
}

impl Anchored {
    /// Where the record stands.
    pub fn position(&self) -> Position {
        Position { partition: self.partition, offset: self.offset }
    }
}

impl Anchor {
    /// Reads a file of heads of the log with this id. Errors: it is none, or another log's.
    pub fn read(path: &Path, log_id: [u8; 16]) -> anyhow::Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
        let anchor: Self = serde_json::from_slice(&text).map_err(|error| {
            Fixable::error(
                format!("{} holds no heads: {error}", path.display()),
                "name a file that `payfold log verify --chain --anchor FILE` wrote",
            )
        })?;
        if anchor.log_id == hex::encode(log_id) {
            return Ok(anchor);
        }
        Err(Fixable::error(
            format!("{} holds the heads of another log than this one", path.display()),
            "name the heads of this log, or the data folder of that one with --data",
        ))
    }

    /// Writes it.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        data_dir::write_private(path, &serde_json::to_vec_pretty(self)?)
    }
}
