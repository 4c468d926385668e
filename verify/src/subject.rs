//! Owns the engines that are verified.

use std::sync::Arc;

use payfold_engines::log::EventLog;
use payfold_engines::orders::OrderStore;

/// A log, and the order store that was folded from it.
pub struct Subject {
    /// The log.
    pub log: Arc<dyn EventLog>,
    /// The order store on the published build, as readers see it.
    pub store: Arc<dyn OrderStore>,
    /// The order store from which every build can be opened.
    pub base: Arc<dyn OrderStore>,
    /// Whether the engines are embedded. An embedded log has no retention, so it never removes
    /// events.
    pub is_embedded: bool,
}
