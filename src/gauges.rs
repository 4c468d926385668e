//! Owns the gauges that are read when metrics are: queue, log size, free disk, age of the quarantine.

use std::path::PathBuf;
use std::sync::Arc;

use actix_web::web::Data;
use payfold_engines::clock::Clock;
use payfold_engines::log::{EventLog, Topic};
use payfold_ingest::http::Ingest;
use prometheus::{Gauge, IntGauge, IntGaugeVec, Opts, Registry};

use crate::command::check::disk_free_bytes;
use crate::{search, walk};

/// The gauges and what they are read from.
pub struct Gauges {
    /// None where no role has engines.
    log: Option<Arc<dyn EventLog>>,
    clock: Arc<dyn Clock>,
    ingest: Option<Data<Ingest>>,
    data: PathBuf,
    log_bytes: IntGaugeVec,
    disk_free_bytes: IntGauge,
    quarantine_oldest_seconds: Gauge,
}

impl Gauges {
    /// Makes and registers them. Errors: a name that is registered already.
    pub fn new(
        registry: &Registry,
        log: Option<Arc<dyn EventLog>>,
        clock: Arc<dyn Clock>,
        ingest: Option<Data<Ingest>>,
        data: PathBuf,
    ) -> Result<Self, prometheus::Error> {
        let log_bytes = IntGaugeVec::new(
            Opts::new("payfold_engine_log_bytes", "What a topic takes in the log."),
            &["topic"],
        )?;
        let disk_free_bytes = IntGauge::new(
            "payfold_engine_disk_free_bytes",
            "Free space where the data folder is.",
        )?;
        let quarantine_oldest_seconds = Gauge::new(
            "payfold_quarantine_oldest_seconds",
            "Age of the oldest quarantined notice.",
        )?;
        registry.register(Box::new(log_bytes.clone()))?;
        registry.register(Box::new(disk_free_bytes.clone()))?;
        registry.register(Box::new(quarantine_oldest_seconds.clone()))?;
        Ok(Self { log, clock, ingest, data, log_bytes, disk_free_bytes, quarantine_oldest_seconds })
    }

    /// Reads them all. What can't be read keeps its last value and is logged.
    pub async fn refresh(&self) {
        if let (Some(ingest), Some(log)) = (&self.ingest, &self.log) {
            ingest.metrics.queue_depth_is(log.queue_depth());
            ingest.metrics.own_clock_is(ingest.clock_health.verdict(self.clock.now()));
        }
        match disk_free_bytes(&self.data) {
            Ok(free) => self.disk_free_bytes.set(i64::try_from(free).unwrap_or(i64::MAX)),
            Err(error) => tracing::warn!(%error, "free disk space is not known"),
        }
        if let Some(log) = &self.log
            && let Err(error) = self.refresh_log(&**log).await
        {
            tracing::warn!(error = format!("{error:#}"), "the log's size is not known");
        }
    }

    async fn refresh_log(&self, log: &dyn EventLog) -> anyhow::Result<()> {
        for topic in Topic::ALL {
            let extents = log.extent(topic).await?;
            // A broker has metrics of its own for what its topics take.
            let bytes = extents.iter().map(|extent| extent.bytes).sum::<Option<u64>>();
            if let Some(bytes) = bytes {
                let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                self.log_bytes.with_label_values(&[topic.name()]).set(bytes);
            }
        }
        let mut oldest = None;
        for extent in log.extent(Topic::Quarantine).await?.iter().filter(|extent| extent.last > 0) {
            let first = log.read_after(Topic::Quarantine, walk::before(extent), 1).await?;
            let received = first.first().map(search::received_at).transpose()?.flatten();
            oldest = [oldest, received].into_iter().flatten().min();
        }
        let age_ms = oldest.map_or(0, |at| self.clock.now().unix_ms().saturating_sub(at.unix_ms()));
        self.quarantine_oldest_seconds
            .set(std::time::Duration::from_millis(age_ms.unsigned_abs()).as_secs_f64());
        Ok(())
    }
}
