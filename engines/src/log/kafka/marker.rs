//! Owns the marker: the first message of every partition of every topic, written when the topic is
//! made. It names the log that the partition belongs to, so that a topic that was made again or
//! belongs to another log is noticed before anything is appended or folded. It also records the
//! topic's partition count, so that keys keep their partitions when partitions are added.
//! Invariant: a marker has offset 0 and is never delivered, so every message's offset is at least
//! 1.

use serde::{Deserialize, Serialize};

/// The Kafka header that identifies a marker, and its value, the marker's CloudEvents type.
pub(super) const TYPE_HEADER: &str = "ce_type";
pub(super) const MARKER_TYPE: &str = "payfold.topic.opened.v1";

/// The first message of a partition, stored as JSON. Subscribers of a topic ignore it, as they
/// ignore every event type they don't know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Marker {
    /// The log's random id, hex.
    #[serde(with = "hex::serde")]
    pub log_id: [u8; 16],
    /// The topic's name in the log: `intake`, …
    pub(crate) topic: String,
    /// The log epoch of the topic.
    pub epoch: u32,
    /// How many partitions the topic was made with.
    pub partitions: u32,
}

impl Marker {
    /// Encodes the marker as JSON.
    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a marker has string keys only")
    }

    /// Decodes a marker; `None` if the bytes are not one.
    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_readable_json() {
        let marker =
            Marker { log_id: [7; 16], topic: "intake".to_owned(), epoch: 1, partitions: 8 };
        let text = String::from_utf8(marker.encode()).unwrap();
        let id = "07".repeat(16);
        assert_eq!(
            text,
            format!(r#"{{"logId":"{id}","topic":"intake","epoch":1,"partitions":8}}"#)
        );
        assert_eq!(Marker::decode(text.as_bytes()), Some(marker));
        assert_eq!(Marker::decode(b"{}"), None);
    }
}
