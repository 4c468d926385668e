//! Owns the asking of a partner that gives out no files: for every payment of a day, within the pace of the profile and in
//! the one line of questions with those about stuck payments. What it answers is compared as lines of a file are.
//!
//! Invariants: bounded in number, in time, and in failures; whoever was not asked, or did not answer, makes the run
//! incomplete; answers are kept until a run of the day is complete, so what was interrupted goes on.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use chrono::NaiveDate;
use chrono_tz::Tz;
use futures_util::stream::{FuturesUnordered, StreamExt};
use payfold_engines::orders::{Cursor, Page, Scan};
use payfold_partners::directory::Directory;
use payfold_partners::query::Told;
use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::finding::BookLine;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::Order;
use payfold_schemas::run::RunEnded;
use payfold_schemas::time::Time;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::BooksError;
use super::answers::{Answer, Answers};
use super::day::{Request, Source};
use super::desk::{Progress, Reply, Task, told};
use super::ours::{Money, OurOrder, OurRef};
use super::rules::{Rules, day_of};
use super::terms::Terms;
use crate::line::{Purpose, Waiting};
use crate::queries::{Question, Word};
use crate::run::{Halt, Shared};
use crate::stuck::{Target, session_refs};

/// Payments of one day that are asked for.
const ASKED_MAX: usize = 20_000;
/// Questions of a survey that wait in the partner's line; those about stuck payments wait behind no more.
const WAITING_MAX: usize = 32;
/// So many failures in a row, and the rest is left for another time.
const FAILURES_MAX: u32 = 10;
/// So long, and the rest is left for another time.
const TIME_MAX: Duration = Duration::from_secs(6 * 3_600);
/// What a survey's records are called.
pub const QUERIES: &str = "query";

/// Whose payments of which day are asked for.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The partner.
    pub partner: PartnerCode,
    /// The day in the partner's zone; none is yesterday.
    pub day: Option<NaiveDate>,
    /// Whether the answers may take the place of a file.
    pub replace: bool,
}

/// What a survey came to.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// The answers as lines.
    pub(crate) lines: Vec<BookLine>,
    /// How many payments there are to ask for.
    pub(crate) questions: u64,
    /// How many say nothing of an end, or can't be asked for as they have no ref.
    pub(crate) silent: u64,
    /// Why some were not answered.
    pub(crate) problems: Vec<String>,
    /// Where the answers lie until a run is complete.
    pub(crate) path: PathBuf,
}

/// Where surveys are asked for, and what they need.
pub(crate) struct Surveys {
    pub(crate) directory: Arc<ArcSwap<Directory>>,
    pub(crate) scratch: PathBuf,
    pub(crate) lookback_ms: i64,
    pub(crate) zones: HashMap<PartnerCode, Tz>,
    pub(super) asked: mpsc::Receiver<(Survey, Reply<RunEnded>)>,
    pub(super) tasks: mpsc::Sender<Task>,
    pub(crate) progress: watch::Sender<Progress>,
}

/// Asks, day by day, until told to stop, and hands on what is to be compared. Without `questions` nobody can be asked.
pub(crate) async fn run(
    shared: &Shared,
    mut surveys: Surveys,
    questions: Option<mpsc::Sender<Question>>,
) -> Result<(), Halt> {
    loop {
        let (survey, reply) = tokio::select! {
            biased;
            () = shared.stopped() => return Ok(()),
            Some(asked) = surveys.asked.recv() => asked,
        };
        match told(surveys.request(shared, survey, questions.as_ref()).await)? {
            // Nobody compares any more only where the role ends.
            Ok(request) => drop(surveys.tasks.send(Task::Run(request, reply)).await),
            Err(problem) => {
                tracing::warn!("payments not asked for: {problem}");
                let _ = reply.send(Err(problem));
            }
        }
    }
}

/// What there is to ask.
#[derive(Default)]
struct ToAsk {
    questions: Vec<(Order, Target)>,
    left_out: u64,
}

impl Surveys {
    async fn request(
        &self,
        shared: &Shared,
        survey: Survey,
        questions: Option<&mpsc::Sender<Question>>,
    ) -> Result<Request, BooksError> {
        let Survey { partner, day, replace } = survey;
        let (terms, questions) = self.askable(&partner, questions)?;
        let now = shared.clock.now();
        let yesterday = || day_of(now, terms.zone).pred_opt().unwrap_or_default();
        let day = day.unwrap_or_else(yesterday);
        let rules = terms.rules(day, now);
        if rules.from > now {
            return Err(BooksError::Refused(format!(
                "{day} has not begun in {}, the zone of {partner}'s days",
                terms.zone
            )));
        }
        let mut answers =
            Answers::open(&self.scratch, (&partner, day), now).map_err(BooksError::scratch)?;
        let to_ask = self.to_ask(shared, &partner, &rules).await?;
        let count = u64::try_from(to_ask.questions.len()).unwrap_or(u64::MAX);
        let asking = Asking { shared, questions, failures: 0, no_ref: 0, unanswered: 0, why: None };
        let tell = |done| {
            self.progress.send_replace(Progress { stage: "asking the partner", done });
        };
        let asked = asking.all(to_ask.questions, &mut answers, tell).await?;
        let problems = asked.problems(count, to_ask.left_out);
        let path = answers.path().to_owned();
        let (silent, lines) = answers.told();
        let surveyed =
            Surveyed { lines, questions: count, silent: silent + asked.no_ref, problems, path };
        let source = Source::Answers(surveyed);
        Ok(Request { partner, day: Some(day), source, name: QUERIES.to_owned(), replace })
    }

    /// A partner's terms, and the way to it.
    fn askable<'a>(
        &self,
        partner: &PartnerCode,
        questions: Option<&'a mpsc::Sender<Question>>,
    ) -> Result<(Terms, &'a mpsc::Sender<Question>), BooksError> {
        let directory = self.directory.load();
        let Some(profile) = directory.profile_of(partner) else {
            return Err(BooksError::Refused(format!(
                "there is no account at {partner}; `payfold partner list` shows whom there is"
            )));
        };
        let can_be_asked = questions.filter(|_| profile.query_pace().is_some());
        let Some(questions) = can_be_asked else {
            return Err(BooksError::Refused(format!(
                "{partner} can't be asked: its profile needs [query], and partners.{partner}.api_url its address"
            )));
        };
        let zone = self.zones.get(partner).copied().unwrap_or(Tz::UTC);
        Ok((Terms::of_answers(profile.records(), zone), questions))
    }

    /// The day's payments, and the orders of the day that nobody has paid as far as is known here.
    async fn to_ask(
        &self,
        shared: &Shared,
        partner: &PartnerCode,
        rules: &Rules,
    ) -> Result<ToAsk, BooksError> {
        let mut to_ask = ToAsk::default();
        let (from, until) = (rules.from.plus_ms(-self.lookback_ms), rules.until.min(rules.now));
        let (scan, limit) = (Scan::Created { from, until }, shared.settings.page_entries);
        let mut after: Option<Cursor> = None;
        loop {
            let ask = || shared.store.scan(scan.clone(), after.clone(), limit);
            let Page { entries, next } = shared.ask("walk the orders by creation", ask).await?;
            let keys = entries.into_iter().map(|(key, _)| key);
            let keys: Vec<_> = keys.filter(|key| key.partner == *partner).collect();
            for order in shared.load(&keys).await?.into_iter().flatten() {
                for target in targets(&order, rules) {
                    if to_ask.questions.len() < ASKED_MAX {
                        to_ask.questions.push((order.clone(), target));
                    } else {
                        to_ask.left_out += 1;
                    }
                }
            }
            match next {
                Some(next) => after = Some(next),
                None => return Ok(to_ask),
            }
        }
    }
}

/// What of an order is asked for: what was paid on the day, and of what was not paid and is of the day, its session.
fn targets(order: &Order, rules: &Rules) -> BTreeSet<Target> {
    let of_day = |at: Time| rules.from <= at && at < rules.until;
    // Of a ref that two orders have the partner can only tell of one: each is asked for as an order.
    let target = |known: &OurRef| known.shared_with.is_none().then(|| known.provider_ref.clone());
    let ours = OurOrder::of(order.clone().into());
    let paid = ours.refs.iter().filter(|known| known.is_paid());
    let mut targets: BTreeSet<Target> =
        paid.clone().filter(|known| of_day(known.paid_at(&ours))).map(target).collect();
    if paid.count() == 0 && of_day(order.first_seen) {
        targets.extend(ours.refs.iter().map(target));
        targets.extend(session_refs(order).map(Some));
        if targets.is_empty() {
            targets.insert(None);
        }
    }
    targets
}

/// A survey under way.
struct Asking<'a> {
    shared: &'a Shared,
    questions: &'a mpsc::Sender<Question>,
    failures: u32,
    no_ref: u64,
    unanswered: u64,
    why: Option<String>,
}

impl Asking<'_> {
    /// Asks what is not answered yet.
    async fn all(
        mut self,
        questions: Vec<(Order, Target)>,
        answers: &mut Answers,
        tell: impl Fn(u64),
    ) -> Result<Self, BooksError> {
        let until = Instant::now() + TIME_MAX;
        let known = |(order, target): &(Order, Target)| answers.has(&order.key, target);
        let mut done = u64::try_from(questions.iter().filter(|q| known(q)).count()).unwrap_or(0);
        let mut left =
            questions.into_iter().filter(|question| !known(question)).collect::<Vec<_>>();
        left.reverse();
        let mut waiting = FuturesUnordered::new();
        loop {
            while waiting.len() < WAITING_MAX && self.goes_on(until) {
                let Some((order, target)) = left.pop() else { break };
                waiting.push(put(self.questions, self.shared.clock.now(), (order, target)));
            }
            tell(done);
            let ended = tokio::select! {
                biased;
                () = self.shared.stopped() => return Err(Halt::Stopped.into()),
                ended = waiting.next() => ended,
                // What waits longer is still asked, and its answer comes too late.
                () = tokio::time::sleep_until(until) => None,
            };
            let Some((order, target, word)) = ended else { break };
            done += 1;
            self.heard((&order, target), word, answers)?;
        }
        self.unanswered += u64::try_from(left.len() + waiting.len()).unwrap_or(0);
        Ok(self)
    }

    fn goes_on(&self, until: Instant) -> bool {
        self.failures < FAILURES_MAX && Instant::now() < until
    }

    fn heard(
        &mut self,
        (order, target): (&Order, Target),
        word: Word,
        answers: &mut Answers,
    ) -> Result<(), BooksError> {
        let (lines, is_final) = match word {
            Word::Told(Told::Ended(answer)) => (lines(order, &answer), true),
            Word::Told(Told::Unknown) => (Vec::new(), true),
            Word::Told(Told::Pending) => (Vec::new(), false),
            Word::NoRef => {
                self.no_ref += 1;
                return Ok(());
            }
            Word::Trouble(why) => {
                self.failures += 1;
                self.unanswered += 1;
                self.why = Some(why);
                return Ok(());
            }
        };
        self.failures = 0;
        let (order, at) = (order.key.to_string(), self.shared.clock.now());
        answers.keep(Answer { order, target, at, lines, is_final }).map_err(BooksError::scratch)
    }

    fn problems(&self, questions: u64, left_out: u64) -> Vec<String> {
        let mut problems = Vec::new();
        if self.unanswered > 0 {
            let why = self.why.as_deref().unwrap_or("it took longer than six hours");
            problems.push(format!(
                "{} of {questions} payments were not answered ({why}); the answers that came are kept for 12 hours: run \
                 it again, and only the others are asked for",
                self.unanswered
            ));
        }
        if left_out > 0 {
            problems.push(format!(
                "the day has more than {ASKED_MAX} payments to ask for; {left_out} of them were not: a partner of that \
                 size gives out files"
            ));
        }
        problems
    }
}

/// Puts one question and waits for the partner's word.
async fn put(
    questions: &mpsc::Sender<Question>,
    due: Time,
    (order, target): (Order, Target),
) -> (Order, Target, Word) {
    let (reply, word) = oneshot::channel();
    let (key, purpose) = (order.key.clone(), Purpose::Books);
    let waiting = Waiting { key, target: target.clone(), due, purpose };
    let gone = || Word::Trouble("nobody asks any more".to_owned());
    let word = match questions.send(Question { waiting, reply }).await {
        Ok(()) => word.await.unwrap_or_else(|_| gone()),
        Err(_) => gone(),
    };
    (order, target, word)
}

/// An answer as the lines that a file would have of it. It says no time: that is ours. A refund implies its payment, and a
/// sum of refunds all of them.
fn lines(order: &Order, answer: &QueryAnswer) -> Vec<BookLine> {
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
    let told = Money { amount: answer.amount, currency: answer.currency, at: None };
    if answer.status != Status::Refunded {
        return vec![line(answer.status, told)];
    }
    let payment = known.filter(|known| !known.paid.is_empty()).and_then(OurRef::payment);
    let refunds = known.map_or(&[][..], |known| &known.refunds);
    let sum: i64 = refunds.iter().map(|refund| refund.money.amount.minor()).sum();
    let mut lines: Vec<BookLine> =
        payment.map(|money| line(Status::Success, money)).into_iter().collect();
    match sum == answer.amount.minor() {
        true => lines.extend(refunds.iter().map(|r| line(Status::Refunded, r.money))),
        false => lines.push(line(Status::Refunded, told)),
    }
    lines
}
