//! Owns the settings of the reconciler role.

use serde::{Deserialize, Serialize};

/// The reconciler role.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReconcilerSettings {
    /// Milliseconds between two checks for passed deadlines.
    pub deadline_poll_ms: u64,
    /// When the partner is queried about a stuck order: times since the order's creation, or since
    /// the receipt of a notice that waits for confirmation.
    pub query_after: Vec<String>,
    /// Milliseconds between two checks for stuck orders.
    pub query_poll_ms: u64,
    /// How many days before the compared day an order that is paid on it may have been created.
    pub lookback_days: u32,
    /// Milliseconds between two checks for new records files and for findings that no longer hold.
    pub reconcile_poll_ms: u64,
    /// How many hours the system has to have known the tokens of both people of what takes two.
    pub second_after_hours: u32,
}

impl Default for ReconcilerSettings {
    fn default() -> Self {
        let after = ["1m", "5m", "30m", "2h", "12h", "1d", "2d", "3d", "4d", "5d", "6d", "7d"];
        Self {
            deadline_poll_ms: 1_000,
            query_after: after.map(str::to_owned).into(),
            query_poll_ms: 1_000,
            lookback_days: 7,
            reconcile_poll_ms: 10_000,
            second_after_hours: 24,
        }
    }
}
