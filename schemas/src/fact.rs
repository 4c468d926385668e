//! Owns facts: everything that can be known about one order, each identified by its content alone.
//! A fact is appended once or many times and never edited; the set of distinct facts is the order.

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::flag::Flag;
use crate::ids::{Author, OrderId, ProviderRef, Reference};
use crate::ipn::{Ipn, Status};
use crate::money::{Amount, Currency};
use crate::time::Time;

/// The shop asked for a payment; checkout appends this fact.
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
pub struct Create {
    /// Minor units.
    #[n(0)]
    pub amount: Amount,
    /// The currency's ISO 4217 code.
    #[n(1)]
    pub currency: Currency,
    /// The shop's own name for what is paid.
    #[n(2)]
    pub reference: Reference,
    /// 1 for the first try at this reference.
    #[n(3)]
    pub attempt: u32,
    /// When the order expires while no session is known.
    #[n(4)]
    pub deadline: Time,
}

impl Create {
    /// Its content digest: what a session names its create request by.
    pub fn digest(&self) -> Digest {
        Digest::of_content("createRequested", self)
    }
}

/// How the payer gets to the payment: exactly one of the two (contract 2.2).
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
pub enum Presentation {
    /// The hosted page's address, https.
    #[n(0)]
    RedirectUrl(#[n(0)] String),
    /// QR content.
    #[n(1)]
    QrPayload(#[n(0)] String),
}

/// The partner opened a session; checkout appends this fact.
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
pub struct Session {
    /// The partner's transaction.
    #[n(0)]
    pub provider_ref: ProviderRef,
    /// What the payer is shown.
    #[n(1)]
    pub presentation: Presentation,
    /// The partner's explicit expiry (contract 4.4).
    #[n(2)]
    pub expires_at: Time,
    /// When the order expires: `expires_at` and the profile's grace.
    #[n(3)]
    pub deadline: Time,
    /// The digest of the create request that it answers.
    #[n(4)]
    pub create: Digest,
}

/// The create call definitely failed; checkout appends this fact.
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
pub struct CreateFailed {
    /// `partner_refused`, `partner_unreachable`, `not_called` or `contract_violation.<rule>`.
    #[n(0)]
    pub code: String,
}

/// The partner's answer to an authenticated query; the reconciler appends this fact.
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
pub struct QueryAnswer {
    /// The partner's transaction.
    #[n(0)]
    pub provider_ref: ProviderRef,
    /// Its terminal status there.
    #[n(1)]
    pub status: Status,
    /// Minor units.
    #[n(2)]
    pub amount: Amount,
    /// The currency's ISO 4217 code.
    #[n(3)]
    pub currency: Currency,
}

/// A ref of this order is a ref of another order too; the reconciler appends this fact.
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
pub struct SharedRef {
    /// The ref that both orders have.
    #[n(0)]
    pub provider_ref: ProviderRef,
    /// The other order of the same account.
    #[n(1)]
    pub other_order: OrderId,
}

/// The side that a decision takes as right.
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
pub enum Verdict {
    /// This system's record is right.
    #[n(0)]
    Ours,
    /// The partner's record is right.
    #[n(1)]
    Partner,
    /// The difference is written off.
    #[n(2)]
    WriteOff,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Verdict; 3] = [Self::Ours, Self::Partner, Self::WriteOff];

    /// Parses the name on the wire. `None` for any other text.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.as_str() == word)
    }

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Partner => "partner",
            Self::WriteOff => "write-off",
        }
    }
}

/// A person decided a flag on its evidence, in the console or on the command line.
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
pub struct Decision {
    /// The id of the decision.
    #[n(0)]
    pub id: String,
    /// The flag it closes.
    #[n(1)]
    pub flag: Flag,
    /// The digest of that flag's evidence as the person saw it.
    #[n(2)]
    pub evidence: Digest,
    /// The side that is taken as right.
    #[n(3)]
    pub accept: Verdict,
    /// Who decided.
    #[n(4)]
    pub author: Author,
    /// The reason that the person gave.
    #[n(5)]
    pub reason: String,
    /// The second person, for what is critical.
    #[n(6)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Author>,
}

/// One thing known about one order (design: the set of these is the order).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Fact {
    /// The shop asked for a payment.
    #[n(0)]
    CreateRequested(#[n(0)] Create),
    /// The partner opened a session.
    #[n(1)]
    SessionOpened(#[n(0)] Session),
    /// The create call failed.
    #[n(2)]
    CreateFailed(#[n(0)] CreateFailed),
    /// The partner sent a notice.
    #[n(3)]
    Ipn(#[n(0)] Ipn),
    /// The order's deadline passed; the reconciler appends this fact.
    #[n(4)]
    DeadlinePassed {
        /// The deadline that passed.
        #[n(0)]
        deadline: Time,
    },
    /// The partner answered a query.
    #[n(5)]
    QueryAnswered(#[n(0)] QueryAnswer),
    /// Another order has a ref of this order.
    #[n(6)]
    RefShared(#[n(0)] SharedRef),
    /// A person decided a flag.
    #[n(7)]
    Decided(#[n(0)] Decision),
}

impl Fact {
    /// The short letter people and events use: C, O, CF, S, F, E, R, X, P, K, D.
    pub fn letter(&self) -> &'static str {
        match self {
            Self::CreateRequested(_) => "C",
            Self::SessionOpened(_) => "O",
            Self::CreateFailed(_) => "CF",
            Self::Ipn(ipn) => match ipn.status {
                Status::Success => "S",
                Status::Failed => "F",
                Status::Expired => "E",
                Status::Refunded => "R",
            },
            Self::DeadlinePassed { .. } => "X",
            Self::QueryAnswered(_) => "P",
            Self::RefShared(_) => "K",
            Self::Decided(_) => "D",
        }
    }

    /// The kind's name on events: `createRequested`, `ipn`, …
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CreateRequested(_) => "createRequested",
            Self::SessionOpened(_) => "sessionOpened",
            Self::CreateFailed(_) => "createFailed",
            Self::Ipn(_) => "ipn",
            Self::DeadlinePassed { .. } => "deadlinePassed",
            Self::QueryAnswered(_) => "queryAnswered",
            Self::RefShared(_) => "refShared",
            Self::Decided(_) => "decided",
        }
    }

    /// The partner's status in it; `None` for facts without one.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Ipn(ipn) => Some(ipn.status),
            Self::QueryAnswered(answer) => Some(answer.status),
            Self::CreateRequested(_)
            | Self::SessionOpened(_)
            | Self::CreateFailed(_)
            | Self::DeadlinePassed { .. }
            | Self::RefShared(_)
            | Self::Decided(_) => None,
        }
    }
}
