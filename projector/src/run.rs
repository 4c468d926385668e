//! Owns the run loop: intake in; events, rows, views and progress out.
//!
//! A pipeline of four stages, each one batch at a time and in log order, so that reading, folding, publishing
//! and committing overlap: `read` → `folding` → `publish` → `commit`.
//!
//! Invariants: a batch is committed only after its events are durable; a batch is folded over the rows of
//! all batches before it (`cache` holds what is not committed yet); nothing is skipped. A crash anywhere repeats
//! whole batches from the store's progress: the same events with the same ids, the same rows. Which partitions are
//! read, and for how long, is in `stints`.

mod cache;
mod commit;
mod folding;
mod lag;
mod outage;
mod pace;
mod pairing;
mod publish;
mod read;
mod stints;
#[cfg(test)]
pub(crate) mod tests;
mod turning;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use payfold_engines::EngineError;
use payfold_engines::log::{EventLog, Share};
use payfold_engines::orders::OrderStore;
use payfold_schemas::publication::Publication;
use payfold_schemas::record::{Position, RecordError};
use tokio::sync::{Semaphore, mpsc, watch};

pub use self::pace::Speed;
use self::read::{Ended, Places};
use crate::fold::Rules;
use crate::metrics::Metrics;
use crate::status::Status;

/// How a projector is run. What it holds in memory is some batches and the cache.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The group it reads the log as.
    pub group: String,
    /// The generation whose tables the order store is open on.
    pub tables: u32,
    /// The rules it folds by.
    pub rules: Rules,
    /// How fast it goes; none is as fast as it can.
    pub speed: Option<watch::Receiver<Speed>>,
    /// The most records of one batch: with eight batches under way, 4,096 cost 10 % less CPU than 1,024 and
    /// some 70 MB more.
    pub batch_records_max: usize,
    /// Batches that are read and not committed, at most: eight keep every stage at work and one waiting before each.
    pub batches_max: usize,
    /// What the values of a batch should not exceed, bytes; the limit follows the sizes seen last.
    pub batch_bytes: usize,
    /// What the recently used orders kept in memory may take, bytes; those not committed yet come on top.
    pub cache_bytes: usize,
    /// The first pause after storage was unavailable, ms; it doubles.
    pub retry_ms_min: u64,
    /// The longest such pause, ms.
    pub retry_ms_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            group: "projector".to_owned(),
            tables: Publication::FIRST.tables,
            rules: Rules::Standing,
            speed: None,
            batch_records_max: 2_048,
            batches_max: 8,
            batch_bytes: 8 << 20,
            cache_bytes: 16 << 20,
            retry_ms_min: 50,
            retry_ms_max: 5_000,
        }
    }
}

impl Settings {
    /// For folding a whole log: an order whose facts are in one batch is written once, so batches are large, and more
    /// orders are kept in memory, so that fewer are read again. Half as many of them wait: nothing is told.
    pub fn for_a_build(self) -> Self {
        Self {
            batch_records_max: self.batch_records_max.max(24_576),
            batches_max: self.batches_max.min(4),
            batch_bytes: self.batch_bytes.max(24 << 20),
            cache_bytes: self.cache_bytes.max(64 << 20),
            ..self
        }
    }
}

/// Why a projector ended that was not told to stop. It has been logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A record of intake can't be read. Everything before it is folded; nothing after it is.
    #[error(
        "record {position} of intake can't be read: {error}; its partition is halted there. Upgrade if a newer \
         version wrote it, else check the log with `payfold log verify` and restore it from a backup; where there is \
         none, `payfold log park {position}` leaves it out"
    )]
    Undecodable {
        /// Where it stands.
        position: Position,
        /// What is wrong with it.
        error: RecordError,
    },
    /// Log and order store don't belong together.
    #[error(
        "{0}; stop, keep every file as it is, and restore the log that the order store was folded from"
    )]
    Unpaired(String),
    /// An engine refused for good.
    #[error("can't {what}: {error}")]
    Engine {
        /// What was being done.
        what: &'static str,
        /// The engine's answer; never `Unavailable`.
        error: EngineError,
    },
}

/// Why a stage ended before its input did.
#[derive(Debug)]
enum Halt {
    /// Told to stop while storage was unavailable: what was in flight is repeated by the next run.
    Stopped,
    /// These partitions are another projector's already: what is in flight is to be forgotten.
    Lost(Vec<u32>),
    Failed(RunError),
}

/// What all stages share.
struct Shared {
    log: Arc<dyn EventLog>,
    store: Arc<dyn OrderStore>,
    /// What is told of this process, and what nobody is told: of a generation that is not told itself.
    metrics: Arc<Metrics>,
    silent: Arc<Metrics>,
    told: AtomicBool,
    settings: Settings,
    status: Arc<Status>,
    stop: watch::Receiver<bool>,
    /// The number of the last committed batch of this stint.
    committed: AtomicU64,
    /// Damaged records that nobody had parked when they were met.
    unparked: Mutex<BTreeSet<Position>>,
}

/// Folds one log into one order store.
pub struct Projector {
    log: Arc<dyn EventLog>,
    store: Arc<dyn OrderStore>,
    metrics: Arc<Metrics>,
    settings: Settings,
    status: Arc<Status>,
}

impl Projector {
    /// A projector that is not running yet.
    pub fn new(
        log: Arc<dyn EventLog>,
        store: Arc<dyn OrderStore>,
        metrics: Arc<Metrics>,
        settings: Settings,
    ) -> Self {
        Self { log, store, metrics, settings, status: Arc::default() }
    }

    /// Tells how far it has come, also while it runs.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status)
    }

    /// Runs until `stop` holds true (or its sender is gone), then finishes what is in flight and returns.
    /// While storage is unavailable it waits and tries again. Errors: `RunError`; it is logged here.
    pub async fn run(self, stop: watch::Receiver<bool>) -> Result<(), RunError> {
        let Self { log, store, metrics, settings, status } = self;
        let (committed, unparked) = (AtomicU64::new(0), Mutex::default());
        let silent = Arc::new(metrics.apart());
        let told = AtomicBool::new(settings.tables == Publication::FIRST.tables);
        let shared = Shared {
            log,
            store,
            metrics,
            silent,
            told,
            settings,
            status,
            stop,
            committed,
            unparked,
        };
        let result = tokio::select! {
            result = stints::run(&shared) => result,
            () = lag::watch(&shared) => unreachable!("the watch never ends by itself"),
        };
        shared.status.measured(None);
        shared.metrics.generation_not_silent(shared.settings.tables);
        match result {
            Ok(None) | Err(Halt::Stopped | Halt::Lost(_)) => Ok(()),
            Ok(Some(error)) | Err(Halt::Failed(error)) => {
                shared.metrics().partition_halted();
                tracing::error!(error = %error, "projector halted");
                Err(error)
            }
        }
    }
}

impl Shared {
    /// What it counts: what nobody is told while its generation is not told.
    fn metrics(&self) -> &Arc<Metrics> {
        if self.told.load(Ordering::Relaxed) { &self.metrics } else { &self.silent }
    }

    /// So many records are not folded yet. Everybody is told of it, also where nobody is told of the orders: a rebuild
    /// is waited for.
    fn generation_measured(&self, records: u64) {
        let tables = self.settings.tables;
        if self.told.load(Ordering::Relaxed) {
            self.metrics.generation_not_silent(tables);
        } else {
            self.metrics.generation_lag_measured(tables, records);
        }
    }

    /// Whether this generation is told under a publication.
    fn tells(&self, publication: Publication) -> bool {
        publication.tables == self.settings.tables
    }

    /// Counts for all to see if this generation is told in any of these partitions.
    fn counts_for(&self, mut publications: impl Iterator<Item = Publication>) {
        let told = publications.any(|publication| self.tells(publication));
        self.told.store(told, Ordering::Relaxed);
    }
}

/// Runs the stages over what the share delivers; returns why the reading ended, once everything read is committed.
async fn pipeline(
    shared: &Shared,
    share: &mut dyn Share,
    places: &mut Places,
) -> Result<Ended, Halt> {
    shared.committed.store(0, Ordering::Release);
    // One batch may wait before each stage; more would only take memory.
    let under_way = Arc::new(Semaphore::new(shared.settings.batches_max.max(1)));
    let (to_fold, decoded) = mpsc::channel(1);
    let (to_publish, folded) = mpsc::channel(1);
    let (to_commit, published) = mpsc::channel(1);
    let (ended, (), (), ()) = tokio::try_join!(
        read::run(shared, (share, places), (under_way, to_fold)),
        folding::run(shared, decoded, to_publish),
        publish::run(shared, folded, to_commit),
        commit::run(shared, published),
    )?;
    Ok(ended)
}

/// Up to how many records a batch is worked on where it is: waking another thread would cost more.
const INLINE_RECORDS_MAX: usize = 32;

/// Does a batch's computing off the async threads unless it is small.
async fn compute<T: Send + 'static>(
    records: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Halt> {
    if records <= INLINE_RECORDS_MAX {
        return Ok(work());
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going down.
            Err(_) => Err(Halt::Stopped),
        },
    }
}
