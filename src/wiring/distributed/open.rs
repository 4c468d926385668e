//! Owns opening Kafka and the CQL database, for roles and for read-only commands.

use std::sync::Arc;

use payfold_engines::log::EventLog;
use payfold_engines::log::kafka::KafkaLog;
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::cql::CqlOrders;
use payfold_schemas::record_keys::RecordKeys;
use prometheus::Registry;

use super::compacted_copy::{ClaimsTable, CompactedCopy};
use super::connection::{DistributedEngines, retry_while_unavailable};
use super::metrics;
use crate::wiring::engines::{ClaimsPair, Engines, Need};
use crate::wiring::explain::explain;
use crate::wiring::metrics::commit_metrics;

impl DistributedEngines {
    /// Opens the engines that a process needs. Errors: topics with settings that could lose
    /// records; engines that stay unavailable for 15 s; claims or orders that don't belong to the
    /// log.
    pub(crate) async fn open(
        &self,
        registry: &Registry,
        need: Need,
        keys: RecordKeys,
    ) -> anyhow::Result<Engines> {
        self.refuse_unsafe().await?;
        let observers = metrics::observers(registry, commit_metrics(registry)?)?;
        let open = async || KafkaLog::open(&self.kafka, observers.clone()).await;
        let log = retry_while_unavailable("open the log", open).await?;
        let cql = match need {
            Need::Both => {
                let cql = self.cql()?;
                let observer = metrics::statements(registry)?;
                let open =
                    async || CqlOrders::open_observed(cql.clone(), Some(observer.clone())).await;
                Some(Arc::new(retry_while_unavailable("open the order store", open).await?))
            }
            Need::Log | Need::Nothing => None,
        };
        let durability = "Kafka, every 200 is on all in-sync replicas first";
        let log: Arc<dyn EventLog> = Arc::new(log);
        let opened = engines(log, cql, keys);
        let copy = CompactedCopy::new(self.kafka.clone(), Arc::clone(&opened.log));
        let compacted_copy = self.kafka.orders_latest.then_some(copy);
        let opened = Engines { durability, compacted_copy, ..opened };
        opened.check_claims().await?;
        opened.check_store().await?;
        Ok(opened)
    }

    /// Opens both engines read-only; what is read is checked with these keys. Errors: the engines'.
    pub(crate) async fn open_to_read(&self, keys: RecordKeys) -> anyhow::Result<Engines> {
        let log = KafkaLog::open_read_only(&self.kafka).await.map_err(explain)?;
        let cql = self.cql()?.clone();
        let cql = Arc::new(CqlOrders::open_read_only(cql).await.map_err(explain)?);
        engines(Arc::new(log), Some(cql), keys).into_reader().await
    }
}

fn engines(log: Arc<dyn EventLog>, cql: Option<Arc<CqlOrders>>, keys: RecordKeys) -> Engines {
    let store = cql.clone().map(|cql| cql as Arc<dyn OrderStore>);
    let claims = cql.map(|cql| ClaimsPair::Tables(ClaimsTable::new(cql)));
    Engines { claims, ..Engines::new(log, store, keys) }
}
