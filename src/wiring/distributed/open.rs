//! Owns opening Kafka and the CQL database, for a role or to read, and the claims that are kept there.

use std::sync::Arc;

use payfold_engines::log::EventLog;
use payfold_engines::log::kafka::{KafkaLog, KafkaSettings, Latest, LatestNews};
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::cql::CqlOrders;
use payfold_engines::{EngineError, pairing};
use payfold_projector::Metrics;
use prometheus::Registry;
use tokio::sync::watch;

use super::{Distributed, metrics, patiently};
use crate::wiring::{ClaimsPair, Engines, Need, commit_metrics, explain};

/// The claims in the database.
pub struct Tables(Arc<CqlOrders>);

impl Tables {
    /// Checks that they are those of this log. Errors: they are lost; the engines'.
    pub async fn check(&self, log: &dyn EventLog) -> Result<(), EngineError> {
        pairing::claims::check_tables(log, &self.0).await
    }
}

/// The compacted twin of `orders`.
#[derive(Clone)]
pub struct Twin {
    kafka: KafkaSettings,
    log: Arc<dyn EventLog>,
}

impl Twin {
    /// Keeps it until stopped, and counts how far it is behind.
    pub async fn keep(self, metrics: Arc<Metrics>, stopped: watch::Receiver<bool>) {
        let tell = Arc::new(move |news| match news {
            LatestNews::Behind(messages) => metrics.latest_behind(messages),
            LatestNews::Failed => metrics.latest_failed(),
        });
        Latest::new(self.kafka, self.log).run(tell, stopped).await;
    }
}

impl Distributed {
    /// Opens what a role needs. Errors: topics that would lose money; engines that are not there within seconds; claims
    /// or orders that don't belong to the log.
    pub async fn open(&self, registry: &Registry, need: Need) -> anyhow::Result<Engines> {
        self.refuse_unsafe().await?;
        let observers = metrics::observers(registry, commit_metrics(registry)?)?;
        let open = async || KafkaLog::open(&self.kafka, observers.clone()).await;
        let log = patiently("open the log", open).await?;
        let cql = match need {
            Need::Both => {
                let cql = self.cql()?;
                let told = metrics::statements(registry)?;
                let open = async || CqlOrders::open_observed(cql.clone(), Some(told.clone())).await;
                Some(Arc::new(patiently("open the order store", open).await?))
            }
            Need::Log | Need::Nothing => None,
        };
        let durability = "Kafka, every 200 is on all in-sync replicas first";
        let log: Arc<dyn EventLog> = Arc::new(log);
        let twin = Twin { kafka: self.kafka.clone(), log: Arc::clone(&log) };
        let twin = self.kafka.orders_latest.then_some(twin);
        let opened = Engines { durability, twin, ..engines(log, cql) };
        opened.check_claims().await?;
        opened.check_store().await?;
        Ok(opened)
    }

    /// Opens both for listings; nothing can be changed. Errors: the engines'.
    pub async fn open_to_read(&self) -> anyhow::Result<Engines> {
        let log = KafkaLog::open_read_only(&self.kafka).await.map_err(explain)?;
        let cql = self.cql()?.clone();
        let cql = Arc::new(CqlOrders::open_read_only(cql).await.map_err(explain)?);
        Ok(engines(Arc::new(log), Some(cql)))
    }
}

fn engines(log: Arc<dyn EventLog>, cql: Option<Arc<CqlOrders>>) -> Engines {
    let store = cql.clone().map(|cql| cql as Arc<dyn OrderStore>);
    let claims = cql.map(|cql| ClaimsPair::Tables(Tables(cql)));
    Engines { claims, ..Engines::new(log, store) }
}
