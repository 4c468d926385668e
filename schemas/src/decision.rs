//! Owns `payfold.flag.decided.v1`: a person's decision on a flag of an order, in the `findings`
//! topic. The first decision on a critical flag waits for a second person's; the complete decision
//! is also the fact `Decided` in `intake`. Changes within v1 are additive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::fact::Verdict;
use crate::flag::Flag;
use crate::ids::{Author, OrderKey};
use crate::time::Time;

/// The CloudEvents type.
pub const FLAG_DECIDED_TYPE: &str = "payfold.flag.decided.v1";

/// The data of `payfold.flag.decided.v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlagDecided {
    /// `partner/merchantCode/orderId`.
    pub order: OrderKey,
    /// The flag that is decided.
    pub flag: Flag,
    /// The digest of the evidence that the person saw.
    pub evidence: Digest,
    /// The side that is taken as right.
    pub accept: Verdict,
    /// Who decided first.
    pub author: Author,
    /// The reason that the person gave.
    pub reason: String,
    /// When the decision was made; with `secondedBy`, when the second person agreed.
    pub at: Time,
    /// The second person of a critical decision; left out until there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Author>,
    /// The reason that the second person gave; left out while there is none, and in decisions of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_reason: Option<String>,
    /// The id of the decision in the fact `Decided`; left out while a second person is awaited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_id: Option<String>,
    /// How many decisions and withdrawals on this evidence came before the first decision; its
    /// completion and its withdrawal repeat the number. Left out if 0.
    #[serde(default, skip_serializing_if = "is_none_before")]
    pub decisions_before: u32,
    /// Whether the author takes the decision back; `reason` and `at` are then the withdrawal's.
    /// Left out if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
}

impl FlagDecided {
    /// The id of the event: the digest of order, flag, evidence, side, people, number and
    /// withdrawal. Reason and time are not in it, so an event that is published again has the same
    /// id.
    pub fn event_id(&self) -> String {
        let second = self.seconded_by.as_ref().map_or("", Author::as_str);
        let said = format!(
            "{} {} {} {} {} {second}{}{}",
            self.order,
            self.flag,
            self.evidence,
            self.accept.as_str(),
            self.author,
            repeat_suffix(self.decisions_before),
            if self.withdrawn { WITHDRAWN } else { "" }
        );
        format!("flag/{}", Digest::of_bytes(said.as_bytes()))
    }
}

/// What the text behind an event's id ends with if the decision is taken back.
pub(crate) const WITHDRAWN: &str = " withdrawn";

/// The part of the text behind an event's id that differs between a decision and an equal one
/// before it that was withdrawn.
pub(crate) fn repeat_suffix(decisions_before: u32) -> String {
    if decisions_before > 0 { format!(" {decisions_before}") } else { String::new() }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_none_before(decisions: &u32) -> bool {
    *decisions == 0
}
