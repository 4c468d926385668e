//! Owns `payfold.finding.changed.v1`: a difference between what this system knows and what a partner's records say, as
//! other teams read it on the `findings` topic. A finding is named by a digest of what it is about, so whoever finds it
//! finds the same one; each change of it is the next version. Changes within v1 are additive.

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::fact::Verdict;
use crate::ids::{Author, EventRef, MerchantCode, OrderId, PartnerCode, ProviderRef, Reference};
use crate::ipn::Status;
use crate::money::{Amount, Currency};
use crate::order::{Flag, Severity};
use crate::time::Time;

/// The CloudEvents type.
pub const FINDING_CHANGED_TYPE: &str = "payfold.finding.changed.v1";

/// What kind of difference a finding is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The partner lists money of an order that is not known here.
    MissingHere,
    /// Money is known here that the partner does not list.
    MissingThere,
    /// Both know the payment and say different things of what became of it.
    StatusDiffers,
    /// Both know the payment, with different amounts.
    AmountDiffers,
    /// Both know the payment, in different currencies.
    CurrencyDiffers,
    /// Both know the order, with different refs of its payment.
    RefDiffers,
    /// Both know the payment, at times too far apart.
    TimeDiffers,
    /// The partner lists one payment twice.
    DuplicatedThere,
    /// Paid so near to the end of the partner's day that the next day's records may list it.
    CutOff,
    /// The partner lists the payment on another day than it was made on here, and not a neighbouring one.
    OtherDay,
    /// Two attempts of one reference are both paid.
    ReferencePaidTwice,
    /// One nonce came with two contents.
    NonceReused,
    /// The partner lists one ref under two orders.
    RefOnTwoOrders,
    /// The partner lists payments of a day and sent no notice of any.
    PartnerSilent,
    /// An order of the day has a flag of high or critical severity that nobody has decided; `flag` says which.
    OpenFlag,
}

impl Code {
    /// Every code.
    pub const ALL: [Code; 15] = [
        Self::MissingHere,
        Self::MissingThere,
        Self::StatusDiffers,
        Self::AmountDiffers,
        Self::CurrencyDiffers,
        Self::RefDiffers,
        Self::TimeDiffers,
        Self::DuplicatedThere,
        Self::CutOff,
        Self::OtherDay,
        Self::ReferencePaidTwice,
        Self::NonceReused,
        Self::RefOnTwoOrders,
        Self::PartnerSilent,
        Self::OpenFlag,
    ];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingHere => "MISSING_HERE",
            Self::MissingThere => "MISSING_THERE",
            Self::StatusDiffers => "STATUS_DIFFERS",
            Self::AmountDiffers => "AMOUNT_DIFFERS",
            Self::CurrencyDiffers => "CURRENCY_DIFFERS",
            Self::RefDiffers => "REF_DIFFERS",
            Self::TimeDiffers => "TIME_DIFFERS",
            Self::DuplicatedThere => "DUPLICATED_THERE",
            Self::CutOff => "CUT_OFF",
            Self::OtherDay => "OTHER_DAY",
            Self::ReferencePaidTwice => "REFERENCE_PAID_TWICE",
            Self::NonceReused => "NONCE_REUSED",
            Self::RefOnTwoOrders => "REF_ON_TWO_ORDERS",
            Self::PartnerSilent => "PARTNER_SILENT",
            Self::OpenFlag => "OPEN_FLAG",
        }
    }

    /// Reads the word on the wire. `None` for any other word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == word)
    }

    /// How loud such a finding is. Of OPEN_FLAG the loudest it can be: each such finding is as loud as its flag.
    pub fn severity(self) -> Severity {
        match self {
            Self::MissingHere
            | Self::MissingThere
            | Self::StatusDiffers
            | Self::AmountDiffers
            | Self::CurrencyDiffers
            | Self::RefOnTwoOrders
            | Self::ReferencePaidTwice
            | Self::OpenFlag => Severity::Critical,
            Self::RefDiffers | Self::DuplicatedThere | Self::NonceReused | Self::PartnerSilent => {
                Severity::High
            }
            Self::TimeDiffers | Self::OtherDay => Severity::Warn,
            Self::CutOff => Severity::Info,
        }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where a finding stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum FindingStatus {
    /// Nobody has decided it and its cause is there.
    Open,
    /// A person has decided it on exactly this evidence.
    Decided,
    /// Its cause has gone.
    Cleared,
}

impl FindingStatus {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Decided => "decided",
            Self::Cleared => "cleared",
        }
    }
}

/// What one side says, and where it says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// What it says; `nothing` if it says nothing.
    pub value: String,
    /// Ours: the order. The partner's: file and line, or `query`.
    pub source: String,
}

/// One line of a partner's records, as the profile reads it.
#[derive(
    Clone,
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
pub struct BookLine {
    /// Its number in the file, from 1.
    #[n(0)]
    pub line: u64,
    /// The account it is of.
    #[n(1)]
    pub merchant_code: MerchantCode,
    /// Our order, if the records name it.
    #[n(2)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_id: Option<OrderId>,
    /// The partner's transaction.
    #[n(3)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ProviderRef>,
    /// What became of it.
    #[n(4)]
    pub status: Status,
    /// Minor units.
    #[n(5)]
    pub amount: Amount,
    /// ISO 4217.
    #[n(6)]
    pub currency: Currency,
    /// When the partner booked it.
    #[n(7)]
    pub at: Time,
    /// When it was paid, if the records say so beside.
    #[n(8)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paid_at: Option<Time>,
    /// The partner's own name of this event.
    #[n(9)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_ref: Option<EventRef>,
}

/// What a person decided of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingDecision {
    /// Whose record is taken as right.
    pub accept: Verdict,
    /// Who decided first.
    pub author: Author,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Time,
    /// The digest of the evidence they saw.
    pub evidence: Digest,
    /// The second person, for what is critical; none until there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Author>,
}

/// How a first decision ended that no second person agreed with.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DecisionEnd {
    /// Its author took it back.
    Withdrawn,
    /// Somebody decided something else, which took its place.
    Replaced,
}

impl DecisionEnd {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Withdrawn => "withdrawn",
            Self::Replaced => "replaced",
        }
    }
}

/// A first decision on the same evidence that stands no longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EarlierDecision {
    /// Whose record was to be taken as right.
    pub accept: Verdict,
    /// Who decided so.
    pub author: Author,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Time,
    /// How it ended.
    pub ended: DecisionEnd,
    /// Who withdrew it, or decided something else.
    pub ended_by: Author,
    /// When.
    pub ended_at: Time,
    /// Why it was withdrawn; none where it was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_reason: Option<String>,
}

/// The data of `payfold.finding.changed.v1`. Amounts are minor units; times RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingChanged {
    /// A digest of what it is about, 32 hex digits.
    pub finding_id: String,
    /// Counts the changes of this finding from 1.
    pub version: u32,
    /// Where it stands.
    pub status: FindingStatus,
    /// What differs.
    pub code: Code,
    /// How loud.
    pub severity: Severity,
    /// Whose records.
    pub partner: PartnerCode,
    /// Which account; null where it is about all of them.
    pub merchant_code: Option<MerchantCode>,
    /// Which order; null where none is known.
    pub order_id: Option<OrderId>,
    /// The shop's reference.
    pub reference: Option<Reference>,
    /// The partner's transaction.
    pub payment_ref: Option<ProviderRef>,
    /// The field that differs, in the contract's words.
    pub field: Option<String>,
    /// The order's flag that is open; only of OPEN_FLAG.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<Flag>,
    /// What is known here.
    pub ours: Side,
    /// What the partner says.
    pub partners: Side,
    /// Minor units that may be lost, doubled or made up.
    pub money_at_risk: i64,
    /// Of `money_at_risk`.
    pub currency: Option<Currency>,
    /// The partner's day it was first found on, `2026-01-31`.
    pub day: String,
    /// When it was first seen.
    pub first_seen: Time,
    /// The run that opened, changed or cleared it; none where a person or an order's change did. A later run that sees it
    /// unchanged in other records makes a version that cites those, and is not named here.
    pub run: Option<String>,
    /// A digest of all that it stands on: a decision holds as long as this is the same.
    pub evidence: Digest,
    /// The partner's lines of that order or ref.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<BookLine>,
    /// What was decided; with `status` open it waits for the second person.
    pub decision: Option<FindingDecision>,
    /// First decisions on this evidence that were withdrawn or replaced, oldest first; the last 32 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_decisions: Vec<EarlierDecision>,
    /// What a person should do next.
    pub action: String,
}

impl FindingChanged {
    /// The event's id: subscribers drop what they have seen.
    pub fn event_id(&self) -> String {
        format!("{}/{}", self.finding_id, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_word() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert_eq!(Code::parse(code.as_str()), Some(code));
        }
        assert_eq!(Code::parse("missing_here"), None);
        for status in [FindingStatus::Open, FindingStatus::Decided, FindingStatus::Cleared] {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }
}
