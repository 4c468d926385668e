//! Owns the context that all runs and decisions use: storage, metrics and bounds.

use std::sync::Arc;
use std::time::Duration;

use payfold_kit::Storage;

use crate::metrics::ReconcileMetrics;
use crate::people::People;

/// Storage, metrics and bounds of every run and decision.
pub struct SharedContext {
    /// Log, order store and clock.
    pub storage: Storage,
    /// The metrics of findings and runs.
    pub metrics: Arc<ReconcileMetrics>,
    /// The bounds of a run.
    pub settings: ReconcileLimits,
    /// Which people may decide.
    pub people: People,
}

/// The bounds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconcileLimits {
    /// The most entries of one page of a view.
    pub page_entries: usize,
    /// The largest difference between this process's clock and those of the processes that append,
    /// plus the longest time an append takes.
    pub clock_margin: Duration,
}
