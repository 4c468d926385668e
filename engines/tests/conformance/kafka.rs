//! Kafka's list of the suite, and what only a cluster shows: how partitions change hands.

use std::sync::Arc;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::EventLog;
use payfold_engines::log::kafka::topics::{Footing, TopicsWanted};
use payfold_engines::log::kafka::{KafkaLog, KafkaSettings, Observers, topics};
use payfold_engines::orders::OrderStore;
use payfold_engines::{EngineError, SeamFuture};

use crate::bed::Bed;
use crate::stack::{shared, wanted};
use crate::{log, shares};

/// Topics of their own on the shared broker.
pub struct Topics {
    pub settings: KafkaSettings,
}

impl Topics {
    /// Makes them. None when real servers are left out.
    pub async fn new(partitions: u32) -> Option<Self> {
        if !wanted() {
            return None;
        }
        let prefix = format!("suite-{}", SystemClock.request_id());
        let mut settings = KafkaSettings::new(shared().kafka.clone(), &prefix);
        settings.delivery_timeout = std::time::Duration::from_secs(30);
        let wanted = TopicsWanted {
            partitions,
            replication: 1,
            footing: Footing::Dev,
            ..TopicsWanted::default()
        };
        topics::apply(&settings, &wanted).await.expect("the topics are made");
        Some(Self { settings })
    }
}

impl Bed for Topics {
    fn log(&self, queue_max: usize) -> SeamFuture<'_, Arc<dyn EventLog>, EngineError> {
        let settings = KafkaSettings { queue_max, ..self.settings.clone() };
        Box::pin(async move {
            let log = KafkaLog::open(&settings, Observers::default()).await?;
            Ok(Arc::new(log) as Arc<dyn EventLog>)
        })
    }

    fn orders(&self) -> SeamFuture<'_, Arc<dyn OrderStore>, EngineError> {
        unimplemented!("paired with the CQL store")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_keeps_what_it_told() {
    let Some(bed) = Topics::new(3).await else { return };
    log::keeps_what_it_told(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_keeps_the_order_of_a_key() {
    let Some(bed) = Topics::new(3).await else { return };
    log::keeps_the_order_of_a_key(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_appends_lists() {
    let Some(bed) = Topics::new(3).await else { return };
    log::appends_lists(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_keeps_topics_and_attributes() {
    let Some(bed) = Topics::new(3).await else { return };
    log::keeps_topics_and_attributes(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_delivers_batches() {
    let Some(bed) = Topics::new(3).await else { return };
    log::delivers_batches(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_remembers_acks() {
    let Some(bed) = Topics::new(3).await else { return };
    log::remembers_acks(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_wakes_a_waiting_reader() {
    let Some(bed) = Topics::new(3).await else { return };
    log::wakes_a_waiting_reader(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_survives_dropped_reads() {
    let Some(bed) = Topics::new(3).await else { return };
    log::survives_dropped_reads(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_refuses_at_once_when_full() {
    let Some(bed) = Topics::new(3).await else { return };
    log::refuses_at_once_when_full(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_keeps_dropped_appends() {
    let Some(bed) = Topics::new(3).await else { return };
    log::keeps_dropped_appends(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_drains_when_closed() {
    let Some(bed) = Topics::new(3).await else { return };
    log::drains_when_closed(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_lists() {
    let Some(bed) = Topics::new(3).await else { return };
    log::lists(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_begins_where_it_is_told() {
    let Some(bed) = Topics::new(3).await else { return };
    shares::begins_where_it_is_told(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_goes_on() {
    let Some(bed) = Topics::new(3).await else { return };
    shares::goes_on(&bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_refuses_to_begin_past_the_end() {
    let Some(bed) = Topics::new(3).await else { return };
    shares::refuses_to_begin_past_the_end(&bed).await;
}
