//! Owns the marker in `intake` that leaves out a damaged record for good. It is in every partition
//! of the epoch that was the newest when it was written. It names the record's bytes by their
//! digest, so that no other record is ever left out because of it. A person's proposal to do so
//! has the same content in a record of another kind, which no reader acts on.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{Author, RequestId};
use crate::position::Position;
use crate::time::Time;

/// Leaves an unreadable record out of every fold: from here on, and in every rebuild.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct Parked {
    /// The record.
    #[n(0)]
    pub parked: Position,
    /// The digest of the record's bytes. The marker has no effect on other bytes.
    #[n(1)]
    pub digest: Digest,
    /// Who parked the record, or proposes to.
    #[n(2)]
    pub author: Author,
    /// The reason that the person gave.
    #[n(3)]
    pub reason: String,
    /// The request for it.
    #[n(4)]
    pub request_id: RequestId,
    /// When the person parked the record.
    #[n(5)]
    pub at: Time,
    /// The second person, who agreed. `None` in a proposal, and in a marker from before two people
    /// were needed.
    #[n(6)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Author>,
    /// The reason that the second person gave.
    #[n(7)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_reason: Option<String>,
}

impl Parked {
    /// Whether it is about these bytes at this place.
    pub fn is_of(&self, position: Position, bytes: &[u8]) -> bool {
        self.parked == position && self.digest == Digest::of_bytes(bytes)
    }

    /// The names of who parked the record, or proposes to.
    pub fn people(&self) -> String {
        match &self.seconded_by {
            Some(second) => format!("{} and {second}", self.author),
            None => self.author.to_string(),
        }
    }
}
