//! Owns the anchor file, which holds heads of the log's hash chain outside the system. It is JSON
//! and holds no secret.

use std::path::Path;

use anyhow::Context;
use payfold_schemas::time::Time;
use payfold_verify::chain::Anchored;
use serde::{Deserialize, Serialize};

use crate::data_dir;
use crate::error::Fixable;

/// The chain heads of one log at one time.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Anchor {
    /// The log's id, hex.
    pub log_id: String,
    /// When the heads were written, RFC 3339.
    pub at: Time,
    /// One head for each partition.
    pub heads: Vec<Anchored>,
}

impl Anchor {
    /// Reads the anchor of the log with this id. Errors: the file is no anchor, or another log's.
    pub(crate) fn read(path: &Path, log_id: [u8; 16]) -> anyhow::Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
        let anchor: Self = serde_json::from_slice(&text).map_err(|error| {
            Fixable::error(
                format!("{} holds no chain heads: {error}", path.display()),
                "give a file that `payfold log verify --chain --anchor FILE` wrote",
            )
        })?;
        if anchor.log_id == hex::encode(log_id) {
            return Ok(anchor);
        }
        Err(Fixable::error(
            format!("{} holds the chain heads of another log", path.display()),
            "give the file of this log, or the data folder of the other log with --data",
        ))
    }

    /// Writes the file, readable by this user only.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        data_dir::write_private(path, &serde_json::to_vec_pretty(self)?)
    }
}
