//! Owns the reconciliation service: the handle through which other code asks for runs and
//! decisions, and the loop that works on them one after the other, so only one place changes
//! findings. On each tick the loop also rechecks findings and looks for new record files.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use payfold_engines::EngineError;
use payfold_kit::Halt;
use payfold_partners::directory::Directory;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::run::{PeriodClosed, RunEnded};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;

use super::blocking::run_blocking;
use super::close::{self, CloseDayRequest};
use super::decide::{self, FindingDecisionRequest, FlagDecisionRequest};
use super::decided::Decided;
use super::error::{ReconcileError, Reply, send_result};
use super::ledger::Ledger;
use super::notices::{self, NoticeDecisionRequest};
use super::partner_accounts::PartnerAccounts;
use super::preview::RecordsPreview;
use super::publish::catch_up;
use super::request::{NamedFile, RunRequest, SurveyRequest};
use super::setup::{ReconcileSetup, RunProgress};
use super::survey::SurveyQueue;
use super::task::Task;
use super::tokens::record_tokens;
use super::withdraw::{self, WithdrawalRequest, WithdrawnDecision};
use super::{day_run, gauges, preview, recheck, records_folder};
use crate::shared::SharedContext;

/// Tasks that may wait; a request beyond that is refused with `ServiceError::Busy`.
const WAITING_MAX: usize = 16;

/// Files that are read at a time for a preview: each takes a thread of those that ask for it.
const PREVIEWS_MAX: usize = 2;

type SurveyTask = (SurveyRequest, Reply<RunEnded>);

#[derive(Clone)]
struct ServiceSenders {
    tasks: mpsc::Sender<Task>,
    surveys: mpsc::Sender<SurveyTask>,
}

/// Receives what the handles ask for.
pub struct ServiceQueue {
    senders: ServiceSenders,
    tasks: mpsc::Receiver<Task>,
    surveys: mpsc::Receiver<SurveyTask>,
}

/// Tasks for the loop, and the channel through which it asks for surveys.
pub(crate) struct TaskQueue {
    tasks: mpsc::Receiver<Task>,
    surveys: mpsc::Sender<SurveyTask>,
}

impl ServiceQueue {
    /// Splits into the queue of the loop and the queue of surveys.
    pub(crate) fn split(self, setup: &ReconcileSetup) -> (TaskQueue, SurveyQueue) {
        let Self { senders, tasks, surveys } = self;
        let surveys = SurveyQueue {
            directory: Arc::clone(&setup.directory),
            scratch: setup.scratch.clone(),
            lookback_ms: setup.lookback_ms,
            zones: setup.zones.clone(),
            requests: surveys,
            tasks: senders.tasks,
            progress: setup.progress().clone(),
        };
        (TaskQueue { tasks, surveys: senders.surveys }, surveys)
    }
}

/// A request that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// The request can't be carried out; the text says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// The queue is full.
    #[error(
        "{WAITING_MAX} runs and decisions wait already, so this one was refused: try again when \
         they are done"
    )]
    Busy,
    /// The reconciler role has ended.
    #[error(
        "the reconciler has ended, so nothing was done: see its log for the reason, and restart it"
    )]
    Ended,
}

/// A handle to the service; clones share one queue.
#[derive(Clone)]
pub struct ReconcileService {
    senders: ServiceSenders,
    directory: Arc<ArcSwap<Directory>>,
    previews: Arc<Semaphore>,
    progress: watch::Receiver<RunProgress>,
}

impl ReconcileService {
    /// Makes a handle, and the queue that `run` works on.
    pub fn open(setup: &ReconcileSetup) -> (Self, ServiceQueue) {
        let (to_tasks, tasks) = mpsc::channel(WAITING_MAX);
        let (to_surveys, surveys) = mpsc::channel(WAITING_MAX);
        let senders = ServiceSenders { tasks: to_tasks, surveys: to_surveys };
        let (directory, progress) = (Arc::clone(&setup.directory), setup.progress().subscribe());
        let previews = Arc::new(Semaphore::new(PREVIEWS_MAX));
        let service = Self { senders: senders.clone(), directory, previews, progress };
        (service, ServiceQueue { senders, tasks, surveys })
    }

    /// Compares a partner's records of a day with the orders. Returns once the run is on the
    /// `findings` topic.
    pub async fn run(&self, request: RunRequest) -> Result<RunEnded, ServiceError> {
        self.submit(|reply| Task::Run(request, reply)).await
    }

    /// Reads a partner's file without comparing it, and counts the lines so far. It waits for no
    /// run. Errors: `ServiceError::Refused`.
    pub async fn preview(
        &self,
        partner: &PartnerCode,
        file: NamedFile,
        lines_read: Arc<AtomicU64>,
    ) -> Result<RecordsPreview, ServiceError> {
        let _turn = self.previews.acquire().await.map_err(|_| ServiceError::Ended)?;
        let accounts = PartnerAccounts::of(&self.directory.load(), partner);
        let read = match accounts {
            Ok(accounts) => {
                run_blocking(move || preview::preview(&accounts, &file, &lines_read)).await
            }
            Err(error) => Err(error),
        };
        read.map_err(|error| match error {
            ReconcileError::Refused(problem) => ServiceError::Refused(problem),
            ReconcileError::Halt(_) => ServiceError::Ended,
        })
    }

    /// Queries a partner for each payment of a day and compares the answers. Returns once the run
    /// is on the `findings` topic.
    pub async fn survey(&self, survey: SurveyRequest) -> Result<RunEnded, ServiceError> {
        send_and_wait(&self.senders.surveys, |reply| (survey, reply)).await
    }

    /// Takes a person's decision on a finding.
    pub async fn decide_finding(
        &self,
        request: FindingDecisionRequest,
    ) -> Result<Decided, ServiceError> {
        self.submit(|reply| Task::DecideFinding(request, reply)).await
    }

    /// Takes a person's decision on a flag.
    pub async fn decide_flag(&self, request: FlagDecisionRequest) -> Result<Decided, ServiceError> {
        self.submit(|reply| Task::DecideFlag(request, reply)).await
    }

    /// Takes a person's decision on a quarantined notice.
    pub async fn decide_notice(
        &self,
        request: NoticeDecisionRequest,
    ) -> Result<Decided, ServiceError> {
        self.submit(|reply| Task::DecideNotice(Box::new(request), reply)).await
    }

    /// Withdraws a person's first decision, which waits for a second person.
    pub async fn withdraw(
        &self,
        withdraw: WithdrawalRequest,
    ) -> Result<WithdrawnDecision, ServiceError> {
        self.submit(|reply| Task::Withdraw(withdraw, reply)).await
    }

    /// Closes a day: seals its totals and findings.
    pub async fn close(&self, closing: CloseDayRequest) -> Result<PeriodClosed, ServiceError> {
        self.submit(|reply| Task::Close(closing, reply)).await
    }

    /// The progress of the current run.
    pub fn progress(&self) -> RunProgress {
        *self.progress.borrow()
    }

    async fn submit<T>(&self, task: impl FnOnce(Reply<T>) -> Task) -> Result<T, ServiceError> {
        send_and_wait(&self.senders.tasks, task).await
    }
}

async fn send_and_wait<W, T>(
    sender: &mpsc::Sender<W>,
    make_task: impl FnOnce(Reply<T>) -> W,
) -> Result<T, ServiceError> {
    let (reply, answer) = oneshot::channel();
    sender.try_send(make_task(reply)).map_err(|error| match error {
        mpsc::error::TrySendError::Full(_) => ServiceError::Busy,
        mpsc::error::TrySendError::Closed(_) => ServiceError::Ended,
    })?;
    answer.await.map_err(|_| ServiceError::Ended)?.map_err(ServiceError::Refused)
}

/// Works on tasks and ticks until the process is asked to stop.
pub(crate) async fn run_service(
    shared: &SharedContext,
    setup: &ReconcileSetup,
    mut waiting: TaskQueue,
) -> Result<(), Halt> {
    let mut ledger = open_ledger(shared, setup).await?;
    let mut folder_watch = records_folder::FolderWatch::default();
    let mut ticks = tokio::time::interval(setup.poll);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let task = tokio::select! {
            // A stop comes first, and people's requests come before the tick's own work.
            biased;
            () = shared.storage.stopped() => return Ok(()),
            Some(task) = waiting.tasks.recv() => task,
            _ = ticks.tick() => {
                catch_up(shared, &mut ledger).await?;
                log_refusal(record_tokens(shared, &setup.tokens.load(), &mut ledger).await)?;
                log_refusal(recheck::recheck_changed_orders(shared, setup, &mut ledger).await)?;
                for request in folder_watch.requests(shared, setup, &ledger).await? {
                    // No caller waits for the result; `compare` logs it.
                    if let Err(ReconcileError::Halt(halt)) =
                        compare(shared, setup, &mut ledger, request).await
                    {
                        return Err(halt);
                    }
                }
                for survey in folder_watch.surveys(shared.storage.clock.now(), setup, &ledger) {
                    // No caller waits for the result. If the queue is full, a later tick asks
                    // again.
                    let _ = waiting.surveys.try_send((survey, oneshot::channel().0));
                }
                log_refusal(gauges::export_gauges(shared, &ledger).map_err(ReconcileError::from))?;
                continue;
            }
        };
        // Another process may have published decisions or findings since the last task.
        catch_up(shared, &mut ledger).await?;
        log_refusal(record_tokens(shared, &setup.tokens.load(), &mut ledger).await)?;
        do_task(shared, setup, &mut ledger, task).await?;
        log_refusal(gauges::export_gauges(shared, &ledger).map_err(ReconcileError::from))?;
    }
}

/// Makes an empty ledger in the scratch folder; retries while the disk is full.
async fn open_ledger(shared: &SharedContext, setup: &ReconcileSetup) -> Result<Ledger, Halt> {
    let mut outage = shared.storage.outage("create the findings store");
    loop {
        let made = std::fs::create_dir_all(&setup.scratch)
            .map_err(|error| EngineError::Unavailable(error.to_string()))
            .and_then(|()| Ledger::in_folder(&setup.scratch).map_err(EngineError::from));
        match made {
            Ok(ledger) => {
                outage.over();
                return Ok(ledger);
            }
            Err(error) => outage.wait(error).await?,
        }
    }
}

/// Does one task and sends the result. If the caller has gone away, the task is done all the same.
async fn do_task(
    shared: &SharedContext,
    setup: &ReconcileSetup,
    ledger: &mut Ledger,
    task: Task,
) -> Result<(), Halt> {
    match task {
        Task::Run(request, reply) => {
            send_result(reply, compare(shared, setup, ledger, request).await)
        }
        Task::DecideFinding(request, reply) => {
            send_result(reply, decide::decide_finding(shared, ledger, request).await)
        }
        Task::DecideFlag(request, reply) => {
            send_result(reply, decide::decide_flag(shared, ledger, request).await)
        }
        Task::DecideNotice(request, reply) => {
            send_result(reply, notices::decide_notice(shared, ledger, *request).await)
        }
        Task::Withdraw(asked, reply) => {
            send_result(reply, withdraw::withdraw_decision(shared, ledger, asked).await)
        }
        Task::Close(closing, reply) => {
            send_result(reply, close::close_day(shared, setup, ledger, closing).await)
        }
    }
}

/// Does one run and logs its result.
async fn compare(
    shared: &SharedContext,
    setup: &ReconcileSetup,
    ledger: &mut Ledger,
    request: RunRequest,
) -> Result<RunEnded, ReconcileError> {
    let (partner, name) = (request.partner.clone(), request.name.clone());
    let ended = day_run::run_day(shared, setup, ledger, request).await;
    match &ended {
        Ok(ended) => tracing::info!(
            %partner, day = ended.day, run = ended.run, result = ?ended.result,
            open = ended.findings.open,
            opened = ended.findings.opened, cleared = ended.findings.cleared, "records compared"
        ),
        Err(ReconcileError::Refused(problem)) => {
            tracing::warn!(%partner, name, "the partner's records were not compared: {problem}");
        }
        Err(ReconcileError::Halt(_)) => {}
    }
    ended
}

/// Logs a refusal of work that no caller asked for; passes a halt on.
fn log_refusal(result: Result<(), ReconcileError>) -> Result<(), Halt> {
    match result {
        Ok(()) => Ok(()),
        Err(ReconcileError::Halt(halt)) => Err(halt),
        Err(ReconcileError::Refused(problem)) => {
            tracing::warn!("{problem}");
            Ok(())
        }
    }
}
