//! Owns the gauges that are refreshed at each scrape: queue depth, log size, free disk space, age
//! of the oldest quarantined notice.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Data;
use payfold_engines::clock::Clock;
use payfold_engines::log::walk;
use payfold_engines::log::{EventLog, Topic};
use payfold_ingest::ingest::Ingest;
use payfold_kit::search;
use prometheus::{
    Gauge, IntGauge, IntGaugeVec, Registry, register_gauge_with_registry,
    register_int_gauge_vec_with_registry, register_int_gauge_with_registry,
};

use crate::data_dir::disk_free_bytes;

/// How long a scrape waits for the log. Prometheus gives up after 10 s, and would count a process
/// that waits longer as down.
const LOG_READ_MAX: Duration = Duration::from_secs(3);

/// The gauges and their sources.
pub(crate) struct Gauges {
    /// `None` if no role has engines.
    log: Option<Arc<dyn EventLog>>,
    clock: Arc<dyn Clock>,
    ingest: Option<Data<Ingest>>,
    data: PathBuf,
    log_bytes: IntGaugeVec,
    disk_free_bytes: IntGauge,
    quarantine_oldest_seconds: Gauge,
}

impl Gauges {
    /// Makes and registers the gauges. Errors: a metric of that name exists.
    pub(crate) fn new(
        registry: &Registry,
        log: Option<Arc<dyn EventLog>>,
        clock: Arc<dyn Clock>,
        ingest: Option<Data<Ingest>>,
        data: PathBuf,
    ) -> Result<Self, prometheus::Error> {
        let log_bytes = register_int_gauge_vec_with_registry!(
            "payfold_engine_log_bytes",
            "Size of a topic in the log, bytes.",
            &["topic"],
            registry
        )?;
        let disk_free_bytes = register_int_gauge_with_registry!(
            "payfold_engine_disk_free_bytes",
            "Free space on the file system of the data folder, bytes.",
            registry
        )?;
        let quarantine_oldest_seconds = register_gauge_with_registry!(
            "payfold_quarantine_oldest_seconds",
            "Age of the oldest quarantined notice.",
            registry
        )?;
        Ok(Self { log, clock, ingest, data, log_bytes, disk_free_bytes, quarantine_oldest_seconds })
    }

    /// Refreshes all gauges. If the source of a gauge can't be read, the gauge keeps its value and
    /// the failure is logged.
    pub(crate) async fn refresh(&self) {
        if let (Some(ingest), Some(log)) = (&self.ingest, &self.log) {
            ingest.metrics.set_queue_depth(log.queue_depth());
            ingest.metrics.set_own_clock_skew(ingest.clock_health.verdict(self.clock.now()));
        }
        match disk_free_bytes(&self.data) {
            Ok(free) => self.disk_free_bytes.set(i64::try_from(free).unwrap_or(i64::MAX)),
            Err(error) => tracing::warn!(%error, "the free disk space can't be read"),
        }
        let Some(log) = &self.log else { return };
        let read = tokio::time::timeout(LOG_READ_MAX, self.refresh_log(&**log)).await;
        let read = read.unwrap_or_else(|_| Err(anyhow::anyhow!("not within {LOG_READ_MAX:?}")));
        if let Err(error) = read {
            tracing::warn!(error = format!("{error:#}"), "the size of the log can't be read");
        }
    }

    async fn refresh_log(&self, log: &dyn EventLog) -> anyhow::Result<()> {
        let mut quarantine = Vec::new();
        for topic in Topic::ALL {
            let extents = log.extent(topic).await?;
            // Kafka extents have no bytes: brokers export the sizes of topics themselves.
            let bytes = extents.iter().map(|extent| extent.bytes).sum::<Option<u64>>();
            if let Some(bytes) = bytes {
                let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                self.log_bytes.with_label_values(&[topic.name()]).set(bytes);
            }
            if topic == Topic::Quarantine {
                quarantine = extents;
            }
        }
        let mut oldest = None;
        for extent in quarantine.iter().filter(|extent| extent.last > 0) {
            let first = log.read_after(Topic::Quarantine, walk::before(extent), 1).await?;
            let received = first.first().map(search::received_at).transpose()?.flatten();
            oldest = [oldest, received].into_iter().flatten().min();
        }
        let age_ms = oldest.map_or(0, |at| self.clock.now().unix_ms().saturating_sub(at.unix_ms()));
        self.quarantine_oldest_seconds
            .set(Duration::from_millis(age_ms.unsigned_abs()).as_secs_f64());
        Ok(())
    }
}
