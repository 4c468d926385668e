//! Owns where runs and decisions are asked for, and the one loop that does them: one after the other, so that what is known
//! of findings changes in one place. Between them it looks for records that have come, and for findings that have mended
//! themselves.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use chrono::NaiveDate;
use chrono_tz::Tz;
use payfold_engines::EngineError;
use payfold_partners::directory::Directory;
use payfold_schemas::fact::Verdict;
use payfold_schemas::ids::{Author, OrderKey, PartnerCode};
use payfold_schemas::order::Flag;
use payfold_schemas::run::{PeriodClosed, RunEnded};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;

use super::day::{self, Request};
use super::decide::{self, Decided};
use super::folder::{self, Due, Folder};
use super::ledger::Ledger;
use super::notices::{self, OnNotice};
use super::survey::{Survey, Surveys};
use super::withdraw::{self, Withdraw, WithdrawnDecision};
use super::{BooksError, close, gauges, recheck};
use crate::outage::Outage;
use crate::run::{Halt, Shared};

/// Tasks that wait; more are told to come again.
const WAITING: usize = 16;

/// How records are compared.
pub struct Books {
    /// Accounts and profiles; loads what is in force.
    pub directory: Arc<ArcSwap<Directory>>,
    /// Where big things are sorted; some 300 bytes for each order and line.
    pub scratch: PathBuf,
    /// How long before the day an order may have been created that is paid on it, ms.
    pub lookback_ms: i64,
    /// Where records come by themselves.
    pub folders: Vec<Folder>,
    /// Who is asked by itself, and when.
    pub surveyed: Vec<(PartnerCode, Due)>,
    /// The zones of partners whose profile says nothing of records.
    pub zones: HashMap<PartnerCode, Tz>,
    /// How often it is looked for records, and whether findings have mended themselves.
    pub poll: Duration,
    progress: watch::Sender<Progress>,
    tasks: mpsc::Receiver<Task>,
    surveys: Option<mpsc::Receiver<(Survey, Reply<RunEnded>)>>,
    /// The ways that people have.
    ways: Ways,
}

#[derive(Clone)]
struct Ways {
    tasks: mpsc::Sender<Task>,
    surveys: mpsc::Sender<(Survey, Reply<RunEnded>)>,
}

/// How far a run is, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What it does.
    pub stage: &'static str,
    /// How many, of whatever it does.
    pub done: u64,
}

/// A word on a finding, by its id or the first digits of it.
#[derive(Clone, Debug)]
pub struct OnFinding {
    /// The finding.
    pub finding: String,
    /// Whose record is taken as right.
    pub accept: Verdict,
    /// Who says so.
    pub author: Author,
    /// Why.
    pub reason: String,
}

/// A word on a flag of an order.
#[derive(Clone, Debug)]
pub struct OnFlag {
    /// The order.
    pub order: OrderKey,
    /// Which flag.
    pub flag: Flag,
    /// Whose record is taken as right.
    pub accept: Verdict,
    /// Who says so.
    pub author: Author,
    /// Why.
    pub reason: String,
}

/// A day that is to be closed.
#[derive(Clone, Debug)]
pub struct Closing {
    /// Whose records.
    pub partner: PartnerCode,
    /// The day.
    pub day: NaiveDate,
    /// Who closes it.
    pub author: Author,
}

pub(super) type Reply<T> = oneshot::Sender<Result<T, String>>;

pub(super) enum Task {
    Run(Request, Reply<RunEnded>),
    OnFinding(OnFinding, Reply<Decided>),
    OnFlag(OnFlag, Reply<Decided>),
    OnNotice(Box<OnNotice>, Reply<Decided>),
    Withdraw(Withdraw, Reply<WithdrawnDecision>),
    Close(Closing, Reply<PeriodClosed>),
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeskError {
    /// It can't be done as it is asked for; the text says what to do.
    #[error("{0}")]
    Refused(String),
    /// Too much waits already.
    #[error("{WAITING} other runs and decisions wait already: try again when they are done")]
    Busy,
    /// The role has ended.
    #[error("the reconciler has ended; see its log")]
    Ended,
}

/// The way to the loop; as many as are wanted.
#[derive(Clone)]
pub struct Desk {
    ways: Ways,
    progress: watch::Receiver<Progress>,
}

impl Desk {
    /// Compares a partner's records of a day with the orders; returns when that is told on `findings`.
    pub async fn run(&self, request: Request) -> Result<RunEnded, DeskError> {
        self.ask(|reply| Task::Run(request, reply)).await
    }

    /// Asks a partner for each payment of a day, and compares what it answers; returns when that is told on `findings`.
    pub async fn survey(&self, survey: Survey) -> Result<RunEnded, DeskError> {
        put(&self.ways.surveys, |reply| (survey, reply)).await
    }

    /// Takes a person's word on a finding.
    pub async fn decide_finding(&self, word: OnFinding) -> Result<Decided, DeskError> {
        self.ask(|reply| Task::OnFinding(word, reply)).await
    }

    /// Takes a person's word on a flag.
    pub async fn decide_flag(&self, word: OnFlag) -> Result<Decided, DeskError> {
        self.ask(|reply| Task::OnFlag(word, reply)).await
    }

    /// Takes a person's word on a quarantined notice.
    pub async fn decide_notice(&self, word: OnNotice) -> Result<Decided, DeskError> {
        self.ask(|reply| Task::OnNotice(Box::new(word), reply)).await
    }

    /// Takes back a person's first decision.
    pub async fn withdraw(&self, withdraw: Withdraw) -> Result<WithdrawnDecision, DeskError> {
        self.ask(|reply| Task::Withdraw(withdraw, reply)).await
    }

    /// Closes a day.
    pub async fn close(&self, closing: Closing) -> Result<PeriodClosed, DeskError> {
        self.ask(|reply| Task::Close(closing, reply)).await
    }

    /// How far the run is that is under way.
    pub fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    async fn ask<T>(&self, task: impl FnOnce(Reply<T>) -> Task) -> Result<T, DeskError> {
        put(&self.ways.tasks, task).await
    }
}

async fn put<W, T>(
    way: &mpsc::Sender<W>,
    what: impl FnOnce(Reply<T>) -> W,
) -> Result<T, DeskError> {
    let (reply, answer) = oneshot::channel();
    way.try_send(what(reply)).map_err(|error| match error {
        mpsc::error::TrySendError::Full(_) => DeskError::Busy,
        mpsc::error::TrySendError::Closed(_) => DeskError::Ended,
    })?;
    answer.await.map_err(|_| DeskError::Ended)?.map_err(DeskError::Refused)
}

impl Books {
    /// Compares in this scratch folder; the desk is where it is asked for.
    pub fn new(directory: Arc<ArcSwap<Directory>>, scratch: PathBuf) -> (Self, Desk) {
        let (to_tasks, tasks) = mpsc::channel(WAITING);
        let (to_surveys, surveys) = mpsc::channel(WAITING);
        let ways = Ways { tasks: to_tasks, surveys: to_surveys };
        let (progress, watched) = watch::channel(Progress::default());
        let books = Self {
            directory,
            scratch,
            lookback_ms: 7 * 24 * 3_600 * 1_000,
            folders: Vec::new(),
            surveyed: Vec::new(),
            zones: HashMap::new(),
            poll: Duration::from_secs(10),
            progress,
            tasks,
            surveys: Some(surveys),
            ways: ways.clone(),
        };
        (books, Desk { ways, progress: watched })
    }

    /// What asks partners for this desk; once.
    pub(crate) fn surveys(&mut self) -> Option<Surveys> {
        let asked = self.surveys.take()?;
        Some(Surveys {
            directory: Arc::clone(&self.directory),
            scratch: self.scratch.clone(),
            lookback_ms: self.lookback_ms,
            zones: self.zones.clone(),
            asked,
            tasks: self.ways.tasks.clone(),
            progress: self.progress.clone(),
        })
    }

    pub(crate) fn tell(&self, progress: Progress) {
        self.progress.send_replace(progress);
    }
}

/// Does what is asked for until told to stop.
pub(crate) async fn run(shared: &Shared, mut books: Books) -> Result<(), Halt> {
    let mut ledger = empty_ledger(shared, &books).await?;
    let mut seen = folder::Seen::default();
    let mut polls = tokio::time::interval(books.poll);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let task = tokio::select! {
            biased;
            () = shared.stopped() => return Ok(()),
            Some(task) = books.tasks.recv() => task,
            _ = polls.tick() => {
                halts(day::catch_up(shared, &mut ledger).await)?;
                halts(recheck::look(shared, &books, &mut ledger).await)?;
                for request in seen.requests(shared, &books, &ledger).await? {
                    let _ = compare(shared, &books, &mut ledger, request).await?;
                }
                for survey in seen.surveys(shared.clock.now(), &books, &ledger) {
                    // Nobody waits for what comes of it; with too much waiting it is asked for another time.
                    let _ = books.ways.surveys.try_send((survey, oneshot::channel().0));
                }
                halts(gauges::show(shared, &ledger).map_err(BooksError::from))?;
                continue;
            }
        };
        halts(day::catch_up(shared, &mut ledger).await)?;
        work(shared, &books, &mut ledger, task).await?;
        halts(gauges::show(shared, &ledger).map_err(BooksError::from))?;
    }
}

/// A ledger in the scratch folder; waits for a disk that is full.
async fn empty_ledger(shared: &Shared, books: &Books) -> Result<Ledger, Halt> {
    let mut outage = Outage::none(shared, "begin to read the findings");
    loop {
        let made = std::fs::create_dir_all(&books.scratch)
            .map_err(|error| EngineError::Unavailable(error.to_string()))
            .and_then(|()| Ledger::in_folder(&books.scratch).map_err(EngineError::from));
        match made {
            Ok(ledger) => {
                outage.over();
                return Ok(ledger);
            }
            Err(error) => outage.wait(error).await?,
        }
    }
}

/// Who asked may have gone away: what was done is done all the same.
async fn work(shared: &Shared, books: &Books, ledger: &mut Ledger, task: Task) -> Result<(), Halt> {
    match task {
        Task::Run(request, reply) => {
            let _ = reply.send(compare(shared, books, ledger, request).await?);
        }
        Task::OnFinding(word, reply) => {
            let _ = reply.send(told(decide::finding(shared, ledger, word).await)?);
        }
        Task::OnFlag(word, reply) => {
            let _ = reply.send(told(decide::flag(shared, ledger, word).await)?);
        }
        Task::OnNotice(word, reply) => {
            let _ = reply.send(told(notices::notice(shared, ledger, *word).await)?);
        }
        Task::Withdraw(asked, reply) => {
            let _ = reply.send(told(withdraw::withdraw(shared, ledger, asked).await)?);
        }
        Task::Close(closing, reply) => {
            let _ = reply.send(told(close::close(shared, books, ledger, closing).await)?);
        }
    }
    Ok(())
}

async fn compare(
    shared: &Shared,
    books: &Books,
    ledger: &mut Ledger,
    request: Request,
) -> Result<Result<RunEnded, String>, Halt> {
    let (partner, name) = (request.partner.clone(), request.name.clone());
    let ended = told(day::run(shared, books, ledger, request).await)?;
    match &ended {
        Ok(ended) => tracing::info!(
            %partner, day = ended.day, run = ended.run, result = ?ended.result, open = ended.findings.open,
            opened = ended.findings.opened, cleared = ended.findings.cleared, "records compared"
        ),
        Err(problem) => tracing::warn!(%partner, name, "records not compared: {problem}"),
    }
    Ok(ended)
}

pub(super) fn told<T>(result: Result<T, BooksError>) -> Result<Result<T, String>, Halt> {
    match result {
        Ok(done) => Ok(Ok(done)),
        Err(BooksError::Refused(problem)) => Ok(Err(problem)),
        Err(BooksError::Halt(halt)) => Err(halt),
    }
}

/// What nobody asked for and can't be done is logged.
fn halts(result: Result<(), BooksError>) -> Result<(), Halt> {
    match result {
        Ok(()) => Ok(()),
        Err(BooksError::Halt(halt)) => Err(halt),
        Err(BooksError::Refused(problem)) => {
            tracing::warn!("{problem}");
            Ok(())
        }
    }
}
