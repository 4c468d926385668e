//! Owns the word for which fold is told to other teams: the tables it stands in, and the number its events carry.
//! Invariant: the number grows by one with every switch, also with one back to older tables, so that subscribers, who
//! order by (generation, version), never take what comes after a rollback for something old.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::ids::RequestId;
use crate::time::Time;

/// Whose changes are told on `orders`, and under which number.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Encode, Decode,
)]
#[serde(rename_all = "camelCase")]
pub struct Publication {
    /// Which tables: a rebuild makes new ones, and gives them the next number of their own.
    #[n(0)]
    pub tables: u32,
    /// What events carry as `generation`.
    #[n(1)]
    pub number: u32,
}

impl Publication {
    /// What is told before the first switch.
    pub const FIRST: Self = Self { tables: 1, number: 1 };
}

impl Default for Publication {
    fn default() -> Self {
        Self::FIRST
    }
}

/// A marker in `intake`, one in every partition: what stands after it is told by other tables, under a new number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct Switch {
    /// What is told from here on. One with a number that was there before in its partition means nothing.
    #[n(0)]
    pub publication: Publication,
    /// The request for it.
    #[n(1)]
    pub request_id: RequestId,
    /// When it was asked for.
    #[n(2)]
    pub at: Time,
}
