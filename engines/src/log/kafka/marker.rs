//! Owns the marker: the first message of every partition of every topic, written when the topic is made.
//! It says which log the partition belongs to and how many partitions there are, so that a topic that was made
//! anew or belongs to another log is noticed before anything is appended or folded, and so that keys stay where they
//! are when somebody adds partitions.
//! Invariant: a marker stands at offset 0 and is never delivered; so every message's offset is at least 1.

use serde::{Deserialize, Serialize};

/// The Kafka header a marker is known by, and its CloudEvents type; its value is the marker as JSON.
pub(super) const TYPE_HEADER: &str = "ce_type";
pub(super) const MARKER_TYPE: &str = "payfold.topic.opened.v1";

/// What a partition begins with. Subscribers of a topic ignore it, as every type they don't know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Marker {
    /// The log's random id, hex.
    #[serde(with = "hex::serde")]
    pub log_id: [u8; 16],
    /// The topic's name in the log: `intake`, …
    pub topic: String,
    /// The epoch of the topic.
    pub epoch: u32,
    /// How many partitions the topic was made with.
    pub partitions: u32,
}

impl Marker {
    /// The marker's bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a marker has string keys only")
    }

    /// Reads a marker. None for what is none.
    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_written_for_people_too() {
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
