//! Owns the running of the role: the scan of deadlines, the reader of intake, the queries to
//! partners and the reconciliation run side by side until the role is signalled to stop.
//! Invariants: the role writes facts to `intake`, events to `findings`, and one claim for each run.
//! Facts and events have ids made of their content, so a crash, a repeat or a second instance does
//! no harm.

use std::sync::Arc;

use payfold_engines::clock::Clock;
use payfold_engines::log::EventLog;
use payfold_engines::orders::OrderStore;
use payfold_kit::{Halt, RunError, Storage};
use payfold_reconcile::service::ServiceQueue;
use payfold_reconcile::setup::ReconcileSetup;
use tokio::sync::watch;

use crate::context::ReconcilerContext;
use crate::expiry::Expiry;
use crate::metrics::Metrics;
use crate::partners::Partners;
use crate::settings::Settings;
use crate::{deadlines, intake_reader, queries};

#[cfg(test)]
pub(crate) mod testkit;
#[cfg(test)]
mod tests;

/// How many queries of surveys may wait for the query loop.
const SURVEY_QUERIES_MAX: usize = 64;

/// The reconciler role, ready to run.
pub struct Reconciler {
    log: Arc<dyn EventLog>,
    store: Arc<dyn OrderStore>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    settings: Settings,
    partners: Option<Partners>,
    reconciliation: Option<(ReconcileSetup, ServiceQueue)>,
}

impl Reconciler {
    /// A reconciler that is not running yet.
    pub fn new(
        log: Arc<dyn EventLog>,
        store: Arc<dyn OrderStore>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        settings: Settings,
    ) -> Self {
        Self { log, store, clock, metrics, settings, partners: None, reconciliation: None }
    }

    /// Queries these partners: about stuck payments, about unconfirmed notices, and for surveys.
    /// Without this call no partner is queried, and every survey is refused.
    pub fn with_queries(self, partners: Partners) -> Self {
        Self { partners: Some(partners), ..self }
    }

    /// Serves the requests of this queue: comparisons, surveys, decisions, closings. Without this
    /// call no such request is answered.
    pub fn with_reconciliation(self, setup: ReconcileSetup, queue: ServiceQueue) -> Self {
        Self { reconciliation: Some((setup, queue)), ..self }
    }

    /// Runs until `stop` holds true or its sender is dropped. While storage is unavailable it waits
    /// and tries again. Errors: `RunError`, which is logged here.
    pub async fn run(self, stop: watch::Receiver<bool>) -> Result<(), RunError> {
        let Self { log, store, clock, metrics, settings, partners, reconciliation } = self;
        let storage = Storage::new(log, store, clock, settings.retry, stop);
        let comparison = payfold_reconcile::SharedContext {
            storage: storage.clone(),
            metrics: Arc::clone(&metrics.findings),
            settings: payfold_reconcile::ReconcileLimits {
                page_entries: settings.page_entries,
                clock_margin: settings.clock_margin,
            },
            people: reconciliation.as_ref().map(|(setup, _)| setup.people).unwrap_or_default(),
        };
        let context = ReconcilerContext::new(storage, metrics, settings);
        let expiry = tokio::sync::Mutex::new(Expiry::default());
        let (survey_queries, received) = tokio::sync::mpsc::channel(SURVEY_QUERIES_MAX);
        // Without partners no query would be answered: surveys are refused if there is no sender.
        let survey_queries = partners.is_some().then_some(survey_queries);
        let query = async {
            match &partners {
                Some(partners) => queries::run_queries(&context, partners, received).await,
                None => Ok(()),
            }
        };
        let reconcile = async {
            let Some((setup, queue)) = reconciliation else { return Ok(()) };
            payfold_reconcile::run(&comparison, &setup, queue, survey_queries).await
        };
        let scan = deadlines::scan_deadlines(&context, &expiry);
        let read = intake_reader::read_intake(&context, &expiry);
        match tokio::try_join!(scan, read, query, reconcile) {
            Ok(((), (), (), ())) | Err(Halt::Stopped) => Ok(()),
            Err(Halt::Failed(error)) => {
                context.metrics.set_halted();
                tracing::error!(error = %error, "reconciler halted");
                Err(error)
            }
        }
    }
}
