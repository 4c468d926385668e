//! Owns the release that a released notice's record carries in `intake`.

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{Author, RequestId};
use crate::position::Position;
use crate::time::Time;

/// Why a refused notice may be admitted after all.
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
#[serde(rename_all = "kebab-case")]
#[cbor(index_only)]
pub enum Because {
    /// A clock was wrong, Payfold's or the partner's: the notice's time is not checked again.
    #[n(0)]
    ClockFixed,
    /// The partner resent old bytes after an outage: the notice's time is not checked again.
    #[n(1)]
    LateRetry,
    /// The partner's profile was corrected, and the notice now fits every rule.
    #[n(2)]
    ProfileFixed,
}

impl Because {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClockFixed => "clock-fixed",
            Self::LateRetry => "late-retry",
            Self::ProfileFixed => "profile-fixed",
        }
    }

    /// Whether only the rule on time is skipped.
    pub fn is_about_time(self) -> bool {
        match self {
            Self::ClockFixed | Self::LateRetry => true,
            Self::ProfileFixed => false,
        }
    }
}

/// How a notice was released from quarantine; part of its source in `intake`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Released {
    /// Its position in `quarantine`.
    #[n(0)]
    pub position: Position,
    /// The code with which it was refused.
    #[n(1)]
    pub code: String,
    /// The request that brought it.
    #[n(2)]
    pub request_id: RequestId,
    /// When it was received; the validity of its key is checked for this time.
    #[n(3)]
    pub received_at: Time,
    /// The digest of the quarantined record.
    #[n(4)]
    pub evidence: Digest,
    /// Why it may be admitted after all.
    #[n(5)]
    pub because: Because,
    /// Who released it.
    #[n(6)]
    pub author: Author,
    /// The reason that the person gave.
    #[n(7)]
    pub reason: String,
    /// The second person, if it moves money.
    #[n(8)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Author>,
}
