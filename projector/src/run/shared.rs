//! Owns what all stages of one projector share: the engines, settings, metrics, and the signal to
//! stop.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use payfold_engines::log::EventLog;
use payfold_engines::orders::OrderStore;
use payfold_kit::{Outage, wait_for_stop};
use payfold_schemas::position::Position;
use payfold_schemas::publication::Publication;
use tokio::sync::watch;

use super::settings::ProjectorSettings;
use crate::metrics::ProjectorMetrics;
use crate::status::ProjectorStatus;

/// What all stages share.
pub(super) struct Shared {
    pub(super) log: Arc<dyn EventLog>,
    pub(super) store: Arc<dyn OrderStore>,
    /// The metrics this process exports.
    pub(super) exported: Arc<ProjectorMetrics>,
    /// The copy that is not exported, used while the build is unpublished.
    pub(super) unexported: Arc<ProjectorMetrics>,
    /// Whether the build is published in any partition of this projector.
    pub(super) is_published: AtomicBool,
    pub(super) settings: ProjectorSettings,
    pub(super) status: Arc<ProjectorStatus>,
    pub(super) stop: watch::Receiver<bool>,
    /// The number of the last committed batch of this assignment.
    pub(super) committed: AtomicU64,
    /// Damaged records that were not parked when they were first read.
    pub(super) unparked: Mutex<BTreeSet<Position>>,
}

impl Shared {
    /// The metrics to count in: the exported ones once the build is published.
    pub(super) fn metrics(&self) -> &Arc<ProjectorMetrics> {
        if self.is_published.load(Ordering::Relaxed) { &self.exported } else { &self.unexported }
    }

    /// Sets the lag of an unpublished build, in records. It is exported although the build's other
    /// metrics are not: people wait for a rebuild to catch up.
    pub(super) fn measure_build_lag(&self, records: u64) {
        let build = self.settings.build;
        if self.is_published.load(Ordering::Relaxed) {
            self.exported.clear_build_lag(build);
        } else {
            self.exported.set_build_lag(build, records);
        }
    }

    /// Whether a publication is of this build.
    pub(super) fn publishes(&self, publication: Publication) -> bool {
        publication.build == self.settings.build
    }

    /// Takes the publications of this projector's partitions: the metrics are exported from now on
    /// if any of them is of this build.
    pub(super) fn choose_metrics(&self, mut publications: impl Iterator<Item = Publication>) {
        let is_published = publications.any(|publication| self.publishes(publication));
        self.is_published.store(is_published, Ordering::Relaxed);
    }

    /// Resolves when the projector is signalled to stop.
    pub(super) async fn stopped(&self) {
        wait_for_stop(&self.stop).await;
    }

    /// Retries of one operation on storage until it succeeds. `what` follows "can't" in messages.
    pub(super) fn outage(&self, what: &'static str) -> Outage<'_> {
        Outage::new(self.settings.retry, &self.stop, what)
    }
}
