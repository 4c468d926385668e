//! Owns how the test itself looks into log and order store, straight, past every proxy.

use std::collections::BTreeMap;
use std::sync::Arc;

use payfold_engines::log::kafka::{KafkaLog, KafkaSettings};
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::cql::{CqlOrders, CqlSettings};
use tokio::runtime::Runtime;

use crate::faults::checker::{self, Report};
use crate::faults::load::Seen;

use super::pods::Ways;

/// Offsets by partition.
pub type Places = BTreeMap<u32, u64>;

/// Log and order store, to read.
pub struct View {
    runtime: Arc<Runtime>,
    log: KafkaLog,
    store: CqlOrders,
}

impl View {
    /// Opens both.
    pub fn open(runtime: &Arc<Runtime>, ways: &Ways) -> Self {
        let kafka = KafkaSettings::parse_url(&ways.log).expect("a URL");
        let mut cql = CqlSettings::parse_url(&ways.orders).expect("a URL");
        cql.dev = true;
        let (log, store) = runtime.block_on(async {
            let log = KafkaLog::open_read_only(&kafka).await.expect("the log opens");
            (log, CqlOrders::open(cql).await.expect("the store opens"))
        });
        Self { runtime: Arc::clone(runtime), log, store }
    }

    /// The ends of intake's partitions; `None` while the log can't be read.
    pub fn heads(&self) -> Option<Places> {
        let extents = self.runtime.block_on(self.log.extent(Topic::Intake)).ok()?;
        Some(extents.iter().map(|extent| (extent.partition, extent.last)).collect())
    }

    /// How far the order store is folded; `None` while it can't be read.
    pub fn folded(&self) -> Option<Places> {
        let progress = self.runtime.block_on(self.store.progress()).ok()??;
        let place =
            |position: payfold_schemas::position::Position| (position.partition, position.offset);
        Some(progress.folded.iter().map(|folded| place(folded.position)).collect())
    }

    /// The partitions that are not folded up to these places: what is folded of each, and where it
    /// should be.
    pub fn behind(&self, heads: &Places) -> Vec<String> {
        let Some(folded) = self.folded() else { return vec!["progress can't be read".to_owned()] };
        let of = |partition: &u32| folded.get(partition).copied().unwrap_or(0);
        let behind = heads.iter().filter(|(partition, head)| of(partition) < **head);
        behind
            .map(|(partition, head)| format!("{partition}: {} of {head}", of(partition)))
            .collect()
    }

    /// Checks what is there against what was answered.
    pub fn check(&self, seen: &Seen) -> Report {
        self.runtime.block_on(checker::check_engines(&self.log, &self.store, seen))
    }
}
