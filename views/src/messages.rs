//! Owns the messages of a topic as rows: JSON for programs, one line for people. The bytes of
//! notices are never shown, only their number.

use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, DeliveredEvent, Extent, Topic, walk};
use payfold_kit::search;
use payfold_schemas::event::{ORDER_CHANGED_TYPE, OrderChanged, SOURCE};
use payfold_schemas::ipn::Status;
use payfold_schemas::parked::Parked;
use payfold_schemas::position::Position;
use payfold_schemas::publication::Publication;
use payfold_schemas::record::{Parts, Record, RecordError};
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ReadError;
use crate::facts::mask;
use crate::reader::Reader;

/// The most messages of one page.
pub const MESSAGES_MAX: usize = 500;

/// A message of a topic.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MessageRow {
    /// The message as one line for people.
    pub line: String,
    /// The message with its position: an event as a structured CloudEvent, a record in its parts,
    /// or what is known of a damaged record.
    pub message: Value,
}

/// Which messages of a topic to list, oldest first in each partition.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListMessages {
    /// Only messages of this partner.
    pub partner: Option<String>,
    /// Only messages from this time on, if `after` is absent.
    pub since: Option<Time>,
    /// `next` of the previous page; or one position, such as 0-1234: then partitions before it are
    /// read from their end on, and those behind it from their beginning.
    pub after: Option<String>,
    /// How many messages are looked at, at most 500, which is the default, but one of each
    /// partition at least.
    pub limit: Option<usize>,
}

/// A page of messages. It may have fewer than the limit, and none, while there are more.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessagePage {
    /// The messages.
    pub messages: Vec<MessageRow>,
    /// Where the next page starts: a topic has no end.
    pub next: String,
    /// Whether the topic has more messages now.
    pub has_more: bool,
}

/// The content of a message.
pub(crate) enum MessageContent {
    /// The data of an event.
    Event(DeliveredEvent, Value),
    /// A record.
    Record(Box<Record>),
    /// Why a record can't be decoded: it is damaged.
    Damaged(RecordError),
}

impl MessageContent {
    /// Decodes a message. Errors: `Newer`; `Corrupt` for an event that is not JSON.
    pub(crate) fn of(topic: Topic, message: &Delivered) -> Result<Self, ReadError> {
        if let Some(event) = &message.event {
            let value = match message.authentic_value() {
                Ok(value) => value,
                Err(problem) => return Ok(Self::Damaged(problem.into())),
            };
            let data = serde_json::from_slice(value);
            let data = data.map_err(|error| corrupt(topic, message, &error))?;
            return Ok(Self::Event(event.clone(), data));
        }
        match message.record() {
            Ok(record) => Ok(Self::Record(Box::new(record))),
            Err(error) if error.is_newer() => Err(ReadError::Newer(error)),
            Err(error) => Ok(Self::Damaged(error)),
        }
    }
}

/// The error for an event that can't be parsed.
pub(crate) fn corrupt(topic: Topic, message: &Delivered, error: &serde_json::Error) -> ReadError {
    let (topic, position) = (topic.name(), message.position);
    EngineError::Corrupt(format!("the event {topic} {position} can't be parsed: {error}")).into()
}

impl MessageRow {
    /// A message with its decoded content.
    pub(crate) fn of(message: &Delivered, content: MessageContent) -> Self {
        let (position, key) = (message.position.to_string(), &message.key);
        match content {
            MessageContent::Event(event, data) => Self {
                line: event_line(message, &event, &data),
                message: json!({
                    "specversion": "1.0", "id": event.id, "source": SOURCE, "type": event.kind,
                    "time": event.time, "subject": key, "datacontenttype": "application/json",
                    "position": position, "data": data,
                }),
            },
            MessageContent::Damaged(error) => Self {
                line: format!("{position:<12}  {key}  can't be read: {error}"),
                message: json!({
                    "position": position, "key": key, "unreadable": error.to_string(),
                }),
            },
            MessageContent::Record(record) => {
                let Record { mut parts, raw, raw_key_id } = *record;
                match &mut parts {
                    Parts::Fact(fact) => {
                        fact.source.iter_mut().for_each(|source| mask(&mut source.request));
                    }
                    Parts::Quarantine(notice) => mask(&mut notice.source.request),
                    Parts::Switch(_) | Parts::Parked(_) | Parts::ParkingProposed(_) => {}
                }
                let (at, said) = in_words(&parts);
                let mut shown = json!(parts);
                shown["position"] = json!(position);
                shown["rawBytes"] = json!(raw.len());
                if let Some(raw_key_id) = raw_key_id {
                    shown["rawKeyId"] = json!(raw_key_id);
                }
                let line = format!("{position:<12}  {at}  {key}  {said}");
                Self { line, message: shown }
            }
        }
    }
}

fn event_line(message: &Delivered, event: &DeliveredEvent, data: &Value) -> String {
    let (position, key) = (message.position.to_string(), &message.key);
    let is_change = event.kind == ORDER_CHANGED_TYPE;
    let Some(change) = is_change.then(|| OrderChanged::deserialize(data).ok()).flatten() else {
        return format!("{position:<12}  {key}  {data}");
    };
    let before = change.previous_state.map_or("new", |state| state.as_str());
    let flags: Vec<_> = change.attention.iter().map(|flag| flag.as_str()).collect();
    let attention =
        if flags.is_empty() { String::new() } else { format!("  ! {}", flags.join(" ")) };
    let (time, version, state) = (&event.time, change.version, change.state);
    format!("{position:<12}  {time}  {key}  v{version}  {before} → {state}{attention}")
}

fn of_parking(marker: &Parked, did: &str) -> String {
    let Parked { parked, reason, .. } = marker;
    format!("{} {did} the damaged record {parked}: {reason}", marker.people())
}

/// The receipt time and a short text of a record.
fn in_words(parts: &Parts) -> (Time, String) {
    match parts {
        Parts::Fact(fact) => {
            let word = fact.fact.status().map_or("", Status::as_str);
            (fact.received_at, format!("{} {word}", fact.fact.kind()))
        }
        Parts::Quarantine(notice) => {
            (notice.received_at, format!("{}  {}", notice.code, notice.detail))
        }
        Parts::Switch(switch) => {
            let Publication { build, epoch } = switch.publication;
            let said = format!("from here on build {build} is published, under epoch {epoch}");
            (switch.at, said)
        }
        Parts::Parked(marker) => (marker.at, of_parking(marker, "parked")),
        Parts::ParkingProposed(marker) => (marker.at, of_parking(marker, "proposed to park")),
    }
}

impl Reader {
    /// Lists the messages of a topic. Each page looks at every partition, so that a busy one does
    /// not hold up the others. Errors: the log's; a newer program wrote a record; a cursor that is
    /// none.
    pub async fn messages(
        &self,
        topic: Topic,
        asked: &ListMessages,
    ) -> Result<MessagePage, ReadError> {
        let mut places = self.places(topic, asked).await?;
        let limit = asked.limit.unwrap_or(MESSAGES_MAX).clamp(1, MESSAGES_MAX);
        let extents = self.log.extent(topic).await?;
        let has_more = |place: &&mut Position| {
            let extent = extents.iter().find(|extent| extent.partition == place.partition);
            extent.is_some_and(|extent| extent.last > place.offset)
        };
        let mut behind: Vec<_> = places.iter_mut().filter(has_more).collect();
        let of_each = (limit / behind.len().max(1)).max(1);
        let mut page = MessagePage::default();
        for place in &mut behind {
            let found = self.log.read_after(topic, **place, of_each).await?;
            page.has_more |= found.len() == of_each;
            for message in &found {
                let content = match MessageContent::of(topic, message) {
                    Ok(content) => content,
                    // What comes before it is shown first.
                    Err(_) if !page.messages.is_empty() => {
                        page.has_more = true;
                        break;
                    }
                    Err(error) => return Err(error),
                };
                **place = message.position;
                let partner = message.key.split('/').next();
                if asked.partner.as_deref().is_none_or(|only| partner == Some(only)) {
                    page.messages.push(MessageRow::of(message, content));
                }
            }
        }
        page.next = places.iter().map(Position::to_string).collect::<Vec<_>>().join(",");
        Ok(page)
    }

    /// Where each partition is read from.
    async fn places(&self, topic: Topic, asked: &ListMessages) -> Result<Vec<Position>, ReadError> {
        let log = &*self.log;
        let Some(after) = &asked.after else {
            return Ok(match asked.since {
                Some(since) => search::positions_before(log, topic, since).await?,
                None => walk::starts(log, topic).await?,
            });
        };
        let known = after.split(',').map(parse_position).collect::<Result<Vec<_>, _>>()?;
        if let [position] = known[..] {
            return Ok(walk::places_to_follow_after(log, topic, position).await?);
        }
        let place = |extent: &Extent| {
            let known = known.iter().find(|place| place.partition == extent.partition);
            known.copied().unwrap_or_else(|| walk::before(extent))
        };
        Ok(log.extent(topic).await?.iter().map(place).collect())
    }
}

/// Parses the position that a cursor names. Errors: `Invalid`.
pub(crate) fn parse_position(text: &str) -> Result<Position, EngineError> {
    let parsed = text.parse::<Position>();
    parsed.map_err(|error| EngineError::Invalid(format!("{text}: {error}")))
}

#[cfg(test)]
mod tests {
    use payfold_engines::log::{Authenticity, Message};
    use payfold_schemas::finding::FINDING_CHANGED_TYPE;

    use super::*;
    use crate::testbed::{Testbed, event};

    #[tokio::test]
    async fn a_topic_is_listed_in_pages_and_goes_on() {
        let bed = Testbed::new();
        let named = |key: &str, n: u32| Message {
            key: key.to_owned(),
            ..event(FINDING_CHANGED_TYPE, format!("{key}{n}"), &json!({ "n": n }))
        };
        let three = vec![named("acme/A/o", 1), named("other/A/o", 2), named("acme/A/o", 3)];
        bed.append(Topic::Findings, three).await;
        let asked =
            ListMessages { partner: Some("acme".into()), limit: Some(2), ..Default::default() };
        let list = async |after: Option<String>| {
            let asked = ListMessages { after, ..asked.clone() };
            let page = bed.reader.messages(Topic::Findings, &asked).await.unwrap();
            let found = page.messages.iter().map(|row| row.message["data"]["n"].clone());
            (found.collect::<Vec<_>>(), page.next, page.has_more)
        };
        assert_eq!(list(None).await, (vec![json!(1)], "0-2".to_owned(), true));
        assert_eq!(list(Some("0-2".into())).await, (vec![json!(3)], "0-3".to_owned(), false));
        assert_eq!(list(Some("0-3".into())).await, (vec![], "0-3".to_owned(), false));
        bed.append(Topic::Findings, vec![named("acme/A/o", 4)]).await;
        // A cursor that names several partitions goes on in the one that is there.
        assert_eq!(list(Some("0-3,1-7".into())).await, (vec![json!(4)], "0-4".to_owned(), false));
        let wrong = ListMessages { after: Some("x".to_owned()), ..Default::default() };
        let refused = bed.reader.messages(Topic::Findings, &wrong).await.unwrap_err();
        assert!(matches!(refused, ReadError::Engine(EngineError::Invalid(_))), "{refused}");
    }

    fn shown(event: Option<DeliveredEvent>, value: &[u8]) -> MessageRow {
        let position = Position { partition: 0, offset: 7 };
        let message = Delivered {
            position,
            key: "p/M/a".to_owned(),
            event,
            value: value.to_vec(),
            authenticity: Authenticity::Unchecked(None),
        };
        MessageRow::of(&message, MessageContent::of(Topic::Orders, &message).unwrap())
    }

    fn stored(hexed: &str) -> MessageRow {
        shown(None, &hex::decode(hexed.split_whitespace().collect::<String>()).unwrap())
    }

    fn changed() -> MessageRow {
        let (id, kind) = ("p/M/a/1/3".to_owned(), ORDER_CHANGED_TYPE.to_owned());
        let event = DeliveredEvent { id, kind, time: "2026-01-31T10:00:00Z".to_owned() };
        shown(Some(event), include_bytes!("../../schemas/fixtures/order-changed.json"))
    }

    #[test]
    fn every_kind_of_message_has_a_line() {
        let damaged = shown(None, b"\x01rubbish");
        assert!(damaged.line.starts_with("0-7           p/M/a  can't be read: "));
        for (said, message) in [
            (" → ", changed()),
            ("p/M/a  ipn SUCCESS", stored(include_str!("../../schemas/fixtures/ipn-success.hex"))),
            (
                "  timestamp_skew  timestamp is ",
                stored(include_str!("../../schemas/fixtures/quarantine.hex")),
            ),
            (
                "  mai parked the damaged record ",
                stored(include_str!("../../schemas/fixtures/parked.hex")),
            ),
            (
                "  mai and linh parked the damaged record ",
                stored(include_str!("../../schemas/fixtures/parked-by-two.hex")),
            ),
            (
                "  mai proposed to park the damaged record ",
                stored(include_str!("../../schemas/fixtures/parking-proposed.hex")),
            ),
            ("from here on build ", stored(include_str!("../../schemas/fixtures/switch.hex"))),
        ] {
            let line = message.line;
            assert!(
                line.starts_with("0-7           2026-") && line.contains(said),
                "{said}: {line}"
            );
        }
    }

    #[test]
    fn json_shows_an_event_as_a_cloud_event_and_hides_what_a_payer_wrote() {
        let event = changed().message;
        assert_eq!(
            (&event["type"], &event["position"]),
            (&json!(ORDER_CHANGED_TYPE), &json!("0-7"))
        );
        assert_eq!((&event["subject"], event["data"].is_object()), (&json!("p/M/a"), true));
        let notice = stored(include_str!("../../schemas/fixtures/ipn-own-scheme.hex")).message;
        let request = &notice["source"]["request"];
        assert!(request["target"].as_str().unwrap().ends_with("?…"), "{request}");
        let headers = request["headers"].as_array().unwrap();
        assert!(!headers.is_empty() && headers.iter().all(|header| header[1] == "…"), "{request}");
        assert!(notice["rawBytes"].is_u64() && notice.get("key").is_none(), "{notice}");
    }
}
