//! Owns the run loop: intake in; events, rows, views and progress out.
//!
//! A pipeline of four stages: `read` → `folding` → `publish` → `commit`. Each stage takes one batch
//! at a time, in log order, so that reading, folding, publishing and committing overlap.
//!
//! Invariants: a batch is committed only after its events are durable; a batch is folded over the
//! rows of all batches before it (`cache` holds what is not committed yet); nothing is skipped. A
//! crash anywhere repeats whole batches from the store's progress: the same events with the same
//! ids, the same rows. `assignments` owns which partitions are read, and for how long; `cutover`
//! owns what happens at the markers of a switch.

mod assignments;
mod cache;
mod commit;
mod compute;
mod cutover;
mod error;
mod folding;
mod lag;
mod pace;
mod pairing;
mod pipeline;
mod publish;
mod read;
mod settings;
mod shared;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use payfold_engines::log::EventLog;
use payfold_engines::orders::OrderStore;
use payfold_kit::RunError;
use payfold_schemas::publication::Publication;
use tokio::sync::watch;

use self::error::Halt;
pub use self::settings::{ProjectorSettings, Speed};
use self::shared::Shared;
use crate::metrics::ProjectorMetrics;
use crate::status::ProjectorStatus;

/// Folds one log into one order store.
pub struct Projector {
    log: Arc<dyn EventLog>,
    store: Arc<dyn OrderStore>,
    metrics: Arc<ProjectorMetrics>,
    settings: ProjectorSettings,
    status: Arc<ProjectorStatus>,
}

impl Projector {
    /// A projector that is not running yet.
    pub fn new(
        log: Arc<dyn EventLog>,
        store: Arc<dyn OrderStore>,
        metrics: Arc<ProjectorMetrics>,
        settings: ProjectorSettings,
    ) -> Self {
        Self { log, store, metrics, settings, status: Arc::default() }
    }

    /// How far the projector has come. The status is updated while it runs and outlives the run.
    pub fn status(&self) -> Arc<ProjectorStatus> {
        Arc::clone(&self.status)
    }

    /// Runs until `stop` holds true (or its sender is gone), then finishes the batches in flight
    /// and returns. While storage is unavailable it waits and retries. Errors: the first error
    /// that a retry can't mend; it is logged here.
    pub async fn run(self, stop: watch::Receiver<bool>) -> Result<(), RunError> {
        let Self { log, store, metrics, settings, status } = self;
        let (committed, unparked) = (AtomicU64::new(0), Mutex::default());
        let unexported = Arc::new(metrics.unregistered());
        let is_published = AtomicBool::new(settings.build == Publication::FIRST.build);
        let shared = Shared {
            log,
            store,
            exported: metrics,
            unexported,
            is_published,
            settings,
            status,
            stop,
            committed,
            unparked,
        };
        let result = tokio::select! {
            result = assignments::run(&shared) => result,
            () = lag::keep_measuring(&shared) => {
                unreachable!("the lag is measured without an end")
            },
        };
        shared.status.set_lag(None);
        shared.exported.clear_build_lag(shared.settings.build);
        match result {
            Ok(None) | Err(Halt::Stopped | Halt::Lost(_)) => Ok(()),
            Ok(Some(error)) | Err(Halt::Failed(error)) => {
                shared.metrics().partition_halted();
                lag::end_measuring(&shared).await;
                tracing::error!(error = %error, "projector halted");
                Err(error)
            }
        }
    }
}
