//! Owns people's decisions on quarantined notices: `payfold.notice.decided.v1` in the `findings`
//! topic. A decision names the stored bytes by their digest; nothing in `quarantine` is ever
//! edited. Changes within v1 are additive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decision::{WITHDRAWN, is_none_before, repeat_suffix};
use crate::digest::Digest;
use crate::ids::{Author, KeyId, OrderKey, RequestId};
use crate::position::Position;
use crate::record::QuarantineRecord;
use crate::released::{Because, Released};
use crate::sealed::Delivery;
use crate::time::Time;

/// The CloudEvents type.
pub const NOTICE_DECIDED_TYPE: &str = "payfold.notice.decided.v1";

/// A decision's verdict on a quarantined notice.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeVerdict {
    /// It becomes a fact.
    Release,
    /// It stays in quarantine as evidence.
    Dismiss,
}

impl NoticeVerdict {
    /// The name on the wire.
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
    /// The notice's position in `quarantine`.
    pub position: Position,
    /// `partner/merchantCode`.
    pub account: String,
    /// The code with which it was refused.
    pub code: String,
    /// The request that brought it.
    pub request_id: RequestId,
    /// When it came.
    pub received_at: Time,
    /// The order that it names, if that can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderKey>,
    /// The digest of the quarantined record.
    pub evidence: Digest,
    /// What happens to the notice.
    pub verdict: NoticeVerdict,
    /// For a release: why the notice may be admitted after all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<Because>,
    /// Who decided first.
    pub author: Author,
    /// The reason that the person gave.
    pub reason: String,
    /// When the person decided.
    pub at: Time,
    /// The second person of a release that moves money; left out until there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Author>,
    /// The reason that the second person gave; left out while there is none, and in decisions of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_reason: Option<String>,
    /// Whether the decision is complete; if not, it waits for a second person.
    pub decided: bool,
    /// The number of earlier decisions and withdrawals on this evidence; left out if 0.
    #[serde(default, skip_serializing_if = "is_none_before")]
    pub decisions_before: u32,
    /// Whether the author takes the decision back; `reason` and `at` are then the withdrawal's.
    /// Left out if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
}

impl NoticeDecided {
    /// The event's id: the same decision of the same people on the same bytes is the same event.
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

    /// The release as its record in `intake` carries it; `None` for a dismissal.
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

/// A quarantined notice that a person decides on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its position in `quarantine`.
    pub position: Position,
    /// The digest of the stored record.
    pub evidence: Digest,
    /// The decoded record.
    pub record: QuarantineRecord,
    /// The bytes exactly as they were received, or sealed.
    pub raw: Vec<u8>,
    /// The key that seals them; `None` if they are in the clear.
    pub raw_key_id: Option<KeyId>,
}

impl Quarantined {
    /// The delivery that its bytes are bound to, if they are sealed.
    pub fn delivery(&self) -> Delivery<'_> {
        let (partner, merchant_code) =
            self.record.account.split_once('/').unwrap_or((self.record.account.as_str(), ""));
        Delivery { partner, merchant_code, request_id: self.record.request_id }
    }
}
