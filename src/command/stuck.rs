//! `payfold order stuck`: the orders with an outcome that partners are queried for, computed from
//! the store as the reconciler does. Also the query status of a single order, for other listings.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_engines::orders::{Cursor, Page, Scan};
use payfold_kit::search;
use payfold_reconciler::schedule::Schedule;
use payfold_reconciler::stuck::{QueryReason, query_reasons, unconfirmed_notices};
use payfold_schemas::finding::{Code, FindingChanged};
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode};
use payfold_schemas::order::{Order, OrderState};
use payfold_schemas::time::Time;
use serde::Serialize;
use serde_json::{Value, json};

use super::ledger::read_ledger;
use crate::args::{OutputArgs, OutputFormat, PageArgs};
use crate::listing::{Listing, Row};
use crate::settings::Loaded;
use crate::wiring::Engines;
use crate::{keys, output, queries};

const PAGE: usize = 500;
/// How long an order is still listed after its last query (a day).
const AFTERWARDS_MS: i64 = 24 * 3_600 * 1_000;

/// The schedule of queries, and the partners that can be queried.
pub(crate) struct QuerySchedule {
    schedule: Schedule,
    /// Codes of the partners that can be queried.
    partners: Vec<String>,
    now: Time,
}

/// The status of the queries about an order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueryStatus {
    /// The order's state or flag that a query can settle.
    reason: String,
    /// When the schedule of its queries starts.
    since: Time,
    /// Number of queries that are due so far; `None` if the partner can't be queried.
    queries_due: Option<usize>,
    /// Number of queries in all; `None` if the partner can't be queried.
    queries_planned: Option<usize>,
    /// When the next query is due; `None` after the last.
    next_query: Option<Time>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StuckRow<'a> {
    #[serde(flatten)]
    query: QueryStatus,
    partner: &'a PartnerCode,
    merchant_code: &'a MerchantCode,
    order_id: &'a OrderId,
    state: OrderState,
    findings: Vec<&'a str>,
    #[serde(skip)]
    codes: Vec<Code>,
}

impl<'a> StuckRow<'a> {
    fn of(order: &'a Order, query: QueryStatus, findings: &'a [FindingChanged]) -> Self {
        Self {
            query,
            partner: &order.key.partner,
            merchant_code: &order.key.merchant_code,
            order_id: &order.key.order_id,
            state: order.summary.state,
            findings: findings.iter().map(|finding| finding.finding_id.as_str()).collect(),
            codes: findings.iter().map(|finding| finding.code).collect(),
        }
    }
}

impl Row for StuckRow<'_> {
    const COLUMNS: &'static str = "order state reason since queried next_query findings";

    fn shown(&self, column: &str, _format: OutputFormat) -> Option<Value> {
        let QueryStatus { queries_due, queries_planned, .. } = self.query;
        Some(match column {
            "order" => format!("{}/{}/{}", self.partner, self.merchant_code, self.order_id).into(),
            "queried" => match queries_due.zip(queries_planned) {
                Some((due, planned)) => format!("{due} of {planned}").into(),
                None => "not queried".into(),
            },
            "findings" => json!(self.codes),
            _ => return None,
        })
    }
}

impl QuerySchedule {
    /// Loads schedule and partners from settings and profiles.
    pub(crate) fn of(loaded: &Loaded) -> anyhow::Result<Self> {
        let schedule = queries::schedule(&loaded.settings, loaded.origin())?;
        Ok(Self { schedule, partners: partners(loaded)?, now: SystemClock.now() })
    }

    /// The status of the queries about an order; `None` if it is not stuck.
    pub(crate) async fn of_order(
        &self,
        engines: &Engines,
        order: &Order,
    ) -> anyhow::Result<Option<QueryStatus>> {
        let Some((reason, since)) = stuck(engines, order).await? else { return Ok(None) };
        let (schedule, now) = (&self.schedule, self.now);
        let can_be_queried = self.partners.iter().any(|code| code == order.key.partner.as_str());
        Ok(Some(QueryStatus {
            reason,
            since,
            queries_due: can_be_queried.then(|| schedule.due_count(since, now)),
            queries_planned: can_be_queried.then(|| schedule.query_count()),
            next_query: schedule.next_due(since, now).filter(|_| can_be_queried),
        }))
    }
}

impl QueryStatus {
    /// The text of a table cell.
    pub(crate) fn in_words(&self) -> String {
        let next = self
            .next_query
            .map_or("no further query".to_owned(), |next| format!("next {}", output::time(next)));
        let since = output::time(self.since);
        match self.queries_due.zip(self.queries_planned) {
            None => format!("{}; the partner can't be queried", self.reason),
            Some((due, planned)) => {
                format!("{} since {since}: queried {due} of {planned} times, {next}", self.reason)
            }
        }
    }
}

/// Prints the stuck orders among those that are young enough to be queried about.
pub(crate) async fn list(
    loaded: &Loaded,
    engines: &Engines,
    partner: Option<&str>,
    (page, output): (&PageArgs, &OutputArgs),
) -> anyhow::Result<()> {
    let queries = QuerySchedule::of(loaded)?;
    let ledger = read_ledger(&*engines.log).await?;
    let now = queries.now;
    let length_ms = queries.schedule.last_due(Time::from_unix_ms(0)).unix_ms();
    let from = now.plus_ms(-length_ms).plus_ms(-AFTERWARDS_MS);
    let scan = Scan::Created { from, until: now };
    let mut listing = Listing::of::<StuckRow<'_>>(output.output);
    let (mut rows, mut after) = (0, page.after.clone().map(Cursor));
    loop {
        let limit = PAGE.min(page.limit);
        let Page { entries, next } =
            engines.store()?.scan(scan.clone(), after.take(), limit).await?;
        let keys = entries.into_iter().map(|(key, _)| key);
        let keys = keys.filter(|key| partner.is_none_or(|only| key.partner.as_str() == only));
        for order in engines.store()?.load(keys.collect()).await?.into_iter().flatten() {
            let Some(query) = queries.of_order(engines, &order).await? else { continue };
            listing.row(&StuckRow::of(&order, query, &ledger.of_order(&order.key)?))?;
            rows += 1;
        }
        match next {
            Some(cursor) if rows >= page.limit => {
                output::error_line(&format!("more: --after {}", cursor.0));
                return listing.print();
            }
            Some(cursor) => after = Some(cursor),
            None => return listing.print(),
        }
    }
}

/// Codes of the partners that can be queried.
fn partners(loaded: &Loaded) -> anyhow::Result<Vec<String>> {
    let profiles = keys::profiles_in_force(&loaded.settings, loaded.origin())?;
    let asked = profiles
        .iter()
        .filter(|profile| queries::can_be_queried(&loaded.settings, profile, loaded.origin()));
    Ok(asked.map(|profile| profile.partner().to_string()).collect())
}

/// Why an order is stuck, and when the schedule of its queries starts: at the receipt of a notice
/// that waits for confirmation, else at the order's creation.
async fn stuck(engines: &Engines, order: &Order) -> anyhow::Result<Option<(String, Time)>> {
    let why = |reasons: &[QueryReason]| {
        reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    if let Some(waiting) = unconfirmed_notices(order).last() {
        let found = search::message_at(&*engines.log, Topic::Intake, waiting.position).await?;
        let since = found.as_ref().map(search::received_at).transpose()?;
        let why = why(&[QueryReason::State(OrderState::Unconfirmed)]);
        return Ok(Some((why, since.flatten().unwrap_or(order.first_seen))));
    }
    let reasons = query_reasons(order);
    Ok((!reasons.is_empty()).then(|| (why(&reasons), order.first_seen)))
}
