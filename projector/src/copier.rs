//! Owns the copying of `orders` to `orders.latest`, its compacted copy, which keeps the last event
//! of each order for ever, so that a new subscriber can begin there.
//!
//! The partitions of `orders` are assigned to any number of copiers. Each copier reads on from the
//! place its copy has reached and writes the newest event of every order.
//!
//! Invariants: `rule` decides which event is newest. The engine's writer lets only one copier write
//! a partition, and commits messages together with the place. So after a crash, a repeat or a
//! frozen copier the last message of a key is still its newest event. An error ends an assignment,
//! and the next one begins at the place of the last transaction. It never ends the process, because
//! `orders` is complete without the copy.

mod newest;
mod partition;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use payfold_engines::EngineError;
use payfold_engines::log::kafka::KafkaSettings;
use payfold_engines::log::kafka::compacted::{CompactedCopy, CopyWriter};
use payfold_engines::log::{AssignedReader, EventLog, ReaderOutput, Rebalance, Topic};
use payfold_kit::wait_for_stop;
use payfold_schemas::position::Position;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

use self::partition::CopiedPartition;
use crate::metrics::ProjectorMetrics;

/// How long events are gathered. Only the newest of each order is written, and a transaction costs
/// the same for one event as for thousands.
const GATHER: Duration = Duration::from_secs(1);
/// The most messages that are gathered.
const GATHERED_MAX: usize = 5_000;
/// How often the messages that are not copied yet are counted.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// The pause after an error; it doubles with each further error.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest pause after an error.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Copies one log's `orders`.
pub struct Copier {
    settings: KafkaSettings,
    log: Arc<dyn EventLog>,
    metrics: Arc<ProjectorMetrics>,
}

/// How a copier deals with errors, from one assignment to the next.
struct Retry {
    pause: Duration,
    /// Whether the error was logged and its end was not.
    logged: bool,
}

impl Retry {
    /// Notes that copying works.
    fn over(&mut self) {
        self.pause = PAUSE_MIN;
        if std::mem::take(&mut self.logged) {
            tracing::info!("orders.latest is kept again");
        }
    }
}

impl Copier {
    /// A copier that does not run yet. `log` is the log of these settings.
    pub fn new(
        settings: KafkaSettings,
        log: Arc<dyn EventLog>,
        metrics: Arc<ProjectorMetrics>,
    ) -> Self {
        Self { settings, log, metrics }
    }

    /// Copies until `stop` holds true (or its sender is gone), then writes what it has gathered. An
    /// error is logged here when it begins and when it ends.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let mut retry = Retry { pause: PAUSE_MIN, logged: false };
        loop {
            let error = match self.copy(&stop, &mut retry).await {
                Ok(()) => return,
                Err(error) => error,
            };
            self.metrics.latest_failed();
            if !std::mem::replace(&mut retry.logged, true) {
                tracing::warn!(%error, "can't keep orders.latest, trying again until it works");
            }
            tokio::select! {
                () = tokio::time::sleep(retry.pause) => {}
                () = wait_for_stop(&stop) => return,
            }
            retry.pause = retry.pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    /// Copies the partitions it is assigned until it is stopped. Errors: the engines'.
    async fn copy(
        &self,
        stop: &watch::Receiver<bool>,
        retry: &mut Retry,
    ) -> Result<(), EngineError> {
        let copy = Arc::new(CompactedCopy::open(&self.settings).await?);
        let (log, metrics, partitions, gathered) = (&*self.log, &*self.metrics, BTreeMap::new(), 0);
        let mut assignment = Assignment { log, copy, metrics, partitions, gathered };
        let mut reader = self.log.join_group(Topic::Orders, CompactedCopy::GROUP).await?;
        let mut times = tokio::time::interval(MEASURE_EVERY);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut due: Option<Instant> = None;
        loop {
            tokio::select! {
                biased;
                () = wait_for_stop(stop) => return assignment.write().await,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    due = None;
                    assignment.write().await?;
                    retry.over();
                }
                _ = times.tick() => assignment.measure().await,
                output = reader.next(GATHERED_MAX) => {
                    assignment.take(output?, &mut *reader).await?;
                    if assignment.gathered > 0 {
                        let now = Instant::now();
                        let full = assignment.gathered >= GATHERED_MAX;
                        due = if full { Some(now) } else { due.or(now.checked_add(GATHER)) };
                    }
                }
            }
        }
    }
}

/// The partitions a copier has between two errors.
struct Assignment<'a> {
    log: &'a dyn EventLog,
    copy: Arc<CompactedCopy>,
    metrics: &'a ProjectorMetrics,
    partitions: BTreeMap<u32, CopiedPartition>,
    /// Messages taken since the last transaction.
    gathered: usize,
}

impl Assignment<'_> {
    async fn take(
        &mut self,
        output: ReaderOutput,
        reader: &mut dyn AssignedReader,
    ) -> Result<(), EngineError> {
        match output {
            ReaderOutput::Messages(messages) => {
                self.gathered = self.gathered.saturating_add(messages.len());
                for message in messages {
                    let number = message.position.partition;
                    let Some(partition) = self.partitions.get_mut(&number) else { continue };
                    let was_halted = partition.is_halted();
                    partition.take(self.log, message).await?;
                    if partition.is_halted() && !was_halted {
                        self.metrics.latest_failed();
                    }
                }
            }
            ReaderOutput::Rebalance(Rebalance::Assigned(partitions)) => {
                let opened = partitions.into_iter().map(|partition| self.open(partition));
                for partition in try_join_all(opened).await? {
                    self.partitions.insert(partition.place().partition, partition);
                }
                let places = self.partitions.values().map(CopiedPartition::place);
                reader.start_after(places.collect()).await?;
            }
            ReaderOutput::Rebalance(Rebalance::Revoked(partitions)) => {
                self.write().await?;
                self.partitions.retain(|partition, _| !partitions.contains(partition));
                reader.release_revoked().await?;
            }
            ReaderOutput::Rebalance(Rebalance::Lost(partitions)) => {
                self.partitions.retain(|partition, _| !partitions.contains(partition));
            }
        }
        Ok(())
    }

    async fn open(&self, partition: u32) -> Result<CopiedPartition, EngineError> {
        let (writer, place) = CopyWriter::open(&self.copy, partition).await?;
        let extents = self.log.extent(Topic::Orders).await?;
        let extent = extents.into_iter().find(|extent| extent.partition == partition);
        let extent = extent.ok_or_else(|| {
            EngineError::Unavailable(format!("partition {partition} of orders is not known yet"))
        })?;
        CopiedPartition::new(writer, extent, place)
    }

    /// Writes what was gathered, all partitions at once.
    async fn write(&mut self) -> Result<(), EngineError> {
        self.gathered = 0;
        try_join_all(self.partitions.values_mut().map(CopiedPartition::write)).await.map(drop)
    }

    /// Counts the messages that are not copied yet.
    async fn measure(&self) {
        // The next tick counts again.
        let Ok(extents) = self.log.extent(Topic::Orders).await else { return };
        let behind = extents.iter().filter_map(|extent| {
            let Position { offset, .. } = self.partitions.get(&extent.partition)?.copied();
            Some(extent.last.saturating_sub(offset))
        });
        self.metrics.set_latest_lag(behind.sum());
    }
}
