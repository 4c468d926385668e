//! Owns the running of the role: the walk along the deadlines, the reader of intake and the asking of partners, side by
//! side until told to stop. Invariants: nothing is written but facts appended to intake; each is a fact that holds whenever
//! it is appended and however often, so a crash, a repeat or a second instance does no harm.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use payfold_engines::EngineError;
use payfold_engines::clock::Clock;
use payfold_engines::log::{EventLog, Message, Topic};
use payfold_engines::orders::OrderStore;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::record::{FactRecord, Position, RecordError, encode_fact};
use payfold_schemas::time::Time;
use tokio::sync::watch;

use crate::books::desk::{self, Books};
use crate::books::survey;
use crate::expiry::Expiry;
use crate::metrics::Metrics;
use crate::partners::Partners;
use crate::schedule::Schedule;
use crate::{deadlines, follow, queries};

#[cfg(test)]
pub(crate) mod testkit;
#[cfg(test)]
mod tests;

/// Questions between who puts them and the lines.
const QUESTIONS_MAX: usize = 64;

/// How a reconciler is run. What it holds in memory is bounded by these and by constants.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The group it reads intake as.
    pub group: String,
    /// How often deadlines are looked for.
    pub deadline_poll: Duration,
    /// How much the clocks of those who append may differ from ours, and how long an append may take: so far
    /// before the last folded record deadlines are looked at again.
    pub clock_margin: Duration,
    /// The most entries of one page of a view, and facts of one append.
    pub page_entries: usize,
    /// The most records of one batch of intake.
    pub batch_records_max: usize,
    /// How often the place in intake is remembered; a crash repeats what came after it, harmlessly.
    pub ack_every: Duration,
    /// The first pause after storage was unavailable, ms; it doubles.
    pub retry_ms_min: u64,
    /// The longest such pause, ms.
    pub retry_ms_max: u64,
    /// When partners are asked about an order that is stuck.
    pub query_after: Schedule,
    /// How often such orders are looked for.
    pub query_poll: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            group: "reconciler-refs".to_owned(),
            deadline_poll: Duration::from_secs(1),
            clock_margin: Duration::from_secs(60),
            page_entries: 512,
            batch_records_max: 1_024,
            ack_every: Duration::from_secs(1),
            retry_ms_min: 50,
            retry_ms_max: 5_000,
            query_after: Schedule::default(),
            query_poll: Duration::from_secs(1),
        }
    }
}

/// Why a reconciler ended that was not told to stop. It has been logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A record of intake can't be read. The refs of everything before it are checked; of nothing after it.
    #[error(
        "record {position} of intake can't be read: {error}; the reconciler stands there. Upgrade if a newer \
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
        "the order store was folded from another log; stop, keep every file as it is, and restore the log that the order store \
         was folded from"
    )]
    Unpaired,
    /// An engine refused for good.
    #[error("can't {what}: {error}")]
    Engine {
        /// What was being done.
        what: &'static str,
        /// The engine's answer; never `Unavailable`.
        error: EngineError,
    },
}

/// Why one of the ways ended.
#[derive(Debug)]
pub(crate) enum Halt {
    /// Told to stop in the middle of something: the next run repeats it.
    Stopped,
    Failed(RunError),
}

/// What all ways share.
pub(crate) struct Shared {
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) store: Arc<dyn OrderStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) settings: Settings,
    pub(crate) stop: watch::Receiver<bool>,
    /// Up to where the refs of intake are checked, by partition, once something was read of it.
    pub(crate) checked: Mutex<BTreeMap<u32, u64>>,
    /// The highest watermark of each partition.
    pub(crate) reached: Mutex<BTreeMap<u32, Time>>,
}

/// Appends the facts that nobody sends.
pub struct Reconciler {
    log: Arc<dyn EventLog>,
    store: Arc<dyn OrderStore>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    settings: Settings,
    partners: Option<Partners>,
    books: Option<Books>,
}

impl Reconciler {
    /// A reconciler that is not running yet.
    pub fn new(
        log: Arc<dyn EventLog>,
        store: Arc<dyn OrderStore>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        settings: Settings,
    ) -> Self {
        Self { log, store, clock, metrics, settings, partners: None, books: None }
    }

    /// Asks these partners what stuck payments came to; without, nobody is asked.
    pub fn asking(self, partners: Partners) -> Self {
        Self { partners: Some(partners), ..self }
    }

    /// Compares partners' records with the orders; without, nobody can ask for it.
    pub fn comparing(self, books: Books) -> Self {
        Self { books: Some(books), ..self }
    }

    /// Runs until `stop` holds true (or its sender is gone). While storage is unavailable it waits and tries
    /// again. Errors: `RunError`; it is logged here.
    pub async fn run(self, stop: watch::Receiver<bool>) -> Result<(), RunError> {
        let Self { log, store, clock, metrics, settings, partners, books } = self;
        let (checked, reached) = Default::default();
        let shared = Shared { log, store, clock, metrics, settings, stop, checked, reached };
        let expiry = tokio::sync::Mutex::new(Expiry::default());
        let (to_ask, questions) = tokio::sync::mpsc::channel(QUESTIONS_MAX);
        let to_ask = partners.is_some().then_some(to_ask);
        let asked = async {
            match &partners {
                Some(partners) => queries::run(&shared, partners, questions).await,
                None => Ok(()),
            }
        };
        let compared = async {
            let Some(mut books) = books else { return Ok(()) };
            let surveys = books.surveys().expect("nobody else takes them");
            tokio::try_join!(desk::run(&shared, books), survey::run(&shared, surveys, to_ask))
                .map(|_| ())
        };
        let (walked, followed) = (deadlines::run(&shared, &expiry), follow::run(&shared, &expiry));
        match tokio::try_join!(walked, followed, asked, compared) {
            Ok(((), (), (), ())) | Err(Halt::Stopped) => Ok(()),
            Err(Halt::Failed(error)) => {
                shared.metrics.halted();
                tracing::error!(error = %error, "reconciler halted");
                Err(error)
            }
        }
    }
}

impl Shared {
    /// Appends facts to intake and returns when they are durable, with their positions in order.
    pub(crate) async fn append(&self, facts: Vec<(OrderKey, Fact)>) -> Result<Vec<Position>, Halt> {
        let messages: Vec<_> =
            facts.into_iter().map(|(order, fact)| self.message(order, fact)).collect();
        let count = messages.len();
        let ask = || self.log.append_all(Topic::Intake, messages.clone());
        let positions = self.ask("append facts to intake", ask).await?;
        assert_eq!(positions.len(), count, "each fact has a position");
        Ok(positions)
    }

    fn message(&self, order: OrderKey, fact: Fact) -> Message {
        let (request_id, received_at) = (self.clock.request_id(), self.clock.now());
        let key = order.to_message_key();
        let record = FactRecord { order, fact, request_id, received_at, source: None };
        Message { key, event: None, value: encode_fact(&record, &[]) }
    }

    /// The rows of these orders.
    pub(crate) async fn load(&self, keys: &[OrderKey]) -> Result<Vec<Option<Order>>, Halt> {
        self.ask("load orders", || self.store.load(keys.to_vec())).await
    }

    /// The last folded position of each partition. Errors: `Unpaired`.
    pub(crate) async fn folded(&self) -> Result<Vec<Position>, Halt> {
        let progress =
            self.ask("read how far the orders are folded", || self.store.progress()).await?;
        let Some(progress) = progress else { return Ok(Vec::new()) };
        if progress.log_id != self.log.id() {
            return Err(Halt::Failed(RunError::Unpaired));
        }
        Ok(progress.folded.iter().map(|folded| folded.position).collect())
    }
}

/// Whether the fold has come as far as `position`.
pub(crate) fn is_folded(folded: &[Position], position: Position) -> bool {
    folded.iter().any(|f| f.partition == position.partition && f.offset >= position.offset)
}
