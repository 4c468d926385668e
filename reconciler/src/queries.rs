//! Owns the query loop: what `windows` and `unconfirmed` find due is lined up by partner, asked within its pace, and
//! what the partner says of an end is appended to intake as P.
//!
//! Invariants: an order is asked about only while its row, looked at again just before, still wants it; what it knows
//! is not appended again. Asking changes nothing anywhere, and P is identified by its content, so a crash, a repeat
//! or a second instance costs a question and no more.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use payfold_partners::query::Told;
use payfold_partners::remote::query::{Queried, QueryError};
use payfold_schemas::fact::{Fact, QueryAnswer};
use payfold_schemas::ids::{OrderKey, PartnerCode};
use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::line::{Ended, Line, Purpose, Waiting};
use crate::partners::{Confirms, Partners};
use crate::run::{Halt, Shared};
use crate::stuck::{Target, is_news, is_other_money, wanted};
use crate::{unconfirmed, windows};

/// Questions between those who find them and the lines.
const HANDED_MAX: usize = 1_024;
/// How often the oldest question is looked for.
const GAUGES_EVERY: Duration = Duration::from_secs(1);

/// Finds, asks and appends until told to stop.
/// `questions` are put by others, who are told what came of each.
pub(crate) async fn run(
    shared: &Shared,
    partners: &Partners,
    questions: Receiver<Question>,
) -> Result<(), Halt> {
    let (due, handed) = mpsc::channel(HANDED_MAX);
    let watch = async {
        match partners.confirms {
            Confirms::Never => Ok(()),
            Confirms::Some => unconfirmed::run(shared, partners, due.clone()).await,
        }
    };
    let (lines, calls, replies) = (BTreeMap::new(), FuturesUnordered::new(), HashMap::new());
    let asker = Asker { shared, partners, lines, calls, replies };
    let found = windows::run(shared, partners, due.clone());
    tokio::try_join!(found, watch, asker.run(handed, questions)).map(|_| ())
}

/// A question whose answer somebody waits for.
pub(crate) struct Question {
    pub(crate) waiting: Waiting,
    pub(crate) reply: oneshot::Sender<Word>,
}

/// What came of a question.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    Told(Told),
    /// The partner is asked for transactions only, and none is known.
    NoRef,
    /// Why nobody knows.
    Trouble(String),
}

/// One question that has ended.
struct Asked {
    word: Word,
    waiting: Waiting,
    ended: Ended,
    /// The outcome, as counted; none where nothing was asked for want of need.
    outcome: Option<&'static str>,
    /// What is logged of it.
    trouble: Option<String>,
}

/// Whether there was room.
enum Lined {
    Up,
    Full,
}

type Call<'a> = Pin<Box<dyn Future<Output = Result<Asked, Halt>> + Send + 'a>>;

struct Asker<'a> {
    shared: &'a Shared,
    partners: &'a Partners,
    lines: BTreeMap<PartnerCode, Line>,
    calls: FuturesUnordered<Call<'a>>,
    /// Who waits for what comes of a question.
    replies: HashMap<(OrderKey, Target), Vec<oneshot::Sender<Word>>>,
}

impl Asker<'_> {
    async fn run(
        mut self,
        mut handed: Receiver<Waiting>,
        mut questions: Receiver<Question>,
    ) -> Result<(), Halt> {
        let mut gauges = tokio::time::interval(GAUGES_EVERY);
        loop {
            let next = self.begin();
            tokio::select! {
                biased;
                () = self.shared.stopped() => return Ok(()),
                Some(asked) = self.calls.next() => self.end(asked?),
                Some(waiting) = handed.recv() => drop(self.line_up(waiting)),
                Some(question) = questions.recv() => self.put(question),
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
                _ = gauges.tick() => self.gauge_oldest(),
            }
            self.shared.metrics.queries_wait(self.lines.values().map(Line::len).sum());
        }
    }

    fn put(&mut self, Question { waiting, reply }: Question) {
        let name = (waiting.key.clone(), waiting.target.clone());
        self.replies.entry(name.clone()).or_default().push(reply);
        if self.partners.pace(&waiting.key.partner).is_none() {
            return self.reply(&name, &Word::Trouble("it can't be asked any more".to_owned()));
        }
        if let Lined::Full = self.line_up(waiting) {
            let word = Word::Trouble("too many orders wait to be asked about".to_owned());
            self.reply(&name, &word);
        }
    }

    fn reply(&mut self, name: &(OrderKey, Target), word: &Word) {
        for reply in self.replies.remove(name).into_iter().flatten() {
            // Who does not wait any more is not told.
            let _ = reply.send(word.clone());
        }
    }

    fn line_up(&mut self, waiting: Waiting) -> Lined {
        let partner = waiting.key.partner.clone();
        let Some(pace) = self.partners.pace(&partner) else { return Lined::Full };
        let line = self.lines.entry(partner).or_insert_with(|| Line::new(pace, Instant::now()));
        line.keep_pace(pace);
        let key = waiting.key.clone();
        if line.push(waiting) {
            return Lined::Up;
        }
        self.shared.metrics.query_ended(&key.partner, "put_off");
        if line.tells("put_off", Instant::now()) {
            tracing::warn!(
                partner = %key.partner,
                "too many orders wait to be asked about; further ones are left to their next time"
            );
        }
        Lined::Full
    }

    /// Begins what may be; when the next may.
    fn begin(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let mut soonest = None;
        for line in self.lines.values_mut() {
            while let Some(waiting) = line.next(now) {
                self.calls.push(Box::pin(ask(self.shared, self.partners, waiting)));
            }
            soonest = [soonest, line.ready_at()].into_iter().flatten().min();
        }
        soonest
    }

    fn end(&mut self, asked: Asked) {
        let Asked { word, waiting, ended, outcome, trouble } = asked;
        let (key, now) = (waiting.key.clone(), Instant::now());
        if !matches!(ended, Ended::Busy(_)) {
            self.reply(&(key.clone(), waiting.target.clone()), &word);
        }
        let line = self.lines.get_mut(&key.partner).expect("what was asked was lined up");
        line.ended(waiting, ended, now);
        let Some(outcome) = outcome else { return };
        self.shared.metrics.query_ended(&key.partner, outcome);
        if let Some(trouble) = trouble
            && line.tells(outcome, now)
        {
            tracing::warn!(
                partner = %key.partner,
                order.id = %key.order_id,
                outcome,
                "a query to a partner has trouble: {trouble} (told once a minute)"
            );
        }
    }

    fn gauge_oldest(&self) {
        let oldest = self.lines.values().filter_map(Line::oldest).min();
        let now = self.shared.clock.now();
        let waited_ms = oldest.map_or(0, |due| now.unix_ms().saturating_sub(due.unix_ms()));
        let waited = Duration::from_millis(waited_ms.max(0).unsigned_abs());
        self.shared.metrics.oldest_query_waits(waited);
    }
}

/// One question from the row it is asked for to the P it leads to.
async fn ask(shared: &Shared, partners: &Partners, waiting: Waiting) -> Result<Asked, Halt> {
    let keys = [waiting.key.clone()];
    let row = shared.load(&keys).await?.pop().flatten();
    let is_wanted = row.is_some_and(|order| wanted(&order).contains(&waiting.target));
    let unasked = |waiting, word, (outcome, trouble)| {
        let ended = Ended::Unasked;
        Ok(Asked { word, waiting, ended, outcome, trouble })
    };
    let gone = || Word::Trouble("it was not wanted any more".to_owned());
    if !is_wanted && waiting.purpose == Purpose::Stuck {
        return unasked(waiting, gone(), (None, None));
    }
    let call = match partners.prepare(&waiting.key, &waiting.target, shared.clock.now()) {
        None => return unasked(waiting, gone(), (None, None)),
        // Nothing is wrong: its notice, which names the transaction, has not come yet.
        Some(Err(QueryError::NoRef(_))) => {
            return unasked(waiting, Word::NoRef, (Some("no_ref"), None));
        }
        Some(Err(error)) => {
            let why = error.to_string();
            return unasked(waiting, Word::Trouble(why.clone()), (Some("not_asked"), Some(why)));
        }
        Some(Ok(call)) => call,
    };
    let queried = call.make(|| shared.clock.now()).await;
    let word = word(&queried);
    let (ended, outcome, trouble) = match queried {
        Queried::Told(Told::Pending) => (Ended::Answered, "pending", None),
        Queried::Told(Told::Unknown) => (Ended::Answered, "unknown", None),
        Queried::Told(Told::Ended(answer)) if is_wanted => {
            let (outcome, trouble) = learn(shared, &waiting, answer).await?;
            (Ended::Answered, outcome, trouble)
        }
        // Compared, and nothing else: the order wants nobody's word.
        Queried::Told(Told::Ended(_)) => (Ended::Answered, "told", None),
        Queried::Wrong(_) => (Ended::Answered, "wrong_answer", why(&word)),
        Queried::Busy(ms) => (Ended::Busy(ms), "busy", why(&word)),
        Queried::Refused(_) => (Ended::Failed, "refused", why(&word)),
        Queried::Unanswered(_) => (Ended::Failed, "unanswered", why(&word)),
    };
    Ok(Asked { word, waiting, ended, outcome: Some(outcome), trouble })
}

/// What is told to who waits for it.
fn word(queried: &Queried) -> Word {
    Word::Trouble(match queried {
        Queried::Told(told) => return Word::Told(told.clone()),
        Queried::Wrong(rule) => format!("the answer breaks the rule {}", rule.name()),
        Queried::Busy(Some(ms)) => format!("it wants to be left alone for {} s", ms / 1_000),
        Queried::Busy(None) => "it wants to be left alone".to_owned(),
        Queried::Refused(status) => format!("the partner answered {status}"),
        Queried::Unanswered(why) => why.clone(),
    })
}

fn why(word: &Word) -> Option<String> {
    match word {
        Word::Trouble(why) => Some(why.clone()),
        Word::Told(_) | Word::NoRef => None,
    }
}

/// Appends P, if it tells the order something; the outcome, and what is logged of it.
async fn learn(
    shared: &Shared,
    waiting: &Waiting,
    answer: QueryAnswer,
) -> Result<(&'static str, Option<String>), Halt> {
    // The notice may have come meanwhile.
    let row = shared.load(std::slice::from_ref(&waiting.key)).await?.pop().flatten();
    if row.as_ref().is_some_and(|order| !is_news(order, &answer)) {
        return Ok(("known", None));
    }
    let other_money = row.is_some_and(|order| is_other_money(&order, &answer));
    let trouble = other_money.then(|| {
        format!(
            "it ended with other money: {} {} {}",
            answer.status, answer.amount, answer.currency
        )
    });
    shared.append(vec![(waiting.key.clone(), Fact::QueryAnswered(answer))]).await?;
    Ok((if other_money { "other_money" } else { "ended" }, trouble))
}
