//! Owns `payfold.finding.changed.v1`: a difference between what this system knows and what a
//! partner's records say, as other teams read it on the `findings` topic. A finding's id is a
//! digest of what it is about, so every run that finds it gives it the same id; each change of it
//! is the next version. Changes within v1 are additive.

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::fact::Verdict;
use crate::ids::{
    Author, EventRef, MerchantCode, OrderId, OrderKey, PartnerCode, ProviderRef, Reference,
};
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
    /// Both know the payment, with different statuses.
    StatusDiffers,
    /// Both know the payment, with different amounts.
    AmountDiffers,
    /// Both know the payment, in different currencies.
    CurrencyDiffers,
    /// Both know the order, with different refs of its payment or names of its refund.
    RefDiffers,
    /// Both know the payment, at times too far apart.
    TimeDiffers,
    /// The partner lists a payment or refund more often than it is known.
    DuplicatedThere,
    /// Paid so near to the end of the partner's day that the next day's records may list it.
    CutOff,
    /// The partner lists the payment on another day than Payfold, and not on a neighbouring one.
    OtherDay,
    /// Two attempts of one reference are both paid.
    ReferencePaidTwice,
    /// One nonce came with two contents.
    NonceReused,
    /// The partner lists one ref under two orders.
    RefOnTwoOrders,
    /// The partner lists payments of a day and sent no notice of any.
    PartnerSilent,
    /// An order of the day has an undecided flag of high or critical severity; `flag` names it.
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

    /// The name on the wire.
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

    /// Parses the name on the wire. `None` for any other text.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == word)
    }

    /// The severity of such a finding. For `OPEN_FLAG` it is the highest possible; each such
    /// finding has the severity of its flag.
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

/// The status of a finding.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum FindingStatus {
    /// Its cause is there, and no person has decided it.
    Open,
    /// A person has decided it on exactly this evidence.
    Decided,
    /// Its cause is gone.
    Cleared,
}

impl FindingStatus {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Decided => "decided",
            Self::Cleared => "cleared",
        }
    }
}

/// The value of one side, and its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// The value; `nothing` if the side has none.
    pub value: String,
    /// Payfold's source is the order; the partner's is file and line, or `query`.
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
    /// The account of the payment.
    #[n(1)]
    pub merchant_code: MerchantCode,
    /// Payfold's order, if the records name it.
    #[n(2)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_id: Option<OrderId>,
    /// The partner's transaction.
    #[n(3)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ProviderRef>,
    /// The status of the payment there.
    #[n(4)]
    pub status: Status,
    /// Minor units.
    #[n(5)]
    pub amount: Amount,
    /// The currency's ISO 4217 code.
    #[n(6)]
    pub currency: Currency,
    /// When the partner booked it.
    #[n(7)]
    pub at: Time,
    /// When it was paid, if the records have that time too.
    #[n(8)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paid_at: Option<Time>,
    /// The partner's own name of this event.
    #[n(9)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_ref: Option<EventRef>,
}

/// A person's decision on a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingDecision {
    /// The side that is taken as right.
    pub accept: Verdict,
    /// Who decided first.
    pub author: Author,
    /// The reason that the person gave.
    pub reason: String,
    /// When the person decided.
    pub at: Time,
    /// The digest of the evidence that the person saw.
    pub evidence: Digest,
    /// The second person of a critical decision; left out until there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Author>,
    /// The reason that the second person gave; left out while there is none, and in decisions of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_reason: Option<String>,
}

/// How a first decision ended without the agreement of a second person.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DecisionEnd {
    /// Its author took it back.
    Withdrawn,
    /// Another decision took its place.
    Replaced,
    /// The finding opened again: its evidence changed, or its cause came back.
    Reopened,
}

impl DecisionEnd {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Withdrawn => "withdrawn",
            Self::Replaced => "replaced",
            Self::Reopened => "reopened",
        }
    }
}

/// A decision that no longer holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EarlierDecision {
    /// The side that it took as right.
    pub accept: Verdict,
    /// Who made it.
    pub author: Author,
    /// The second person, if it was final and took two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Author>,
    /// The reason that the second person gave; left out while there is none, and in decisions of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_reason: Option<String>,
    /// The reason that its author gave.
    pub reason: String,
    /// When it was made.
    pub at: Time,
    /// How it ended.
    pub ended: DecisionEnd,
    /// Who withdrew it, or decided something else; `payfold` if the finding opened again.
    pub ended_by: Author,
    /// When it ended.
    pub ended_at: Time,
    /// Why it was withdrawn; else none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_reason: Option<String>,
}

/// The data of `payfold.finding.changed.v1`. Amounts are minor units; times RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingChanged {
    /// The finding's id: a digest of what it is about, 32 hex digits.
    pub finding_id: String,
    /// Counts the changes of this finding from 1.
    pub version: u32,
    /// The finding's status.
    pub status: FindingStatus,
    /// The kind of difference.
    pub code: Code,
    /// How severe it is.
    pub severity: Severity,
    /// The partner that the records are from.
    pub partner: PartnerCode,
    /// Our account at the partner; null if the finding is about all accounts.
    pub merchant_code: Option<MerchantCode>,
    /// The order; null if none is known.
    pub order_id: Option<OrderId>,
    /// The shop's reference.
    pub reference: Option<Reference>,
    /// The partner's transaction.
    pub payment_ref: Option<ProviderRef>,
    /// The field that differs, by its name in the contract.
    pub field: Option<String>,
    /// The order's open flag; only for OPEN_FLAG.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<Flag>,
    /// Payfold's value.
    pub ours: Side,
    /// The partner's value.
    pub partners: Side,
    /// Minor units that may be lost, doubled or made up.
    pub money_at_risk: i64,
    /// The currency of `moneyAtRisk`.
    pub currency: Option<Currency>,
    /// The partner's day it was first found on, `2026-01-31`.
    pub day: String,
    /// When it was first seen.
    pub first_seen: Time,
    /// The run that opened, changed or cleared it; null if a person or a change of the order did.
    /// A later run that sees the finding unchanged in other records makes a version that cites
    /// those records; that run is not named here.
    pub run: Option<String>,
    /// A digest of everything that the finding is based on. A decision holds while it stays the
    /// same.
    pub evidence: Digest,
    /// The partner's lines about that order or ref.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<BookLine>,
    /// The decision; while `status` is `open`, it waits for the second person.
    pub decision: Option<FindingDecision>,
    /// First decisions on this evidence that were withdrawn or replaced, oldest first; the last 32
    /// of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_decisions: Vec<EarlierDecision>,
    /// What a person should do next.
    pub action: String,
}

impl FindingChanged {
    /// The event's id. Subscribers drop an id that they have seen.
    pub fn event_id(&self) -> String {
        format!("{}/{}", self.finding_id, self.version)
    }

    /// The first decision, while it waits for a second person: it must be on the present evidence.
    pub fn first_decision(&self) -> Option<&FindingDecision> {
        let is_open = self.status == FindingStatus::Open;
        self.decision.as_ref().filter(|first| is_open && first.evidence == self.evidence)
    }

    /// The order that it names.
    pub fn order_key(&self) -> Option<OrderKey> {
        let (merchant_code, order_id) = self.merchant_code.clone().zip(self.order_id.clone())?;
        Some(OrderKey { partner: self.partner.clone(), merchant_code, order_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_its_wire_name() {
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
