//! Owns the topics as shops may read them: CloudEvents 1.0 in structured mode, one a line, of the shop's accounts only.
//! The header `Payfold-Next` says where to go on: nothing is read twice and nothing is left out, whatever was filtered.

use std::fmt::Write as _;
use std::time::Duration;

use actix_web::HttpResponse;
use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, Extent, Topic};
use payfold_partners::shops::ShopEntry;
use payfold_schemas::event::SOURCE;
use payfold_schemas::ids::{MerchantCode, PartnerCode};
use payfold_schemas::record::Position;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::answer::NO_STORE;
use crate::call::Call;
use crate::checkout::Checkout;
use crate::problem::{Problem, kinds};
use crate::read::WAIT_S_MAX;

/// The header that says where to go on.
pub(crate) const NEXT: &str = "Payfold-Next";
/// Lines of an answer, asked for and at most.
pub(crate) const LINES: usize = 500;
pub(crate) const LINES_MAX: usize = 1_000;
/// Events looked at for one answer: of a busy system most may be other shops'.
const LOOKED_AT_MAX: usize = 10_000;
/// Between two looks for something new.
const POLL: Duration = Duration::from_millis(100);

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
pub struct CloudEvent<'a> {
    /// Always `1.0`.
    specversion: &'static str,
    /// Names the event for ever: what has been seen under this id can be dropped.
    id: &'a str,
    /// Always `payfold`.
    source: &'static str,
    /// The event's type with its major version, such as `payfold.order.changed.v1`.
    r#type: &'a str,
    /// The order, `partner/merchantCode/orderId`, or what a finding is about.
    subject: &'a str,
    /// When what it tells happened; RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    time: &'a str,
    /// Always `application/json`.
    datacontenttype: &'static str,
    /// Where it stands in the topic; what `after` takes.
    position: String,
    /// As the type's JSON Schema says.
    #[schemars(with = "serde_json::Value", extend("type" = "object"))]
    data: &'a RawValue,
}

/// Whose an event is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    partner: PartnerCode,
    merchant_code: MerchantCode,
}

/// `GET /v1/topics/{topic}`
pub(crate) async fn topic(call: &mut Call) -> Result<HttpResponse, Problem> {
    let shop = call.shop()?;
    let name = call.request.match_info().get("topic").unwrap_or_default();
    let topic = TOPICS.into_iter().find(|topic| topic.name() == name);
    let topic = topic.ok_or_else(|| Problem::new(&kinds::NOT_FOUND))?;
    let query: TopicQuery = call.query()?;
    let limit = query.limit.unwrap_or(LINES);
    if !(1..=LINES_MAX).contains(&limit) {
        let detail = format!("limit is 1 to {LINES_MAX}");
        return Err(Problem::new(&kinds::BAD_PARAMETER).because(detail));
    }
    let checkout = &call.checkout;
    let extents = checkout.parts.log.extent(topic).await;
    let extents = extents.map_err(|error| checkout.facts.failed(&error))?;
    let places = start(query.after.as_deref(), &extents)?;
    let mut page = Page { checkout, shop: &shop, topic, places, limit, lines: 0, text: Vec::new() };
    page.read().await.map_err(|error| checkout.facts.failed(&error))?;
    if let Some(seconds) = query.wait.filter(|seconds| *seconds > 0 && page.lines == 0) {
        let seat = checkout.feed.seat();
        let _seat = seat.ok_or_else(|| Problem::new(&kinds::TOO_MANY_FOLLOWERS))?;
        let wait = Duration::from_secs(seconds.min(WAIT_S_MAX));
        page.wait(wait).await.map_err(|error| checkout.facts.failed(&error))?;
    }
    Ok(HttpResponse::Ok()
        .content_type("application/x-ndjson")
        .insert_header(NO_STORE)
        .insert_header((NEXT, written(&page.places)))
        .body(page.text))
}

/// The lines of one answer, and how far the topic was read for them.
struct Page<'a> {
    checkout: &'a Checkout,
    shop: &'a ShopEntry,
    topic: Topic,
    places: Vec<Position>,
    limit: usize,
    lines: usize,
    text: Vec<u8>,
}

impl Page<'_> {
    /// Reads on until the answer is full, the topic ends or enough was looked at; each partition in its turn.
    async fn read(&mut self) -> Result<(), EngineError> {
        let mut looked_at = 0;
        let mut ended = 0;
        let mut turn = 0;
        while ended < self.places.len() && self.lines < self.limit && looked_at < LOOKED_AT_MAX {
            let partition = turn % self.places.len();
            let share = ((self.limit - self.lines) / self.places.len()).max(1);
            let log = &self.checkout.parts.log;
            let events = log.read_after(self.topic, self.places[partition], share).await?;
            ended = if events.len() < share { ended + 1 } else { 0 };
            looked_at += events.len();
            for event in events {
                self.add(&event)?;
                self.places[partition] = event.position;
            }
            turn += 1;
        }
        Ok(())
    }

    /// Looks again until there is a line, the time is over or the process drains.
    async fn wait(&mut self, wait: Duration) -> Result<(), EngineError> {
        let until = Instant::now() + wait;
        let drained = self.checkout.drained();
        let mut drained = std::pin::pin!(drained);
        while self.lines == 0 && Instant::now() < until {
            tokio::select! {
                () = &mut drained => break,
                () = tokio::time::sleep(POLL) => self.read().await?,
            }
        }
        Ok(())
    }

    /// Adds an event as a line, if it is the shop's. Errors: `Corrupt`, it is no event.
    fn add(&mut self, event: &Delivered) -> Result<(), EngineError> {
        let corrupt = |what: &str| {
            let (topic, position) = (self.topic.name(), event.position);
            EngineError::Corrupt(format!("the message at {position} of {topic} has no {what}"))
        };
        let owner: Option<Owner> = serde_json::from_slice(&event.value).ok();
        // What names no account is no shop's.
        let Some(owner) = owner else { return Ok(()) };
        if !self.shop.may_see(&owner.partner, &owner.merchant_code) {
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
            data: serde_json::from_slice(&event.value).map_err(|_| corrupt("JSON data"))?,
        };
        serde_json::to_writer(&mut self.text, &line).map_err(|_| corrupt("plain data"))?;
        self.text.push(b'\n');
        self.lines += 1;
        Ok(())
    }
}

/// Where to start, partition by partition: after the positions given, else at the beginning.
fn start(after: Option<&str>, extents: &[Extent]) -> Result<Vec<Position>, Problem> {
    let bad = |detail: String| Problem::new(&kinds::BAD_POSITION).because(detail);
    let mut given = Vec::new();
    for text in after.unwrap_or_default().split(',').filter(|text| !text.is_empty()) {
        let position: Position = text.parse().map_err(|error| bad(format!("{error}")))?;
        let extent = extents.iter().find(|extent| extent.partition == position.partition);
        let extent = extent.ok_or_else(|| bad("there is no such partition".to_owned()))?;
        if position.offset > extent.last {
            return Err(bad("it is behind the topic's end".to_owned()));
        }
        if position.offset.saturating_add(1) < extent.first {
            return Err(Problem::new(&kinds::POSITION_GONE).because(format!(
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
            let beginning =
                Position { partition: extent.partition, offset: extent.first.saturating_sub(1) };
            named.copied().unwrap_or(beginning)
        })
        .collect())
}

/// Positions as `after` takes them.
fn written(places: &[Position]) -> String {
    let mut text = String::new();
    for place in places {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing into a String can't fail.
        let _ = write!(text, "{comma}{place}");
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
    fn reading_starts_where_it_was_left() {
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
            let told = match start(after, &extents) {
                Ok(places) => written(&places),
                Err(problem) => problem.code().to_owned(),
            };
            assert_eq!(told, expected, "{after:?}");
        }
    }
}
