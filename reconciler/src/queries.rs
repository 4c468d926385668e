//! Owns the query loop: what `windows` and `unconfirmed` find due is lined up by partner, asked within its pace, and
//! what the partner says of an end is appended to intake as P.
//!
//! Invariants: an order is asked about only while its row, looked at again just before, still wants it; what it knows
//! is not appended again. Asking changes nothing anywhere, and P is identified by its content, so a crash, a repeat
//! or a second instance costs a question and no more.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use payfold_partners::query::Told;
use payfold_partners::remote::query::{Queried, QueryError};
use payfold_schemas::fact::{Fact, QueryAnswer};
use payfold_schemas::ids::PartnerCode;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::Instant;

use crate::line::{Ended, Line, Waiting};
use crate::partners::{Confirms, Partners};
use crate::run::{Halt, Shared};
use crate::stuck::{is_news, is_other_money, wanted};
use crate::{unconfirmed, windows};

/// Questions between those who find them and the lines.
const HANDED_MAX: usize = 1_024;
/// How often the oldest question is looked for.
const GAUGES_EVERY: Duration = Duration::from_secs(1);

/// Finds, asks and appends until told to stop.
pub(crate) async fn run(shared: &Shared, partners: &Partners) -> Result<(), Halt> {
    let (due, handed) = mpsc::channel(HANDED_MAX);
    let watch = async {
        match partners.confirms {
            Confirms::Never => Ok(()),
            Confirms::Some => unconfirmed::run(shared, partners, due.clone()).await,
        }
    };
    let asker = Asker { shared, partners, lines: BTreeMap::new(), calls: FuturesUnordered::new() };
    let found = windows::run(shared, partners, due.clone());
    tokio::try_join!(found, watch, asker.run(handed)).map(|_| ())
}

/// One question that has ended.
struct Asked {
    waiting: Waiting,
    ended: Ended,
    /// The outcome, as counted; none where nothing was asked for want of need.
    outcome: Option<&'static str>,
    /// What is logged of it.
    trouble: Option<String>,
}

type Call<'a> = Pin<Box<dyn Future<Output = Result<Asked, Halt>> + Send + 'a>>;

struct Asker<'a> {
    shared: &'a Shared,
    partners: &'a Partners,
    lines: BTreeMap<PartnerCode, Line>,
    calls: FuturesUnordered<Call<'a>>,
}

impl Asker<'_> {
    async fn run(mut self, mut handed: Receiver<Waiting>) -> Result<(), Halt> {
        let mut gauges = tokio::time::interval(GAUGES_EVERY);
        loop {
            let next = self.begin();
            tokio::select! {
                biased;
                () = self.shared.stopped() => return Ok(()),
                Some(asked) = self.calls.next() => self.end(asked?),
                Some(waiting) = handed.recv() => self.line_up(waiting),
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
                _ = gauges.tick() => self.gauge_oldest(),
            }
            self.shared.metrics.queries_wait(self.lines.values().map(Line::len).sum());
        }
    }

    fn line_up(&mut self, waiting: Waiting) {
        let partner = waiting.key.partner.clone();
        let Some(pace) = self.partners.pace(&partner) else { return };
        let line = self.lines.entry(partner).or_insert_with(|| Line::new(pace, Instant::now()));
        line.keep_pace(pace);
        let key = waiting.key.clone();
        if !line.push(waiting) {
            self.shared.metrics.query_ended(&key.partner, "put_off");
            if line.tells("put_off", Instant::now()) {
                tracing::warn!(
                    partner = %key.partner,
                    "too many orders wait to be asked about; further ones are left to their next time"
                );
            }
        }
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
        let Asked { waiting, ended, outcome, trouble } = asked;
        let (key, now) = (waiting.key.clone(), Instant::now());
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
    let unasked =
        |waiting, outcome, trouble| Asked { waiting, ended: Ended::Unasked, outcome, trouble };
    if !row.is_some_and(|order| wanted(&order).contains(&waiting.target)) {
        return Ok(unasked(waiting, None, None));
    }
    let call = match partners.prepare(&waiting.key, &waiting.target, shared.clock.now()) {
        None => return Ok(unasked(waiting, None, None)),
        // Nothing is wrong: its notice, which names the transaction, has not come yet.
        Some(Err(QueryError::NoRef(_))) => return Ok(unasked(waiting, Some("no_ref"), None)),
        Some(Err(error)) => {
            return Ok(unasked(waiting, Some("not_asked"), Some(error.to_string())));
        }
        Some(Ok(call)) => call,
    };
    let (ended, outcome, trouble) = match call.make(|| shared.clock.now()).await {
        Queried::Told(Told::Pending) => (Ended::Answered, "pending", None),
        Queried::Told(Told::Unknown) => (Ended::Answered, "unknown", None),
        Queried::Told(Told::Ended(answer)) => {
            let (outcome, trouble) = learn(shared, &waiting, answer).await?;
            (Ended::Answered, outcome, trouble)
        }
        Queried::Wrong(rule) => {
            let trouble = format!("the answer breaks the rule {}", rule.name());
            (Ended::Answered, "wrong_answer", Some(trouble))
        }
        Queried::Busy(ms) => {
            let trouble = match ms {
                Some(ms) => format!("it wants to be left alone for {} s", ms / 1_000),
                None => "it wants to be left alone".to_owned(),
            };
            (Ended::Busy(ms), "busy", Some(trouble))
        }
        Queried::Refused(status) => {
            (Ended::Failed, "refused", Some(format!("the partner answered {status}")))
        }
        Queried::Unanswered(why) => (Ended::Failed, "unanswered", Some(why)),
    };
    Ok(Asked { waiting, ended, outcome: Some(outcome), trouble })
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
