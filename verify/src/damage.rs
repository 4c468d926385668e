//! Owns verifying the whole embedded log in the background, at start and once a day, so that
//! damage is noticed while a backup still has the record: in intake and quarantine by the checksum,
//! in orders and findings if a message is no JSON any more. Invariants: nothing is
//! written; no transaction is open between two pages, so checkpoints never wait for it; it uses at
//! most a tenth of a core, and ends with the process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use payfold_engines::EngineError;
use payfold_engines::clock::Clock;
use payfold_engines::log::walk::Walk;
use payfold_engines::log::{Delivered, EventLog, Topic};
use payfold_kit::parked::ParkedRecords;
use prometheus::{
    Gauge, IntCounter, IntGauge, Registry, register_gauge_with_registry,
    register_int_counter_with_registry, register_int_gauge_with_registry,
};
use serde::de::IgnoredAny;

/// The pause after a complete verification.
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// The pause after a verification that could not be ended because the storage could not be read.
const AFTER_FAILURE: Duration = Duration::from_secs(3_600);
/// Records of a page.
const PAGE: usize = 64;
/// How many times as long as reading a page the pause after it is.
const PAUSES: u32 = 9;
/// The most bytes it reads in a second. The markers of parked records are read without pauses,
/// once, at the first damaged record of intake.
const BYTES_PER_S: u64 = 32 << 20;
/// How many damaged records are logged one by one; more are only counted.
const REPORTED_MAX: u64 = 10;

/// The verifier's metrics.
struct VerificationMetrics {
    verified_at: Gauge,
    damaged: IntGauge,
    failures: IntCounter,
}

impl VerificationMetrics {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let verified_at = register_gauge_with_registry!(
            "payfold_engine_log_verified_timestamp_seconds",
            "When every record of the embedded log was last read and found whole, unix seconds; 0 \
             before that.",
            registry
        )?;
        let damaged = register_int_gauge_with_registry!(
            "payfold_engine_log_damaged_records",
            "Records of the embedded log that can't be read and are not parked.",
            registry
        )?;
        let failures = register_int_counter_with_registry!(
            "payfold_engine_log_verify_failures_total",
            "Readings of the embedded log that found damage or could not be ended.",
            registry
        )?;
        Ok(Self { verified_at, damaged, failures })
    }
}

/// The damage that one verification of the whole log has found so far.
struct Damage {
    /// Damaged records.
    damaged: u64,
    /// The parked records; `None` after they could not be read: then no record counts as parked.
    parked: Option<ParkedRecords>,
}

impl Damage {
    /// Whether a damaged record is parked. Errors: the storage can't be read now.
    async fn is_parked(
        &mut self,
        log: &dyn EventLog,
        message: &Delivered,
    ) -> Result<bool, EngineError> {
        let Some(parked) = &mut self.parked else { return Ok(false) };
        match parked.contain(log, message).await {
            // The damage that prevents reading the parked records is counted where it is found.
            Err(EngineError::Corrupt(_)) => {
                self.parked = None;
                Ok(false)
            }
            is_parked => is_parked,
        }
    }
}

/// Verifies a log again and again.
pub struct LogVerifier {
    log: Arc<dyn EventLog>,
    clock: Arc<dyn Clock>,
    metrics: VerificationMetrics,
}

impl LogVerifier {
    /// Makes a verifier and registers its metrics. Errors: a metric's name is registered already.
    pub fn new(
        log: Arc<dyn EventLog>,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        Ok(Self { log, clock, metrics: VerificationMetrics::new(registry)? })
    }

    /// Verifies the log now and then once a day, for ever.
    pub async fn run(self) {
        loop {
            let next = match self.read_all().await {
                Ok(0) => DAY,
                Ok(damaged) => {
                    tracing::error!(
                        damaged,
                        "records of the log are damaged; the first ten were logged. `payfold log \
                         verify` lists those of intake, quarantine and orders"
                    );
                    DAY
                }
                Err(error) => {
                    self.metrics.failures.inc();
                    tracing::warn!(%error, "the log could not be read to its end; payfold tries \
                        again in an hour");
                    AFTER_FAILURE
                }
            };
            tokio::time::sleep(next).await;
        }
    }

    /// Reads every record; returns how many are damaged. Damage that prevents reading the rest of a
    /// topic counts as one. Errors: the storage can't be read now.
    async fn read_all(&self) -> Result<u64, EngineError> {
        let mut damage = Damage { damaged: 0, parked: Some(ParkedRecords::default()) };
        for topic in Topic::ALL {
            match self.read_topic(topic, &mut damage).await {
                Err(EngineError::Corrupt(error)) => self.report(topic, &error, &mut damage),
                read => read?,
            }
        }
        let damaged = damage.damaged;
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

    /// Reads a topic. Errors: the storage can't be read now; `Corrupt` if the rest of the topic
    /// can't be read at all.
    async fn read_topic(&self, topic: Topic, damage: &mut Damage) -> Result<(), EngineError> {
        let mut walk = Walk::to_the_end(&*self.log, topic).await?;
        loop {
            let begun = Instant::now();
            let Some(page) = walk.next(PAGE).await? else { return Ok(()) };
            for message in &page {
                let Err(error) = check(topic, message) else { continue };
                if topic == Topic::Intake && damage.is_parked(&*self.log, message).await? {
                    continue;
                }
                self.report(topic, &format!("{}: {error}", message.position), damage);
            }
            let bytes = page.iter().map(|message| message.value.len()).sum();
            tokio::time::sleep(pause(begun.elapsed(), bytes)).await;
        }
    }

    fn report(&self, topic: Topic, what: &str, damage: &mut Damage) {
        damage.damaged += 1;
        // Set at once, because the rest of a large log takes hours. Until the end it may be lower
        // than after the verification before.
        self.metrics.damaged.set(i64::try_from(damage.damaged).unwrap_or(i64::MAX));
        if damage.damaged <= REPORTED_MAX {
            tracing::error!(
                topic = topic.name(),
                what,
                "the log is damaged: a stored record can't be read any more. Stop the process, \
                 copy the data folder as it is to another place, keep every backup, and follow \
                 docs/how-to/corrupt.md, \"The log is damaged\""
            );
        }
    }
}

/// Checks a stored message. Decoding a record verifies its checksum and its MAC. Events must be
/// JSON; the ledger passes over those with a wrong MAC. Errors: why it can't be read.
fn check(topic: Topic, message: &Delivered) -> Result<(), Box<dyn std::error::Error>> {
    match topic {
        Topic::Intake | Topic::Quarantine => {
            message.record()?;
        }
        Topic::Orders | Topic::Findings => {
            serde_json::from_slice::<IgnoredAny>(&message.value)?;
        }
    }
    Ok(())
}

/// The pause after a page that took `worked` to read and has this many bytes.
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
    fn pauses_limit_the_load_to_a_tenth_of_a_core_and_a_byte_rate() {
        let (short, long) = (Duration::from_millis(1), Duration::from_millis(500));
        assert_eq!(pause(short, 100), short * 9);
        assert_eq!(pause(short, 16 << 20), long);
        assert_eq!(pause(long, 100), long * 9);
    }

    #[tokio::test]
    async fn damage_is_counted_and_a_whole_log_is_verified() {
        let folder = tempfile::tempdir().unwrap();
        let (log, verifier) = verifier(folder.path());
        let append = async |topic, value: &[u8]| {
            let message =
                Message { key: "p/M/o".to_owned(), event: None, value: value.to_vec(), mac: None };
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

    /// A log in this folder, and its verifier.
    fn verifier(folder: &std::path::Path) -> (Arc<dyn EventLog>, LogVerifier) {
        let log = SqliteLog::open(folder.join("log.db"), SqliteLogSettings::default());
        let log: Arc<dyn EventLog> = Arc::new(log.unwrap());
        let clock = Arc::new(SystemClock);
        let verifier = LogVerifier::new(Arc::clone(&log), clock, &Registry::new()).unwrap();
        (log, verifier)
    }

    #[tokio::test]
    async fn damage_that_hides_other_damage_is_counted_and_the_next_topic_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (log, verifier) = verifier(folder.path());
        for (topic, values) in [(Topic::Intake, 80), (Topic::Findings, 1)] {
            for _ in 0..values {
                let value = b"rubbish".to_vec();
                let message = Message { key: "p/M/o".to_owned(), event: None, value, mac: None };
                log.append(topic, message).await.unwrap();
            }
        }
        // A gap after the first page prevents reading the parked records. A topic without its table
        // can't be read at all.
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
