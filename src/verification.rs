//! Owns the reading of the whole embedded log in the background, at the start and once a day: a disk that has damaged a
//! record is noticed while a backup still has it, not at the next restart.
//! Invariants: nothing is written; no transaction is open between two pages, so checkpoints never wait for it; it takes a
//! tenth of a core at most, and ends when the process does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use payfold_engines::EngineError;
use payfold_engines::clock::Clock;
use payfold_engines::log::{Delivered, EventLog, Topic};
use payfold_schemas::record::Record;
use prometheus::{Gauge, IntCounter, IntGauge, Registry};
use serde::de::IgnoredAny;
use tokio::sync::watch;

use crate::command::log::left_out::LeftOut;
use crate::server::Server;
use crate::walk::Walk;

/// From the end of one reading to the next.
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// The same after one that storage cut off.
const AFTER_FAILURE: Duration = Duration::from_secs(3_600);
/// Records of a page: their bytes are in memory at once.
const PAGE: usize = 64;
/// It pauses this many times as long as it works.
const PAUSES: u32 = 9;
/// What it reads of a disk in a second at most.
const BYTES_PER_S: u64 = 32 << 20;
/// Damaged records that are each reported; more are counted.
const REPORTED_MAX: u64 = 10;

/// What Prometheus knows of it.
struct VerificationMetrics {
    verified_at: Gauge,
    damaged: IntGauge,
    failures: IntCounter,
}

impl VerificationMetrics {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let verified_at = Gauge::new(
            "payfold_engine_log_verified_timestamp_seconds",
            "When every record of the embedded log was last read and found whole, unix seconds; 0 before that.",
        )?;
        let damaged = IntGauge::new(
            "payfold_engine_log_damaged_records",
            "Records of the embedded log that can't be read and are not parked.",
        )?;
        let failures = IntCounter::new(
            "payfold_engine_log_verify_failures_total",
            "Readings of the embedded log that found damage or could not be ended.",
        )?;
        registry.register(Box::new(verified_at.clone()))?;
        registry.register(Box::new(damaged.clone()))?;
        registry.register(Box::new(failures.clone()))?;
        Ok(Self { verified_at, damaged, failures })
    }
}

/// One reading of the whole log.
struct Reading {
    /// Damaged records so far.
    damaged: u64,
    /// What people have parked; none once that could not be read: then no record counts as parked.
    left_out: Option<LeftOut>,
}

impl Reading {
    /// Whether a damaged record is parked. Errors: storage can't be read now.
    async fn is_parked(
        &mut self,
        log: &dyn EventLog,
        message: &Delivered,
    ) -> Result<bool, EngineError> {
        let Some(left_out) = &mut self.left_out else { return Ok(false) };
        match left_out.has(log, message).await {
            // The damage that hides it is met, and counted, where it is.
            Err(EngineError::Corrupt(_)) => {
                self.left_out = None;
                Ok(false)
            }
            is_parked => is_parked,
        }
    }
}

/// Reads the log, again and again.
struct LogVerifier {
    log: Arc<dyn EventLog>,
    clock: Arc<dyn Clock>,
    metrics: VerificationMetrics,
}

impl Server {
    /// Begins to read the log in the background, if it is embedded: a log in Kafka is checked by its brokers.
    pub(crate) fn verify_log(&self, mut stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
        let Ok(engines) = self.engines() else { return Ok(()) };
        if !engines.embedded {
            return Ok(());
        }
        let metrics = VerificationMetrics::new(&self.registry)?;
        let (log, clock) = (Arc::clone(&engines.log), Arc::clone(&self.clock));
        let verifier = LogVerifier { log, clock, metrics };
        actix_web::rt::spawn(async move {
            tokio::select! {
                () = verifier.run() => {}
                // The sender is gone when the process ends.
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
        });
        Ok(())
    }
}

impl LogVerifier {
    async fn run(self) {
        loop {
            let next = match self.read_all().await {
                Ok(0) => DAY,
                Ok(damaged) => {
                    tracing::error!(
                        damaged,
                        "records of the log are damaged: `payfold log verify` lists them all"
                    );
                    DAY
                }
                Err(error) => {
                    self.metrics.failures.inc();
                    tracing::warn!(%error, "the log could not be read to its end; it is tried again in an hour");
                    AFTER_FAILURE
                }
            };
            tokio::time::sleep(next).await;
        }
    }

    /// Reads every record there is; how many are damaged. What keeps the rest of a topic from being read counts as one.
    /// Errors: storage can't be read now.
    async fn read_all(&self) -> Result<u64, EngineError> {
        let mut reading = Reading { damaged: 0, left_out: Some(LeftOut::default()) };
        for topic in Topic::ALL {
            match self.read_topic(topic, &mut reading).await {
                Err(EngineError::Corrupt(error)) => self.report(topic, &error, &mut reading),
                read => read?,
            }
        }
        let damaged = reading.damaged;
        self.metrics.damaged.set(i64::try_from(damaged).unwrap_or(i64::MAX));
        match damaged {
            0 => {
                let seconds = Duration::from_nanos(self.clock.now().unix_nanos().unsigned_abs());
                self.metrics.verified_at.set(seconds.as_secs_f64());
            }
            _ => self.metrics.failures.inc(),
        }
        Ok(damaged)
    }

    /// Reads a topic. Errors: storage can't be read now; `Corrupt`, the rest of the topic can't be read at all.
    async fn read_topic(&self, topic: Topic, reading: &mut Reading) -> Result<(), EngineError> {
        let mut walk = Walk::to_the_end(&*self.log, topic).await?;
        loop {
            let begun = Instant::now();
            let Some(page) = walk.next(PAGE).await? else { return Ok(()) };
            for message in &page {
                let Err(error) = check(topic, message) else { continue };
                if topic == Topic::Intake && reading.is_parked(&*self.log, message).await? {
                    continue;
                }
                self.report(topic, &format!("{}: {error}", message.position), reading);
            }
            let bytes = page.iter().map(|message| message.value.len()).sum();
            tokio::time::sleep(pause(begun.elapsed(), bytes)).await;
        }
    }

    fn report(&self, topic: Topic, what: &str, reading: &mut Reading) {
        reading.damaged += 1;
        // At once: the rest of a large log takes hours.
        self.metrics.damaged.set(i64::try_from(reading.damaged).unwrap_or(i64::MAX));
        if reading.damaged <= REPORTED_MAX {
            tracing::error!(
                topic = topic.name(),
                what,
                "the log is damaged: what is stored there can't be read any more. Copy the data folder away as it is, \
                 keep every backup, and go on as docs/operations.md, \"The log is damaged\" says"
            );
        }
    }
}

/// Whether what is stored can be read. Errors: why not.
fn check(topic: Topic, message: &Delivered) -> Result<(), anyhow::Error> {
    match topic {
        Topic::Intake | Topic::Quarantine => {
            Record::decode(&message.value)?;
        }
        Topic::Orders | Topic::Findings => {
            serde_json::from_slice::<IgnoredAny>(&message.value)?;
        }
    }
    Ok(())
}

/// How long nothing is done after work of this time that read so many bytes.
fn pause(worked: Duration, bytes: usize) -> Duration {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    let nanos = bytes.saturating_mul(1_000_000_000) / BYTES_PER_S;
    (worked * PAUSES).max(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use payfold_engines::clock::SystemClock;
    use payfold_engines::log::Message;
    use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};

    use super::*;

    #[test]
    fn it_takes_a_tenth_of_a_core_and_a_bounded_rate() {
        let (short, long) = (Duration::from_millis(1), Duration::from_millis(500));
        assert_eq!(pause(short, 100), short * 9);
        assert_eq!(pause(short, 16 << 20), long);
        assert_eq!(pause(long, 100), long * 9);
    }

    #[tokio::test]
    async fn damage_is_counted_and_a_whole_log_is_verified() {
        let folder = tempfile::tempdir().unwrap();
        let log = SqliteLog::open(folder.path().join("log.db"), SqliteLogSettings::default());
        let log: Arc<dyn EventLog> = Arc::new(log.unwrap());
        let metrics = VerificationMetrics::new(&Registry::new()).unwrap();
        let verifier = LogVerifier { log: Arc::clone(&log), clock: Arc::new(SystemClock), metrics };
        let append = async |topic, value: &[u8]| {
            let message = Message { key: "p/M/o".to_owned(), event: None, value: value.to_vec() };
            log.append(topic, message).await.unwrap()
        };
        for n in 0..300 {
            append(Topic::Orders, format!("{{\"n\":{n}}}").as_bytes()).await;
        }
        assert_eq!(verifier.read_all().await, Ok(0));
        let verified_at = verifier.metrics.verified_at.get();
        assert!(verified_at > 1.7e9);
        append(Topic::Orders, b"{\"n\":").await;
        append(Topic::Intake, b"rubbish").await;
        append(Topic::Quarantine, b"rubbish").await;
        assert_eq!(verifier.read_all().await, Ok(3));
        let VerificationMetrics { verified_at: last, damaged, failures } = &verifier.metrics;
        assert_eq!((last.get(), damaged.get(), failures.get()), (verified_at, 3, 1));
    }

    /// A log of this folder, and what reads it.
    fn verifier(folder: &std::path::Path) -> (Arc<dyn EventLog>, LogVerifier) {
        let log = SqliteLog::open(folder.join("log.db"), SqliteLogSettings::default());
        let log: Arc<dyn EventLog> = Arc::new(log.unwrap());
        let metrics = VerificationMetrics::new(&Registry::new()).unwrap();
        let verifier = LogVerifier { log: Arc::clone(&log), clock: Arc::new(SystemClock), metrics };
        (log, verifier)
    }

    #[tokio::test]
    async fn damage_that_hides_other_damage_is_counted_and_the_next_topic_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (log, verifier) = verifier(folder.path());
        for (topic, values) in [(Topic::Intake, 80), (Topic::Findings, 1)] {
            for _ in 0..values {
                let value = b"rubbish".to_vec();
                let message = Message { key: "p/M/o".to_owned(), event: None, value };
                log.append(topic, message).await.unwrap();
            }
        }
        // A gap behind the first page: what is parked can't be read. Without its table a topic has no end.
        let damage = "DELETE FROM intake WHERE position = 70; DROP TABLE orders";
        let connection = rusqlite::Connection::open(folder.path().join("log.db")).unwrap();
        connection.execute_batch(damage).unwrap();
        let first_page = u64::try_from(PAGE).unwrap();
        let (gap, orders, findings) = (1, 1, 1);
        assert_eq!(verifier.read_all().await, Ok(first_page + gap + orders + findings));
        let VerificationMetrics { verified_at, damaged, failures } = &verifier.metrics;
        assert_eq!((verified_at.get(), damaged.get(), failures.get()), (0.0, 67, 1));
    }
}
