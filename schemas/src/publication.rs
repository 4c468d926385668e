//! Owns which projection build is published to other teams: the number of its tables, and the
//! publication epoch its events carry.
//! Invariant: the epoch grows by at least one with every switch, also with one back to older
//! tables, so that subscribers, which order by (epoch, version), never take an event after a
//! rollback for an old one.

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::RequestId;
use crate::time::Time;

/// The build of which changes are published on `orders`, and its publication epoch.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Encode,
    Decode,
    JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Publication {
    /// The build: a rebuild makes a new one, with the next epoch.
    #[n(0)]
    pub build: u32,
    /// What events carry as `epoch`.
    #[n(1)]
    pub epoch: u32,
}

impl Publication {
    /// The publication before the first switch.
    pub const FIRST: Self = Self { build: 1, epoch: 1 };
}

impl Default for Publication {
    fn default() -> Self {
        Self::FIRST
    }
}

/// A marker in `intake`, one in every partition: changes after it are published from another build,
/// with a new epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct Switch {
    /// The publication from here on. A marker with an epoch that its partition already had has no
    /// effect.
    #[n(0)]
    pub publication: Publication,
    /// The request for it.
    #[n(1)]
    pub request_id: RequestId,
    /// When it was asked for.
    #[n(2)]
    pub at: Time,
}
