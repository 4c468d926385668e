//! Owns the notification a partner sends (IPN, contract 2.3) in its normalised form, and what
//! identifies it. Timestamp and nonce belong to one delivery; ref, status and money content are the
//! fact.

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{EventRef, Nonce, ProviderRef};
use crate::money::{Amount, Currency};
use crate::time::Time;

/// The status of a payment in an IPN; also the partner's event type (contract 3, 6).
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
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[cbor(index_only)]
pub enum Status {
    /// The payer has paid.
    #[n(0)]
    Success,
    /// The payment failed.
    #[n(1)]
    Failed,
    /// The partner's session expired.
    #[n(2)]
    Expired,
    /// Money went back to the payer.
    #[n(3)]
    Refunded,
}

impl Status {
    /// Every status, in the order of the contract.
    pub const ALL: [Status; 4] = [Self::Success, Self::Failed, Self::Expired, Self::Refunded];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::Failed => "FAILED",
            Self::Expired => "EXPIRED",
            Self::Refunded => "REFUNDED",
        }
    }

    /// Parses the name on the wire; case matters. `None` for any other text.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The part of an IPN about moved money. Two IPNs with one (ref, status) and different money
/// contents are two facts.
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
pub struct MoneyContent {
    /// Minor units.
    #[n(0)]
    pub amount: Amount,
    /// The currency's ISO 4217 code.
    #[n(1)]
    pub currency: Currency,
    /// When the payer paid; always there for SUCCESS.
    #[n(2)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paid_at: Option<Time>,
    /// The partner's own name of this event, where its profile has one.
    #[n(3)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_ref: Option<EventRef>,
}

/// The settings of the partner's profile that the fold needs, as they were when the IPN was
/// admitted. All are false in the default profile.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
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
pub struct IpnPolicy {
    /// The signature does not cover status, amount or ref: it counts only once a query confirms it.
    #[n(0)]
    pub unconfirmed: bool,
    /// The ref must be the session's ref.
    #[n(1)]
    pub ref_is_session: bool,
    /// The ref is one of the profile's placeholders and names no transaction.
    #[n(2)]
    pub placeholder_ref: bool,
    /// The profile requires nonces, so reuse is checked.
    #[n(3)]
    pub nonce_required: bool,
    /// The amount of a refund is the total refunded so far, not this refund's own. Records of
    /// partners without this setting don't contain the field.
    #[n(4)]
    #[cbor(skip_if = "std::ops::Not::not")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refund_so_far: bool,
}

impl IpnPolicy {
    /// Whether a notice with this policy names a transaction of its order. A placeholder names
    /// none, and what is unconfirmed anybody can send: the query's answer names it then.
    pub const fn names_transaction(self) -> bool {
        !self.placeholder_ref && !self.unconfirmed
    }

    /// The policy of a fact that was delivered under both policies, in either order: one confirmed
    /// delivery confirms it; of the other settings, one that is true is enough.
    pub fn merge(self, other: Self) -> Self {
        Self {
            unconfirmed: self.unconfirmed && other.unconfirmed,
            ref_is_session: self.ref_is_session || other.ref_is_session,
            placeholder_ref: self.placeholder_ref || other.placeholder_ref,
            nonce_required: self.nonce_required || other.nonce_required,
            refund_so_far: self.refund_so_far || other.refund_so_far,
        }
    }
}

/// An admitted IPN, normalised. The record contains the order that it names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Encode, Decode, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ipn {
    /// The partner's transaction.
    #[n(0)]
    pub provider_ref: ProviderRef,
    /// The transaction's status.
    #[n(1)]
    pub status: Status,
    /// The moved money, and when.
    #[n(2)]
    pub money: MoneyContent,
    /// When the partner says it sent (or saw) this; not part of the fact's identity.
    #[n(3)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Time>,
    /// The nonce of this delivery; not part of the fact's identity.
    #[n(4)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Nonce>,
    /// The profile's settings at admission.
    #[n(5)]
    pub policy: IpnPolicy,
}
