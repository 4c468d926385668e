//! Owns `payfold.raw.read.v1`: a person reads the bytes of a notice as they came. The event is
//! published on `findings` before the bytes are handed out. Changes within v1 are additive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{Author, RequestId};
use crate::position::Position;
use crate::time::Time;

/// The CloudEvents type.
pub const RAW_READ_TYPE: &str = "payfold.raw.read.v1";

/// The data of `payfold.raw.read.v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RawRead {
    /// The account of the notice: `partner/merchantCode`.
    pub account: String,
    /// The topic of the notice: `intake` or `quarantine`.
    pub topic: String,
    /// The position of the notice in that topic.
    pub position: Position,
    /// The request id of the notice's record.
    pub request_id: RequestId,
    /// Who read it.
    pub author: Author,
    /// The reason that the reader gave.
    pub reason: String,
    /// When the notice was read.
    pub at: Time,
}

impl RawRead {
    /// The event's id: each reading has its own.
    pub fn event_id(&self) -> String {
        let Self { topic, position, author, .. } = self;
        let read = format!("{topic} {position} {author} {}", self.at.unix_nanos());
        format!("raw/{}", Digest::of_bytes(read.as_bytes()))
    }
}
