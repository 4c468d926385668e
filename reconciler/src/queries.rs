//! Owns the query loop. The queries that `windows` and `unconfirmed` find due are queued by partner
//! and made within the partner's pace. A partner's answer that a payment has ended is appended to
//! intake as `QueryAnswered`.
//!
//! Invariants: an order is asked about only while its row, read again just before the call, still
//! needs an answer. An answer that the order knows already is not appended. A query changes nothing
//! at the partner, and `QueryAnswered` is identified by its content. So a crash, a repeat or a
//! second instance costs one more query and does no other harm.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use payfold_kit::Halt;
use payfold_partners::query::PaymentStatus;
use payfold_partners::remote::query::{QueryError, QueryOutcome};
use payfold_reconcile::question::{PartnerReply, PaymentQuestion, QueryTarget};
use payfold_schemas::fact::{Fact, QueryAnswer};
use payfold_schemas::ids::{OrderKey, PartnerCode};
use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::context::ReconcilerContext;
use crate::partners::{Partners, UnconfirmedNotices};
use crate::query_queue::{QueryEnd, QueryPurpose, QueryQueue, QueuedQuery};
use crate::stuck::{has_unexpected_money, is_news, is_wanted};
use crate::{unconfirmed, windows};

/// How many queries may wait between the tasks that find them and the queues.
const CHANNEL_MAX: usize = 1_024;
/// How often the metric of the oldest query is set.
const GAUGE_INTERVAL: Duration = Duration::from_secs(1);

/// Finds due queries, makes them and appends the answers, until the role is signalled to stop.
/// `questions` are put by reconciliation and get a reply each.
pub(crate) async fn run_queries(
    context: &ReconcilerContext,
    partners: &Partners,
    questions: Receiver<PaymentQuestion>,
) -> Result<(), Halt> {
    let (due, found) = mpsc::channel(CHANNEL_MAX);
    let watch_notices = async {
        match partners.unconfirmed {
            UnconfirmedNotices::Never => Ok(()),
            UnconfirmedNotices::Possible => {
                unconfirmed::watch_notices(context, partners, due.clone()).await
            }
        }
    };
    let (queues, calls, replies) = (BTreeMap::new(), FuturesUnordered::new(), HashMap::new());
    let query_loop = QueryLoop { context, partners, queues, calls, replies };
    let walk_windows = windows::walk_windows(context, partners, due.clone());
    tokio::try_join!(walk_windows, watch_notices, query_loop.run(found, questions)).map(|_| ())
}

/// A query that has ended.
struct EndedQuery {
    query: QueuedQuery,
    end: QueryEnd,
    reply: PartnerReply,
    /// The outcome, as it is counted; `None` if the order no longer needed an answer.
    outcome: Option<&'static str>,
    /// What to log.
    trouble: Option<String>,
}

/// Whether a query was queued.
enum Enqueued {
    Queued,
    NoRoom,
}

type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<EndedQuery, Halt>> + Send + 'a>>;

struct QueryLoop<'a> {
    context: &'a ReconcilerContext,
    partners: &'a Partners,
    queues: BTreeMap<PartnerCode, QueryQueue>,
    calls: FuturesUnordered<CallFuture<'a>>,
    /// The questions that wait for the reply to a query.
    replies: HashMap<(OrderKey, QueryTarget), Vec<oneshot::Sender<PartnerReply>>>,
}

impl QueryLoop<'_> {
    async fn run(
        mut self,
        mut found: Receiver<QueuedQuery>,
        mut questions: Receiver<PaymentQuestion>,
    ) -> Result<(), Halt> {
        let mut gauges = tokio::time::interval(GAUGE_INTERVAL);
        loop {
            let next = self.start_queries();
            let next_at = next.unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                () = self.context.storage.stopped() => return Ok(()),
                Some(ended) = self.calls.next() => self.finish_query(ended?),
                // A query that finds no room is found again at the next time of its schedule.
                Some(query) = found.recv() => drop(self.enqueue(query)),
                Some(question) = questions.recv() => self.accept_question(question),
                () = tokio::time::sleep_until(next_at), if next.is_some() => {}
                _ = gauges.tick() => self.set_oldest_gauge(),
            }
            let waiting = self.queues.values().map(QueryQueue::len).sum();
            self.context.metrics.set_queries_waiting(waiting);
        }
    }

    fn accept_question(&mut self, question: PaymentQuestion) {
        let PaymentQuestion { key, target, due, reply } = question;
        let query = QueuedQuery { key, target, due, purpose: QueryPurpose::Reconciliation };
        let id = (query.key.clone(), query.target.clone());
        self.replies.entry(id.clone()).or_default().push(reply);
        if self.partners.query_pace(&query.key.partner).is_none() {
            let reply = PartnerReply::Trouble("the partner can't be asked any more".to_owned());
            return self.send_replies(&id, &reply);
        }
        if let Enqueued::NoRoom = self.enqueue(query) {
            let reply = PartnerReply::Trouble("too many queries are queued already".to_owned());
            self.send_replies(&id, &reply);
        }
    }

    fn send_replies(&mut self, id: &(OrderKey, QueryTarget), reply: &PartnerReply) {
        for sender in self.replies.remove(id).into_iter().flatten() {
            // Its receiver is dropped if the question was given up meanwhile.
            let _ = sender.send(reply.clone());
        }
    }

    fn enqueue(&mut self, query: QueuedQuery) -> Enqueued {
        let partner = query.key.partner.clone();
        let Some(pace) = self.partners.query_pace(&partner) else { return Enqueued::NoRoom };
        let new_queue = || QueryQueue::new(pace, Instant::now());
        let queue = self.queues.entry(partner.clone()).or_insert_with(new_queue);
        queue.set_pace(pace);
        if queue.push(query) {
            return Enqueued::Queued;
        }
        self.context.metrics.count_query(&partner, "put_off");
        if queue.should_log("put_off", Instant::now()) {
            tracing::warn!(
                partner = %partner,
                "the queue of queries to a partner is full; further orders are asked about at the \
                 next time of their schedule (logged once a minute)"
            );
        }
        Enqueued::NoRoom
    }

    /// Starts the queries that may start now; returns when the next may.
    fn start_queries(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let mut soonest = None;
        for queue in self.queues.values_mut() {
            while let Some(query) = queue.start_next(now) {
                self.calls.push(Box::pin(make_query(self.context, self.partners, query)));
            }
            soonest = [soonest, queue.ready_at()].into_iter().flatten().min();
        }
        soonest
    }

    fn finish_query(&mut self, ended: EndedQuery) {
        let EndedQuery { query, end, reply, outcome, trouble } = ended;
        let (key, now) = (query.key.clone(), Instant::now());
        // A query to a busy partner is made again: its questions go on waiting.
        if !matches!(end, QueryEnd::Busy(_)) {
            self.send_replies(&(key.clone(), query.target.clone()), &reply);
        }
        let queue = self.queues.get_mut(&key.partner).expect("the query came from this queue");
        queue.finish(query, end, now);
        let Some(outcome) = outcome else { return };
        self.context.metrics.count_query(&key.partner, outcome);
        if let Some(trouble) = trouble
            && queue.should_log(outcome, now)
        {
            tracing::warn!(
                partner = %key.partner,
                order.id = %key.order_id,
                outcome,
                "a query to a partner has trouble: {trouble} (logged once a minute for each \
                 partner and outcome)"
            );
        }
    }

    fn set_oldest_gauge(&self) {
        let oldest = self.queues.values().filter_map(QueryQueue::oldest_due).min();
        let now = self.context.storage.clock.now();
        let waited_ms = oldest.map_or(0, |due| now.unix_ms().saturating_sub(due.unix_ms()));
        let waited = Duration::from_millis(waited_ms.max(0).unsigned_abs());
        self.context.metrics.set_oldest_query_age(waited);
    }
}

/// Makes one query: reads the row, calls the partner and appends its answer if the order needs it.
async fn make_query(
    context: &ReconcilerContext,
    partners: &Partners,
    query: QueuedQuery,
) -> Result<EndedQuery, Halt> {
    let keys = [query.key.clone()];
    let row = context.storage.load(&keys).await?.pop().flatten();
    let is_wanted = row.is_some_and(|order| is_wanted(&order, &query.target));
    let not_sent = |query, reply, outcome, trouble| {
        let end = QueryEnd::NotSent;
        Ok(EndedQuery { query, end, reply, outcome, trouble })
    };
    let not_needed = || PartnerReply::Trouble("the query was not needed any more".to_owned());
    if !is_wanted && query.purpose == QueryPurpose::StuckOrder {
        return not_sent(query, not_needed(), None, None);
    }
    let now = context.storage.clock.now();
    let call = match partners.prepare_query(&query.key, &query.target, now) {
        None => return not_sent(query, not_needed(), None, None),
        // Not an error: the notice that names the transaction has not come yet.
        Some(Err(QueryError::NoRef(_))) => {
            return not_sent(query, PartnerReply::NoRef, Some("no_ref"), None);
        }
        Some(Err(error)) => {
            let reason = error.to_string();
            let reply = PartnerReply::Trouble(reason.clone());
            return not_sent(query, reply, Some("not_asked"), Some(reason));
        }
        Some(Ok(call)) => call,
    };
    let queried = call.make(|| context.storage.clock.now()).await;
    let reply = reply_of(&queried);
    let (end, outcome, trouble) = match queried {
        QueryOutcome::Answered(PaymentStatus::Pending) => (QueryEnd::Answered, "pending", None),
        QueryOutcome::Answered(PaymentStatus::Unknown) => (QueryEnd::Answered, "unknown", None),
        QueryOutcome::Answered(PaymentStatus::Terminal(answer)) if is_wanted => {
            let (outcome, trouble) = append_answer(context, &query.key, answer).await?;
            (QueryEnd::Answered, outcome, trouble)
        }
        // Only reconciliation asked; the order does not need the answer.
        QueryOutcome::Answered(PaymentStatus::Terminal(_)) => {
            (QueryEnd::Answered, "compared", None)
        }
        QueryOutcome::Invalid(_) => (QueryEnd::Answered, "wrong_answer", trouble_of(&reply)),
        QueryOutcome::Busy(ms) => (QueryEnd::Busy(ms), "busy", trouble_of(&reply)),
        QueryOutcome::Refused(_) => (QueryEnd::Failed, "refused", trouble_of(&reply)),
        QueryOutcome::Unanswered(_) => (QueryEnd::Failed, "unanswered", trouble_of(&reply)),
    };
    Ok(EndedQuery { query, end, reply, outcome: Some(outcome), trouble })
}

/// The reply to the question that caused a query.
fn reply_of(queried: &QueryOutcome) -> PartnerReply {
    PartnerReply::Trouble(match queried {
        QueryOutcome::Answered(status) => return PartnerReply::Answered(status.clone()),
        QueryOutcome::Invalid(rule) => format!("the answer breaks the rule {}", rule.name()),
        QueryOutcome::Busy(Some(ms)) => {
            format!("the partner asked to be called again after {} s", ms / 1_000)
        }
        QueryOutcome::Busy(None) => "the partner asked to be called later".to_owned(),
        QueryOutcome::Refused(status) => format!("the partner answered {status}"),
        QueryOutcome::Unanswered(reason) => reason.clone(),
    })
}

fn trouble_of(reply: &PartnerReply) -> Option<String> {
    match reply {
        PartnerReply::Trouble(reason) => Some(reason.clone()),
        PartnerReply::Answered(_) | PartnerReply::NoRef => None,
    }
}

/// Appends `QueryAnswered`, if the answer adds something to the order. Returns the outcome as it is
/// counted, and what to log.
async fn append_answer(
    context: &ReconcilerContext,
    key: &OrderKey,
    answer: QueryAnswer,
) -> Result<(&'static str, Option<String>), Halt> {
    // The row is read again: the partner's notice may have been folded during the call.
    let row = context.storage.load(std::slice::from_ref(key)).await?.pop().flatten();
    if row.as_ref().is_some_and(|order| !is_news(order, &answer)) {
        return Ok(("known", None));
    }
    let other_money = row.is_some_and(|order| has_unexpected_money(&order, &answer));
    let trouble = other_money.then(|| {
        format!(
            "it ended with other money: {} {} {}",
            answer.status, answer.amount, answer.currency
        )
    });
    context.storage.append(vec![(key.clone(), Fact::QueryAnswered(answer))]).await?;
    Ok((if other_money { "other_money" } else { "ended" }, trouble))
}
