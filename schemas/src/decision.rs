//! Owns `payfold.flag.decided.v1`: a person's word on a flag of an order, as it stands on the `findings` topic beside the
//! findings. The first word on a critical flag waits there for a second person's; the whole decision is the fact D in
//! `intake`. Changes within v1 are additive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::fact::Verdict;
use crate::ids::{Author, OrderKey};
use crate::order::Flag;
use crate::time::Time;

/// The CloudEvents type.
pub const FLAG_DECIDED_TYPE: &str = "payfold.flag.decided.v1";

/// The data of `payfold.flag.decided.v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlagDecided {
    /// `partner/merchantCode/orderId`.
    pub order: OrderKey,
    /// Which flag.
    pub flag: Flag,
    /// The digest of the evidence they saw.
    pub evidence: Digest,
    /// Whose record is taken as right.
    pub accept: Verdict,
    /// Who decided first.
    pub author: Author,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Time,
    /// The second person, for what is critical; none until there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Author>,
    /// The id of the fact D; none while it waits for a second person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_id: Option<String>,
    /// How many decisions and withdrawals there were on this evidence before this decision; left out where there were none.
    #[serde(default, skip_serializing_if = "is_none_before")]
    pub decisions_before: u32,
    /// The author takes the decision back: `reason` and `at` are the withdrawal's. Left out where it is none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
}

impl FlagDecided {
    /// The event's id.
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

/// What an event's id ends with if the decision is taken back.
pub(crate) const WITHDRAWN: &str = " withdrawn";

/// What of an event's id tells decisions of one person apart that say the same.
pub(crate) fn repeat_suffix(decisions_before: u32) -> String {
    if decisions_before > 0 { format!(" {decisions_before}") } else { String::new() }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_none_before(decisions: &u32) -> bool {
    *decisions == 0
}
