//! Owns what people decide on quarantined notices: `payfold.notice.decided.v1`, as it stands on the `findings` topic beside
//! their other decisions, and what a released notice carries in `intake`. A decision names the stored bytes it was made on
//! by their digest; nothing in `quarantine` is ever edited. Changes within v1 are additive.

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decision::{WITHDRAWN, is_none_before, repeat_suffix};
use crate::digest::Digest;
use crate::ids::{Author, KeyId, OrderKey, RequestId};
use crate::record::{Position, QuarantineRecord};
use crate::sealed::Delivery;
use crate::time::Time;

/// The CloudEvents type.
pub const NOTICE_DECIDED_TYPE: &str = "payfold.notice.decided.v1";

/// Why a refused notice may be admitted after all: which rule no longer speaks against it.
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
    /// A clock was wrong, ours or the partner's: its time is not judged again.
    #[n(0)]
    ClockFixed,
    /// The partner sent old bytes again after an outage: its time is not judged again.
    #[n(1)]
    LateRetry,
    /// The partner's profile has been mended and takes it now, every rule included.
    #[n(2)]
    ProfileFixed,
}

impl Because {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClockFixed => "clock-fixed",
            Self::LateRetry => "late-retry",
            Self::ProfileFixed => "profile-fixed",
        }
    }

    /// Whether it sets aside the rule on time, and no other.
    pub fn is_about_time(self) -> bool {
        match self {
            Self::ClockFixed | Self::LateRetry => true,
            Self::ProfileFixed => false,
        }
    }
}

/// How a notice came out of quarantine: stands with its source in `intake`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct Released {
    /// Where it stands in `quarantine`.
    #[n(0)]
    pub position: Position,
    /// The code it was refused with.
    #[n(1)]
    pub code: String,
    /// The request that brought it.
    #[n(2)]
    pub request_id: RequestId,
    /// When it came: what the validity of its key is judged by.
    #[n(3)]
    pub received_at: Time,
    /// The digest of the quarantined record.
    #[n(4)]
    pub evidence: Digest,
    /// Which rule no longer speaks against it.
    #[n(5)]
    pub because: Because,
    /// Who released it.
    #[n(6)]
    pub author: Author,
    /// Why.
    #[n(7)]
    pub reason: String,
    /// The second person, where it moves money.
    #[n(8)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Author>,
}

/// What becomes of a quarantined notice.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeVerdict {
    /// It is a fact now.
    Release,
    /// It stays what it is: evidence.
    Dismiss,
}

impl NoticeVerdict {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dismiss => "dismiss",
        }
    }
}

/// The data of `payfold.notice.decided.v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NoticeDecided {
    /// Where it stands in `quarantine`.
    pub position: Position,
    /// `partner/merchantCode`.
    pub account: String,
    /// The code it was refused with.
    pub code: String,
    /// The request that brought it.
    pub request_id: RequestId,
    /// When it came.
    pub received_at: Time,
    /// The order it names, as far as that can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderKey>,
    /// The digest of the quarantined record.
    pub evidence: Digest,
    /// What becomes of it.
    pub verdict: NoticeVerdict,
    /// For a release: which rule no longer speaks against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<Because>,
    /// Who said so first.
    pub author: Author,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Time,
    /// The second person, where it moves money; none until there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Author>,
    /// Whether it is decided; otherwise it waits for a second person.
    pub decided: bool,
    /// How many decisions and withdrawals there were on this evidence before this decision; left out where there were none.
    #[serde(default, skip_serializing_if = "is_none_before")]
    pub decisions_before: u32,
    /// The author takes the decision back: `reason` and `at` are the withdrawal's. Left out where it is none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
}

impl NoticeDecided {
    /// The event's id: the same word of the same people on the same bytes is the same event.
    pub fn event_id(&self) -> String {
        let second = self.seconded_by.as_ref().map_or("", Author::as_str);
        let said = format!(
            "{} {} {} {} {second}{}{}",
            self.position,
            self.evidence,
            self.verdict.as_str(),
            self.author,
            repeat_suffix(self.decisions_before),
            if self.withdrawn { WITHDRAWN } else { "" }
        );
        format!("notice/{}", Digest::of_bytes(said.as_bytes()))
    }

    /// What a released notice carries; none where it is not a release.
    pub fn released(&self) -> Option<Released> {
        Some(Released {
            position: self.position,
            code: self.code.clone(),
            request_id: self.request_id,
            received_at: self.received_at,
            evidence: self.evidence,
            because: self.because.filter(|_| self.verdict == NoticeVerdict::Release)?,
            author: self.author.clone(),
            reason: self.reason.clone(),
            seconded_by: self.seconded_by.clone(),
        })
    }
}

/// A quarantined notice as its decision names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Where it stands.
    pub position: Position,
    /// The digest of the stored record.
    pub evidence: Digest,
    /// What it says.
    pub record: QuarantineRecord,
    /// The bytes exactly as they came, or those sealed.
    pub raw: Vec<u8>,
    /// The key they are sealed with; none where they are in the clear.
    pub raw_key_id: Option<KeyId>,
}

impl Quarantined {
    /// What its bytes are bound to, if they are sealed.
    pub fn delivery(&self) -> Delivery<'_> {
        let (partner, merchant_code) =
            self.record.account.split_once('/').unwrap_or((self.record.account.as_str(), ""));
        Delivery { partner, merchant_code, request_id: self.record.request_id }
    }
}
