//! Owns what the projectors of a process work with.

use std::sync::Arc;

use payfold_engines::clock::Clock;
use payfold_engines::log::EventLog;
use payfold_engines::orders::OrderStore;

use crate::metrics::ProjectorMetrics;
use crate::run::ProjectorSettings;

/// The engines, metrics and settings a supervisor gives its projectors.
pub struct ProjectorParts {
    /// The log.
    pub log: Arc<dyn EventLog>,
    /// The order store, open on any build.
    pub store: Arc<dyn OrderStore>,
    /// The process's metrics.
    pub metrics: Arc<ProjectorMetrics>,
    /// The settings of every projector. The supervisor sets group, build, rules and speed for each.
    pub settings: ProjectorSettings,
    /// The clock that dates journal entries and progress samples.
    pub clock: Arc<dyn Clock>,
}
