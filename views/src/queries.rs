//! Owns the status of the queries about an order: why its partner is queried, and when.

use payfold_engines::log::{EventLog, Topic};
use payfold_kit::search;
use payfold_reconciler::schedule::Schedule;
use payfold_reconciler::stuck::{QueryReason, query_reasons, unconfirmed_notices};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::order::{Order, OrderState};
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ReadError;
use crate::listing::moment;

/// The schedule of queries, and the partners that can be queried.
#[derive(Clone, Debug)]
pub struct QueryRules {
    /// When a partner is queried about an order.
    pub schedule: Schedule,
    /// The partners that can be queried.
    pub partners: Vec<PartnerCode>,
}

/// The status of the queries about an order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueryStatus {
    /// The order's state or flag that a query can settle.
    pub reason: String,
    /// When the schedule of its queries starts.
    pub since: Time,
    /// The number of queries that are due so far; `None` if the partner can't be queried.
    pub queries_due: Option<usize>,
    /// The number of queries in all; `None` if the partner can't be queried.
    pub queries_planned: Option<usize>,
    /// When the next query is due; `None` after the last.
    pub next_query: Option<Time>,
}

impl QueryStatus {
    /// The status of the queries about an order, as the text of a table cell.
    pub fn in_words(&self) -> String {
        let next = self
            .next_query
            .map_or("no further query".to_owned(), |next| format!("next {}", moment(next)));
        let since = moment(self.since);
        match self.queries_due.zip(self.queries_planned) {
            None => format!("{}; the partner can't be queried", self.reason),
            Some((due, planned)) => {
                format!("{} since {since}: {due} of {planned} queries due, {next}", self.reason)
            }
        }
    }
}

impl QueryRules {
    /// The status of the queries about an order at `now`; `None` if it is not stuck. Errors: the
    /// log's; a newer program wrote the record.
    pub(crate) async fn status_of(
        &self,
        log: &dyn EventLog,
        order: &Order,
        now: Time,
    ) -> Result<Option<QueryStatus>, ReadError> {
        let Some((reason, since)) = stuck(log, order).await? else { return Ok(None) };
        let schedule = &self.schedule;
        let can_be_queried = self.partners.contains(&order.key.partner);
        Ok(Some(QueryStatus {
            reason,
            since,
            queries_due: can_be_queried.then(|| schedule.due_count(since, now)),
            queries_planned: can_be_queried.then(|| schedule.query_count()),
            next_query: schedule.next_due(since, now).filter(|_| can_be_queried),
        }))
    }
}

/// Why an order is stuck, and when the schedule of its queries starts: at the receipt of a notice
/// that waits for confirmation, else at the order's creation.
async fn stuck(log: &dyn EventLog, order: &Order) -> Result<Option<(String, Time)>, ReadError> {
    let why = |reasons: &[QueryReason]| {
        reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    if let Some(waiting) = unconfirmed_notices(order).last() {
        let found = search::message_at(log, Topic::Intake, waiting.position).await?;
        let since = found.as_ref().map(search::received_at).transpose();
        let since =
            since.map_err(|error| ReadError::of_record(Topic::Intake, waiting.position, error))?;
        let why = why(&[QueryReason::State(OrderState::Unconfirmed)]);
        return Ok(Some((why, since.flatten().unwrap_or(order.first_seen))));
    }
    let reasons = query_reasons(order);
    Ok((!reasons.is_empty()).then(|| (why(&reasons), order.first_seen)))
}
