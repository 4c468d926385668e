//! Owns the rendering of a topic's messages: JSON for programs, one line for people. The bytes of
//! notices are never shown, only their number.

use payfold_engines::log::Delivered;
use payfold_schemas::event::{ORDER_CHANGED_TYPE, OrderChanged, SOURCE};
use payfold_schemas::ids::KeyId;
use payfold_schemas::ipn::Status;
use payfold_schemas::parked::Parked;
use payfold_schemas::publication::Publication;
use payfold_schemas::record::{Parts, Record};
use payfold_schemas::time::Time;
use payfold_views::facts::mask;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message as JSON output shows it.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum ShownMessage {
    /// An event, as a structured CloudEvent.
    Event(ShownEvent),
    /// A record, decoded into its parts.
    Record(Box<ShownRecord>),
    /// A damaged record.
    Damaged(DamagedRecord),
}

/// A CloudEvent with its position.
#[derive(Serialize)]
pub(crate) struct ShownEvent {
    specversion: &'static str,
    id: String,
    source: &'static str,
    #[serde(rename = "type")]
    kind: String,
    time: String,
    subject: String,
    datacontenttype: &'static str,
    position: String,
    data: Value,
}

/// A record with its position.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownRecord {
    #[serde(flatten)]
    parts: Parts,
    position: String,
    raw_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_key_id: Option<KeyId>,
    #[serde(skip)]
    key: String,
}

/// A damaged record, of which only position and key are known.
#[derive(Serialize)]
pub(crate) struct DamagedRecord {
    position: String,
    key: String,
    unreadable: String,
}

impl ShownMessage {
    /// Decodes a message. Errors: a newer program wrote the record.
    pub(crate) fn of(message: &Delivered) -> anyhow::Result<Self> {
        let (position, key) = (message.position.to_string(), message.key.clone());
        if let Some(event) = &message.event {
            return Ok(Self::Event(ShownEvent {
                specversion: "1.0",
                id: event.id.clone(),
                source: SOURCE,
                kind: event.kind.clone(),
                time: event.time.clone(),
                subject: key,
                datacontenttype: "application/json",
                position,
                data: serde_json::from_slice(&message.value)?,
            }));
        }
        let Record { mut parts, raw, raw_key_id } = match Record::decode(&message.value) {
            Err(error) if !error.is_newer() => {
                let unreadable = error.to_string();
                return Ok(Self::Damaged(DamagedRecord { position, key, unreadable }));
            }
            decoded => decoded?,
        };
        match &mut parts {
            Parts::Fact(fact) => {
                fact.source.iter_mut().for_each(|source| mask(&mut source.request));
            }
            Parts::Quarantine(notice) => mask(&mut notice.source.request),
            Parts::Switch(_) | Parts::Parked(_) => {}
        }
        let raw_bytes = raw.len();
        Ok(Self::Record(Box::new(ShownRecord { parts, position, raw_bytes, raw_key_id, key })))
    }

    /// The message as one line for people.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Event(event) => event.line(),
            Self::Record(record) => {
                let ShownRecord { parts, position, key, .. } = &**record;
                let (at, said) = in_words(parts);
                format!("{position:<12}  {at}  {key}  {said}")
            }
            Self::Damaged(DamagedRecord { position, key, unreadable }) => {
                format!("{position:<12}  {key}  can't be read: {unreadable}")
            }
        }
    }
}

impl ShownEvent {
    fn line(&self) -> String {
        let Self { kind, time, subject, position, data, .. } = self;
        let changed = (kind == ORDER_CHANGED_TYPE).then(|| OrderChanged::deserialize(data).ok());
        let Some(change) = changed.flatten() else {
            return format!("{position:<12}  {subject}  {data}");
        };
        let before = change.previous_state.map_or("new", |state| state.as_str());
        let flags: Vec<_> = change.attention.iter().map(|flag| flag.as_str()).collect();
        let attention =
            if flags.is_empty() { String::new() } else { format!("  ! {}", flags.join(" ")) };
        let (version, state) = (change.version, change.state);
        format!("{position:<12}  {time}  {subject}  v{version}  {before} → {state}{attention}")
    }
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
        Parts::Parked(Parked { parked, author, reason, at, .. }) => {
            let said = format!("{author} parked the damaged record {parked}: {reason}");
            (*at, said)
        }
    }
}

#[cfg(test)]
mod tests {
    use payfold_engines::log::DeliveredEvent;
    use payfold_schemas::position::Position;
    use serde_json::json;

    use super::*;

    fn shown(event: Option<DeliveredEvent>, value: &[u8]) -> ShownMessage {
        let position = Position { partition: 0, offset: 7 };
        let message = Delivered { position, key: "p/M/a".to_owned(), event, value: value.to_vec() };
        ShownMessage::of(&message).unwrap()
    }

    fn stored(hexed: &str) -> ShownMessage {
        shown(None, &hex::decode(hexed.split_whitespace().collect::<String>()).unwrap())
    }

    fn changed() -> ShownMessage {
        let (id, kind) = ("p/M/a/1/3".to_owned(), ORDER_CHANGED_TYPE.to_owned());
        let event = DeliveredEvent { id, kind, time: "2026-01-31T10:00:00Z".to_owned() };
        shown(Some(event), include_bytes!("../../schemas/fixtures/order-changed.json"))
    }

    #[test]
    fn every_kind_of_message_has_a_line() {
        let damaged = shown(None, b"\x01rubbish");
        assert!(damaged.line().starts_with("0-7           p/M/a  can't be read: "));
        for (said, message) in [
            (" → ", changed()),
            ("p/M/a  ipn SUCCESS", stored(include_str!("../../schemas/fixtures/ipn-success.hex"))),
            (
                "  timestamp_skew  timestamp is ",
                stored(include_str!("../../schemas/fixtures/quarantine.hex")),
            ),
            (
                " parked the damaged record ",
                stored(include_str!("../../schemas/fixtures/parked.hex")),
            ),
            ("from here on build ", stored(include_str!("../../schemas/fixtures/switch.hex"))),
        ] {
            let line = message.line();
            assert!(
                line.starts_with("0-7           2026-") && line.contains(said),
                "{said}: {line}"
            );
        }
    }

    #[test]
    fn json_shows_an_event_as_a_cloud_event_and_hides_what_a_payer_wrote() {
        let event = json!(changed());
        assert_eq!(
            (&event["type"], &event["position"]),
            (&json!(ORDER_CHANGED_TYPE), &json!("0-7"))
        );
        assert_eq!((&event["subject"], event["data"].is_object()), (&json!("p/M/a"), true));
        let notice = json!(stored(include_str!("../../schemas/fixtures/ipn-own-scheme.hex")));
        let request = &notice["source"]["request"];
        assert!(request["target"].as_str().unwrap().ends_with("?…"), "{request}");
        let headers = request["headers"].as_array().unwrap();
        assert!(!headers.is_empty() && headers.iter().all(|header| header[1] == "…"), "{request}");
        assert!(notice["rawBytes"].is_u64() && notice.get("key").is_none(), "{notice}");
    }
}
