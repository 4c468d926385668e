//! Owns the reading of topics by shops: CloudEvents 1.0 in structured mode, one a line, of the
//! shop's accounts only. The header `Payfold-Next` is the position to go on after. With it no event
//! is read twice and none is missed, however many were filtered out.

use std::fmt::Write as _;
use std::time::Duration;

use actix_web::HttpResponse;
use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, Extent, Topic, walk};
use payfold_partners::shops::ShopEntry;
use payfold_schemas::event::SOURCE;
use payfold_schemas::ids::{MerchantCode, PartnerCode};
use payfold_schemas::position::Position;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::answer::NO_STORE;
use crate::checkout::Checkout;
use crate::problem::{Problem, kinds};
use crate::read::WAIT_S_MAX;
use crate::shop_request::ShopRequest;

/// The header with the positions to go on after.
pub(crate) const NEXT: &str = "Payfold-Next";
/// Lines of an answer by default, and at most.
pub(crate) const LINES_DEFAULT: usize = 500;
pub(crate) const LINES_MAX: usize = 1_000;
/// The most events read for one answer: in a busy system most events may be other shops'.
const EVENTS_READ_MAX: usize = 10_000;
/// The pause between two reads while a request waits for a line.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The topics shops may read.
pub(crate) const TOPICS: [Topic; 2] = [Topic::Orders, Topic::Findings];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicQuery {
    after: Option<String>,
    limit: Option<usize>,
    wait: Option<u64>,
}

/// One event of a topic (CloudEvents 1.0, structured mode, JSON), as one line.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CloudEvent<'a> {
    /// The CloudEvents version, always `1.0`.
    specversion: &'static str,
    /// Identifies the event for ever: a second event with the same id can be dropped.
    id: &'a str,
    /// Always `payfold`.
    source: &'static str,
    /// The event's type with its major version, such as `payfold.order.changed.v1`.
    r#type: &'a str,
    /// The order, `partner/merchantCode/orderId`, or what a finding is about.
    subject: &'a str,
    /// When the event happened (RFC 3339).
    #[schemars(extend("format" = "date-time"))]
    time: &'a str,
    /// Always `application/json`.
    datacontenttype: &'static str,
    /// The position in the topic, as `after` takes it.
    position: String,
    /// The data, by the JSON Schema of the type.
    #[schemars(with = "serde_json::Value", extend("type" = "object"))]
    data: &'a RawValue,
}

/// The account an event is about.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventAccount {
    partner: PartnerCode,
    merchant_code: MerchantCode,
}

/// `GET /v1/topics/{topic}`
pub(crate) async fn topic(request: &mut ShopRequest) -> Result<HttpResponse, Problem> {
    let shop = request.authenticate_shop()?;
    let name = request.http.match_info().get("topic").unwrap_or_default();
    let topic = TOPICS.into_iter().find(|topic| topic.name() == name);
    let topic = topic.ok_or_else(|| Problem::new(&kinds::NOT_FOUND))?;
    let query: TopicQuery = request.parse_query()?;
    let limit = query.limit.unwrap_or(LINES_DEFAULT);
    if !(1..=LINES_MAX).contains(&limit) {
        let detail = format!("limit must be 1 to {LINES_MAX}");
        return Err(Problem::new(&kinds::BAD_PARAMETER).with_detail(detail));
    }
    let checkout = &request.checkout;
    let extents = checkout.parts.log.extent(topic).await;
    let extents = extents.map_err(|error| checkout.fact_log.note_read_failure(&error))?;
    let positions = start_positions(query.after.as_deref(), &extents)?;
    let (lines, text) = (0, Vec::new());
    let mut page = TopicPage { checkout, shop: &shop, topic, positions, limit, lines, text };
    page.read_lines().await.map_err(|error| checkout.fact_log.note_read_failure(&error))?;
    if let Some(seconds) = query.wait.filter(|seconds| *seconds > 0 && page.lines == 0) {
        let permit = checkout.feed.acquire_permit();
        let _permit = permit.ok_or_else(|| Problem::new(&kinds::TOO_MANY_FOLLOWERS))?;
        let wait = Duration::from_secs(seconds.min(WAIT_S_MAX));
        page.wait_for_line(wait)
            .await
            .map_err(|error| checkout.fact_log.note_read_failure(&error))?;
    }
    Ok(HttpResponse::Ok()
        .content_type("application/x-ndjson")
        .insert_header(NO_STORE)
        .insert_header((NEXT, format_positions(&page.positions)))
        .body(page.text))
}

/// The lines of one answer, and how far the topic was read for them.
struct TopicPage<'a> {
    checkout: &'a Checkout,
    shop: &'a ShopEntry,
    topic: Topic,
    positions: Vec<Position>,
    limit: usize,
    lines: usize,
    text: Vec<u8>,
}

impl TopicPage<'_> {
    /// Reads on, one partition after the other, until the answer is full, the topic ends or enough
    /// events were read.
    async fn read_lines(&mut self) -> Result<(), EngineError> {
        let mut events_read = 0;
        let mut ended = 0;
        let mut reads = 0;
        while ended < self.positions.len()
            && self.lines < self.limit
            && events_read < EVENTS_READ_MAX
        {
            let index = reads % self.positions.len();
            // Each partition gets an equal part of the free lines, so that a busy one does not keep
            // the events of the others back.
            let page_size = ((self.limit - self.lines) / self.positions.len()).max(1);
            let log = &self.checkout.parts.log;
            let events = log.read_after(self.topic, self.positions[index], page_size).await?;
            ended = if events.len() < page_size { ended + 1 } else { 0 };
            events_read += events.len();
            for event in events {
                self.add_line(&event)?;
                self.positions[index] = event.position;
            }
            reads += 1;
        }
        Ok(())
    }

    /// Reads again until there is a line, the time is over or the drain begins.
    async fn wait_for_line(&mut self, wait: Duration) -> Result<(), EngineError> {
        let until = Instant::now() + wait;
        let drained = self.checkout.drained();
        let mut drained = std::pin::pin!(drained);
        while self.lines == 0 && Instant::now() < until {
            tokio::select! {
                () = &mut drained => break,
                () = tokio::time::sleep(POLL_INTERVAL) => self.read_lines().await?,
            }
        }
        Ok(())
    }

    /// Adds an event as a line, if it is the shop's. Errors: `Corrupt`, the message is no event.
    fn add_line(&mut self, event: &Delivered) -> Result<(), EngineError> {
        let corrupt = |what: &str| {
            let (topic, position) = (self.topic.name(), event.position);
            EngineError::Corrupt(format!("the message at {position} of {topic} has no {what}"))
        };
        // An event that no role wrote counts for no shop, and one that names no account is of none.
        let Ok(value) = event.authentic_value() else { return Ok(()) };
        let account: Option<EventAccount> = serde_json::from_slice(value).ok();
        let Some(account) = account else { return Ok(()) };
        if !self.shop.may_see(&account.partner, &account.merchant_code) {
            return Ok(());
        }
        let attributes = event.event.as_ref().ok_or_else(|| corrupt("CloudEvents attributes"))?;
        let line = CloudEvent {
            specversion: "1.0",
            id: &attributes.id,
            source: SOURCE,
            r#type: &attributes.kind,
            subject: &event.key,
            time: &attributes.time,
            datacontenttype: "application/json",
            position: event.position.to_string(),
            data: serde_json::from_slice(value).map_err(|_| corrupt("JSON data"))?,
        };
        serde_json::to_writer(&mut self.text, &line).map_err(|_| corrupt("plain data"))?;
        self.text.push(b'\n');
        self.lines += 1;
        Ok(())
    }
}

/// The positions to read after, one for each partition: the given ones, else the beginning.
fn start_positions(after: Option<&str>, extents: &[Extent]) -> Result<Vec<Position>, Problem> {
    let bad = |detail: String| Problem::new(&kinds::BAD_POSITION).with_detail(detail);
    let mut given = Vec::new();
    for text in after.unwrap_or_default().split(',').filter(|text| !text.is_empty()) {
        let position: Position = text.parse().map_err(|error| bad(format!("{error}")))?;
        let extent = extents.iter().find(|extent| extent.partition == position.partition);
        let extent = extent.ok_or_else(|| bad("the topic has no such partition".to_owned()))?;
        if position.offset > extent.last {
            return Err(bad("the position is after the end of the topic".to_owned()));
        }
        if position.offset.saturating_add(1) < extent.first {
            return Err(Problem::new(&kinds::POSITION_GONE).with_detail(format!(
                "the first event kept is {}-{}",
                extent.partition, extent.first
            )));
        }
        if given.iter().any(|other: &Position| other.partition == position.partition) {
            return Err(bad("a partition is named twice".to_owned()));
        }
        given.push(position);
    }
    Ok(extents
        .iter()
        .map(|extent| {
            let named = given.iter().find(|position| position.partition == extent.partition);
            named.copied().unwrap_or_else(|| walk::before(extent))
        })
        .collect())
}

/// Formats positions as `after` takes them.
fn format_positions(positions: &[Position]) -> String {
    let mut text = String::new();
    for position in positions {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing into a String can't fail.
        let _ = write!(text, "{comma}{position}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(partition: u32, first: u64, last: u64) -> Extent {
        Extent { partition, first, last, bytes: None }
    }

    #[test]
    fn reading_starts_after_the_given_positions() {
        let extents = [extent(0, 1, 9), extent(1, 5, 20), extent(2, 0, 0)];
        for (after, expected) in [
            (None, "0-0,1-4,2-0"),
            (Some(""), "0-0,1-4,2-0"),
            (Some("0-9,1-12,2-0"), "0-9,1-12,2-0"),
            (Some("1-12"), "0-0,1-12,2-0"),
            (Some("7"), "0-7,1-4,2-0"),
            (Some("1-4"), "0-0,1-4,2-0"),
            (Some("0-10"), "bad_position"),
            (Some("3-1"), "bad_position"),
            (Some("2-1"), "bad_position"),
            (Some("0-1,0-2"), "bad_position"),
            (Some("nonsense"), "bad_position"),
            (Some("0--1"), "bad_position"),
            (Some("1-3"), "position_gone"),
            (Some("1-0"), "position_gone"),
        ] {
            let outcome = match start_positions(after, &extents) {
                Ok(positions) => format_positions(&positions),
                Err(problem) => problem.code().to_owned(),
            };
            assert_eq!(outcome, expected, "{after:?}");
        }
    }
}
