//! Owns the claims in the CQL database and the compacted copy of `orders` in Kafka, as roles and
//! checks use them.

use std::sync::Arc;

use payfold_checkout::paired_claims;
use payfold_engines::EngineError;
use payfold_engines::log::EventLog;
use payfold_engines::log::kafka::KafkaSettings;
use payfold_engines::orders::cql::CqlOrders;
use payfold_projector::ProjectorMetrics;
use payfold_projector::copier::Copier;
use tokio::sync::watch;

/// The claims in the database.
pub(crate) struct ClaimsTable(Arc<CqlOrders>);

impl ClaimsTable {
    /// Wraps the claims of this database.
    pub(super) fn new(orders: Arc<CqlOrders>) -> Self {
        Self(orders)
    }

    /// Checks that the claims belong to this log. Errors: they are lost; the engines'.
    pub(crate) async fn check(&self, log: &dyn EventLog) -> Result<(), EngineError> {
        match self.0.has_claims().await? {
            true => Ok(()),
            false => paired_claims::check_empty_table(log).await,
        }
    }
}

/// The compacted copy of `orders` (topic `orders.latest`).
#[derive(Clone)]
pub(crate) struct CompactedCopy {
    kafka: KafkaSettings,
    log: Arc<dyn EventLog>,
}

impl CompactedCopy {
    /// The copy of this log's topic in the same cluster.
    pub(super) fn new(kafka: KafkaSettings, log: Arc<dyn EventLog>) -> Self {
        Self { kafka, log }
    }

    /// Runs the copier until it is stopped; the metrics show how far it is behind.
    pub(crate) async fn run(self, metrics: Arc<ProjectorMetrics>, stopped: watch::Receiver<bool>) {
        Copier::new(self.kafka, self.log, metrics).run(stopped).await;
    }
}
