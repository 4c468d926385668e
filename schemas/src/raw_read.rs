//! Owns the word that somebody has read the bytes of a notice as they came: `payfold.raw.read.v1`, on `findings` beside what
//! people decide. It is told before the bytes are given out. Changes within v1 are additive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{Author, RequestId};
use crate::record::Position;
use crate::time::Time;

/// The CloudEvents type.
pub const RAW_READ_TYPE: &str = "payfold.raw.read.v1";

/// The data of `payfold.raw.read.v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawRead {
    /// Whose notice: `partner/merchantCode`.
    pub account: String,
    /// The topic it stands in: `intake` or `quarantine`.
    pub topic: String,
    /// Where it stands there.
    pub position: Position,
    /// The request its record is named by.
    pub request_id: RequestId,
    /// Who read it.
    pub author: Author,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Time,
}

impl RawRead {
    /// The event's id: each reading is one.
    pub fn event_id(&self) -> String {
        let Self { topic, position, author, .. } = self;
        let read = format!("{topic} {position} {author} {}", self.at.unix_nanos());
        format!("raw/{}", Digest::of_bytes(read.as_bytes()))
    }
}
