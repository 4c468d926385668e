//! Owns surveys: a survey queries a partner without record files for the payments of a day, on
//! orders within the lookback. The reconciler role keeps the partner's pace, in one queue with the
//! queries about stuck payments. The answers are compared like the lines of a file.
//!
//! Invariants: a survey is bounded in queries, in time and in failures. A query that was not sent
//! or failed makes the run incomplete; a payment that can't be queried for want of a ref is only
//! counted. Final answers are stored until a run of the day is complete, twelve hours at most, so
//! an interrupted survey continues where it stopped.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use chrono_tz::Tz;
use futures_util::stream::{FuturesUnordered, StreamExt};
use payfold_engines::orders::{Cursor, Page, Scan};
use payfold_kit::Halt;
use payfold_partners::directory::Directory;
use payfold_partners::query::PaymentStatus;
use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::finding::BookLine;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::Order;
use payfold_schemas::run::RunEnded;
use payfold_schemas::time::Time;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::day_rules::{DayRules, day_of};
use super::error::{ReconcileError, Reply, send_result};
use super::ours::{Money, OurOrder, OurRef};
use super::request::{QUERIES, RecordsSource, RunRequest, SurveyRequest, SurveyResult};
use super::setup::RunProgress;
use super::survey_answers::{SurveyAnswer, SurveyAnswers};
use super::task::Task;
use super::terms::PartnerTerms;
use crate::question::{PartnerReply, PaymentQuestion, QueryTarget, session_refs};
use crate::shared::SharedContext;

/// Payments of one day that are queried, at most.
const QUERIES_MAX: usize = 20_000;
/// Queries of a survey that wait in the partner's queue at once, so queries about stuck payments
/// wait behind no more than these.
const WAITING_MAX: usize = 32;
/// After this many failures in a row the survey sends no further query; a later one queries the
/// rest.
const FAILURES_IN_A_ROW_MAX: u32 = 10;
/// After this time the survey ends at once, and a later one queries the rest.
const SURVEY_TIME_MAX: Duration = Duration::from_secs(6 * 3_600);

/// The queue of survey requests, and what surveys need.
pub(crate) struct SurveyQueue {
    pub(crate) directory: Arc<ArcSwap<Directory>>,
    pub(crate) scratch: PathBuf,
    pub(crate) lookback_ms: i64,
    pub(crate) zones: HashMap<PartnerCode, Tz>,
    pub(super) requests: mpsc::Receiver<(SurveyRequest, Reply<RunEnded>)>,
    pub(super) tasks: mpsc::Sender<Task>,
    pub(crate) progress: watch::Sender<RunProgress>,
}

/// Does surveys one after the other until the process is asked to stop, and passes each result on
/// as a run request. Without `questions` every request is refused.
pub(crate) async fn run_surveys(
    shared: &SharedContext,
    mut surveys: SurveyQueue,
    questions: Option<mpsc::Sender<PaymentQuestion>>,
) -> Result<(), Halt> {
    loop {
        let (survey, reply) = tokio::select! {
            biased;
            () = shared.storage.stopped() => return Ok(()),
            Some(request) = surveys.requests.recv() => request,
        };
        match surveys.make_request(shared, survey, questions.as_ref()).await {
            // Sending fails only if the service has ended, and then the role ends too.
            Ok(request) => drop(surveys.tasks.send(Task::Run(request, reply)).await),
            Err(error) => {
                if let ReconcileError::Refused(problem) = &error {
                    tracing::warn!("the survey was not done: {problem}");
                }
                send_result(reply, Err(error))?;
            }
        }
    }
}

/// The payments to query, and how many are over the bound.
#[derive(Default)]
struct SurveyPlan {
    questions: Vec<(Order, QueryTarget)>,
    left_out: u64,
}

impl SurveyQueue {
    async fn make_request(
        &self,
        shared: &SharedContext,
        survey: SurveyRequest,
        questions: Option<&mpsc::Sender<PaymentQuestion>>,
    ) -> Result<RunRequest, ReconcileError> {
        let SurveyRequest { partner, day, replace, asked } = survey;
        let (terms, questions) = self.surveyable(&partner, questions)?;
        let now = shared.storage.clock.now();
        let yesterday = || day_of(now, terms.zone).pred_opt().unwrap_or_default();
        let day = day.unwrap_or_else(yesterday);
        let rules = terms.rules(day, now);
        if rules.from > now {
            return Err(ReconcileError::Refused(format!(
                "{day} has not begun in {}, the zone of {partner}'s days",
                terms.zone
            )));
        }
        let mut answers = SurveyAnswers::open(&self.scratch, (&partner, day), now)
            .map_err(ReconcileError::scratch_disk)?;
        let plan = self.plan(shared, &partner, &rules).await?;
        let count = u64::try_from(plan.questions.len()).unwrap_or(u64::MAX);
        let survey_in_progress = SurveyInProgress {
            shared,
            questions,
            failures: 0,
            no_ref: 0,
            unanswered: 0,
            last_failure: None,
        };
        let show_progress = |done| {
            self.progress.send_replace(RunProgress { stage: "asking the partner", done });
        };
        let answered =
            survey_in_progress.query_all(plan.questions, &mut answers, show_progress).await?;
        let problems = answered.problems(count, plan.left_out);
        let path = answers.path().to_owned();
        let (silent, lines) = answers.into_lines();
        let surveyed = SurveyResult {
            lines,
            questions: count,
            silent: silent + answered.no_ref,
            problems,
            path,
        };
        let source = RecordsSource::Answers(surveyed);
        let (day, name) = (Some(day), QUERIES.to_owned());
        Ok(RunRequest { partner, day, source, name, replace, asked })
    }

    /// The partner's terms and the channel of its queries. Errors: the partner has no account, or
    /// can't be queried.
    fn surveyable<'a>(
        &self,
        partner: &PartnerCode,
        questions: Option<&'a mpsc::Sender<PaymentQuestion>>,
    ) -> Result<(PartnerTerms, &'a mpsc::Sender<PaymentQuestion>), ReconcileError> {
        let directory = self.directory.load();
        let Some(profile) = directory.profile_of(partner) else {
            return Err(ReconcileError::Refused(format!(
                "there is no account at {partner}; `payfold partner list` lists the partners"
            )));
        };
        let can_be_asked = questions.filter(|_| profile.query_pace().is_some());
        let Some(questions) = can_be_asked else {
            return Err(ReconcileError::Refused(format!(
                "{partner} can't be asked for payments: add [query] to its profile and set \
                 partners.{partner}.api_url to its address"
            )));
        };
        let zone = self.zones.get(partner).copied().unwrap_or(Tz::UTC);
        Ok((PartnerTerms::of_answers(profile.records(), zone, self.lookback_ms), questions))
    }

    /// Loads what to query: the day's payments, and the orders of the day with no known payment.
    async fn plan(
        &self,
        shared: &SharedContext,
        partner: &PartnerCode,
        rules: &DayRules,
    ) -> Result<SurveyPlan, ReconcileError> {
        let mut plan = SurveyPlan::default();
        let (from, until) = (rules.oldest_order(rules.day), rules.until.min(rules.now));
        let (scan, limit) = (Scan::Created { from, until }, shared.settings.page_entries);
        let mut after: Option<Cursor> = None;
        loop {
            let ask = || shared.storage.store.scan(scan.clone(), after.clone(), limit);
            let Page { entries, next } =
                shared.storage.ask("walk the orders by creation", ask).await?;
            let keys = entries.into_iter().map(|(key, _)| key);
            let keys: Vec<_> = keys.filter(|key| key.partner == *partner).collect();
            for order in shared.storage.load(&keys).await?.into_iter().flatten() {
                for target in targets(&order, rules) {
                    if plan.questions.len() < QUERIES_MAX {
                        plan.questions.push((order.clone(), target));
                    } else {
                        plan.left_out += 1;
                    }
                }
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(plan),
            }
        }
    }
}

/// What of an order is queried: its payments of the day; or, for an order of the day without a
/// payment, its refs and sessions.
fn targets(order: &Order, rules: &DayRules) -> BTreeSet<QueryTarget> {
    // About a ref that two orders share the partner can answer for one of them only, so each is
    // queried by its order id.
    let target = |known: &OurRef| known.shared_with.is_none().then(|| known.provider_ref.clone());
    let ours = OurOrder::of(order.clone().into());
    let paid = ours.refs.iter().filter(|known| known.is_paid());
    let mut targets: BTreeSet<QueryTarget> =
        paid.clone().filter(|known| rules.contains(known.paid_at(&ours))).map(target).collect();
    if paid.count() == 0 && rules.contains(order.first_seen) {
        targets.extend(ours.refs.iter().map(target));
        targets.extend(session_refs(order).map(Some));
        if targets.is_empty() {
            targets.insert(None);
        }
    }
    targets
}

/// A survey under way.
struct SurveyInProgress<'a> {
    shared: &'a SharedContext,
    questions: &'a mpsc::Sender<PaymentQuestion>,
    /// Failures since the last answer.
    failures: u32,
    no_ref: u64,
    unanswered: u64,
    last_failure: Option<String>,
}

impl SurveyInProgress<'_> {
    /// Queries the payments that have no answer yet.
    async fn query_all(
        mut self,
        questions: Vec<(Order, QueryTarget)>,
        answers: &mut SurveyAnswers,
        show_progress: impl Fn(u64),
    ) -> Result<Self, ReconcileError> {
        let until = Instant::now() + SURVEY_TIME_MAX;
        let known = |(order, target): &(Order, QueryTarget)| answers.has(&order.key, target);
        let mut done = u64::try_from(questions.iter().filter(|q| known(q)).count()).unwrap_or(0);
        let mut left =
            questions.into_iter().filter(|question| !known(question)).collect::<Vec<_>>();
        left.reverse();
        let mut waiting = FuturesUnordered::new();
        loop {
            while waiting.len() < WAITING_MAX && self.may_continue(until) {
                let Some((order, target)) = left.pop() else { break };
                waiting.push(send_question(
                    self.questions,
                    self.shared.storage.clock.now(),
                    (order, target),
                ));
            }
            show_progress(done);
            let ended = tokio::select! {
                // A stop comes first; an answer that is there is kept even when the time is over.
                biased;
                () = self.shared.storage.stopped() => return Err(Halt::Stopped.into()),
                ended = waiting.next() => ended,
                // A query that is still waiting is sent all the same, but its answer comes too late
                // for this survey.
                () = tokio::time::sleep_until(until) => None,
            };
            let Some((order, target, reply_of_partner)) = ended else { break };
            done += 1;
            self.take_reply((&order, target), reply_of_partner, answers)?;
        }
        self.unanswered += u64::try_from(left.len() + waiting.len()).unwrap_or(0);
        Ok(self)
    }

    fn may_continue(&self, until: Instant) -> bool {
        self.failures < FAILURES_IN_A_ROW_MAX && Instant::now() < until
    }

    fn take_reply(
        &mut self,
        (order, target): (&Order, QueryTarget),
        reply_of_partner: PartnerReply,
        answers: &mut SurveyAnswers,
    ) -> Result<(), ReconcileError> {
        let (lines, is_final) = match reply_of_partner {
            PartnerReply::Answered(PaymentStatus::Terminal(answer)) => {
                (lines_of_answer(order, &answer), true)
            }
            PartnerReply::Answered(PaymentStatus::Unknown) => (Vec::new(), true),
            PartnerReply::Answered(PaymentStatus::Pending) => (Vec::new(), false),
            PartnerReply::NoRef => {
                self.no_ref += 1;
                return Ok(());
            }
            PartnerReply::Trouble(why) => {
                self.failures += 1;
                self.unanswered += 1;
                self.last_failure = Some(why);
                return Ok(());
            }
        };
        self.failures = 0;
        let (order, at) = (order.key.to_string(), self.shared.storage.clock.now());
        answers
            .add(SurveyAnswer { order, target, at, lines, is_final })
            .map_err(ReconcileError::scratch_disk)
    }

    fn problems(&self, questions: u64, left_out: u64) -> Vec<String> {
        let mut problems = Vec::new();
        if self.unanswered > 0 {
            let why = self.last_failure.as_deref().unwrap_or("it took longer than six hours");
            problems.push(format!(
                "{} of {questions} queries were not answered ({why}); the final answers are kept \
                 for 12 hours: run it again, and only the other queries are repeated",
                self.unanswered
            ));
        }
        if left_out > 0 {
            problems.push(format!(
                "the day has more than {QUERIES_MAX} payments to query, and {left_out} were left \
                 out: ask the partner for record files (docs/reference/profiles.md, [records])"
            ));
        }
        problems
    }
}

/// Sends one query and waits for the partner's reply.
async fn send_question(
    questions: &mpsc::Sender<PaymentQuestion>,
    due: Time,
    (order, target): (Order, QueryTarget),
) -> (Order, QueryTarget, PartnerReply) {
    let (reply, reply_of_partner) = oneshot::channel();
    let (key, asked) = (order.key.clone(), target.clone());
    let stopping = || PartnerReply::Trouble("the reconciler is stopping".to_owned());
    let reply_of_partner =
        match questions.send(PaymentQuestion { key, target: asked, due, reply }).await {
            Ok(()) => reply_of_partner.await.unwrap_or_else(|_| stopping()),
            Err(_) => stopping(),
        };
    (order, target, reply_of_partner)
}

/// An answer as the lines that a file would have. An answer has no time, so every line gets the
/// time of our payment, refunds too: days of refunds are not compared. A refund implies its
/// payment, and an answer with the sum of our refunds implies each of them.
fn lines_of_answer(order: &Order, answer: &QueryAnswer) -> Vec<BookLine> {
    let ours = OurOrder::of(order.clone().into());
    let known = ours.find(&answer.provider_ref);
    let at = known.map_or(order.first_seen, |known| known.paid_at(&ours));
    let line = |status, money: Money| BookLine {
        line: 0,
        merchant_code: order.key.merchant_code.clone(),
        order_id: Some(order.key.order_id.clone()),
        provider_ref: Some(answer.provider_ref.clone()),
        status,
        amount: money.amount,
        currency: money.currency,
        at,
        paid_at: None,
        event_ref: None,
    };
    let answered = Money { amount: answer.amount, currency: answer.currency, at: None };
    if answer.status != Status::Refunded {
        return vec![line(answer.status, answered)];
    }
    let payment = known.filter(|known| !known.paid.is_empty()).and_then(OurRef::payment);
    let refunds = known.map_or(&[][..], |known| &known.refunds);
    let sum: i64 = refunds.iter().map(|refund| refund.money.amount.minor()).sum();
    let mut lines: Vec<BookLine> =
        payment.map(|money| line(Status::Success, money)).into_iter().collect();
    match sum == answer.amount.minor() {
        true => lines.extend(refunds.iter().map(|r| line(Status::Refunded, r.money))),
        false => lines.push(line(Status::Refunded, answered)),
    }
    lines
}
