//! Owns the word that a damaged record is left out for good: a marker in `intake`, one in every partition, behind the
//! record it names. It names the very bytes, so that nothing else is ever left out because of it.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{Author, RequestId};
use crate::record::Position;
use crate::time::Time;

/// A record that nobody can read is left out of every fold, from here on and when the log is folded anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct Parked {
    /// The record.
    #[n(0)]
    pub parked: Position,
    /// The bytes that stand there. Where others stand, this means nothing.
    #[n(1)]
    pub digest: Digest,
    /// Who said so.
    #[n(2)]
    pub author: Author,
    /// Why.
    #[n(3)]
    pub reason: String,
    /// The request for it.
    #[n(4)]
    pub request_id: RequestId,
    /// When.
    #[n(5)]
    pub at: Time,
}

impl Parked {
    /// Whether it is about these bytes at this place.
    pub fn is_of(&self, position: Position, bytes: &[u8]) -> bool {
        self.parked == position && self.digest == Digest::of_bytes(bytes)
    }
}
