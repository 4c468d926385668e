//! Owns the order as it is stored and read: the kept facts, what they come to (`Summary`), and the version.
//! The summary is a pure function of the kept facts; version and positions are outside every digest.

mod money;

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fact::{Create, CreateFailed, Decision, QueryAnswer, Session, SharedRef};
use crate::ids::{OrderKey, ProviderRef, Reference};
use crate::ipn::{IpnPolicy, MoneyContent, Status};
use crate::money::Currency;
use crate::record::Position;
use crate::time::Time;

pub use self::money::{Asked, MoneyFacts, MoneySummary, OrderMoney};
pub use crate::flag::{Flag, RaisedFlag, Severity};

/// Where an order stands.
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
pub enum OrderState {
    /// The shop asked; the partner's answer is not known.
    #[n(0)]
    Requested,
    /// A session is open.
    #[n(1)]
    Pending,
    /// The session ended unpaid.
    #[n(2)]
    Expired,
    /// The payment or its creation failed.
    #[n(3)]
    Failed,
    /// Paid.
    #[n(4)]
    Paid,
    /// Paid and given back in full.
    #[n(5)]
    Refunded,
    /// Notices for an order nobody asked for (yet).
    #[n(6)]
    Unmatched,
    /// A notice that counts only once a query confirms it.
    #[n(7)]
    Unconfirmed,
}

impl OrderState {
    /// Every state.
    pub const ALL: [OrderState; 8] = [
        Self::Requested,
        Self::Pending,
        Self::Expired,
        Self::Failed,
        Self::Paid,
        Self::Refunded,
        Self::Unmatched,
        Self::Unconfirmed,
    ];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "REQUESTED",
            Self::Pending => "PENDING",
            Self::Expired => "EXPIRED",
            Self::Failed => "FAILED",
            Self::Paid => "PAID",
            Self::Refunded => "REFUNDED",
            Self::Unmatched => "UNMATCHED",
            Self::Unconfirmed => "UNCONFIRMED",
        }
    }

    /// Reads the word on the wire. `None` for any other word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

impl std::fmt::Display for OrderState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// A kept fact and the log position of the record that first brought it (for people; never compared).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct Known<T> {
    /// The fact's content.
    #[n(0)]
    pub content: T,
    /// Where it was first read.
    #[n(1)]
    pub position: Position,
}

/// An IPN as the order keeps it: its identity, and the merged policy of all its deliveries.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Encode, Decode,
)]
#[serde(rename_all = "camelCase")]
pub struct KnownIpn {
    /// The partner's transaction.
    #[n(0)]
    pub provider_ref: ProviderRef,
    /// What was said of it.
    #[n(1)]
    pub status: Status,
    /// Which money, when.
    #[n(2)]
    pub money: MoneyContent,
    /// `IpnPolicy::merge` over all deliveries.
    #[n(3)]
    pub policy: IpnPolicy,
}

/// The set of distinct facts of one order, capped. Every list is sorted by content, so equal sets are
/// equal values however they came in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct KnownFacts {
    /// C
    #[n(0)]
    pub creates: Vec<Known<Create>>,
    /// O
    #[n(1)]
    pub sessions: Vec<Known<Session>>,
    /// CF
    #[n(2)]
    pub create_failures: Vec<Known<CreateFailed>>,
    /// S, F, E, R
    #[n(3)]
    pub ipns: Vec<Known<KnownIpn>>,
    /// X
    #[n(4)]
    pub deadlines_passed: Vec<Known<Time>>,
    /// P
    #[n(5)]
    pub query_answers: Vec<Known<QueryAnswer>>,
    /// K
    #[n(6)]
    pub shared_refs: Vec<Known<SharedRef>>,
    /// D
    #[n(7)]
    pub decisions: Vec<Known<Decision>>,
    /// Whether a fact was ever left out for the caps (FACT_OVERFLOW).
    #[n(8)]
    pub overflowed: bool,
}

/// What the kept facts come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Where the order stands.
    #[n(0)]
    pub state: OrderState,
    /// PAID and no open critical flag: the shop may deliver.
    #[n(1)]
    pub fulfil: bool,
    /// Every flag that holds, by flag then severity.
    #[n(2)]
    pub flags: Vec<RaisedFlag>,
    /// The shop's reference; none while no create request is known.
    #[n(3)]
    pub reference: Option<Reference>,
    /// The attempt at that reference.
    #[n(4)]
    pub attempt: Option<u32>,
    /// The create request's amount, minor units.
    #[n(5)]
    pub amount: Option<i64>,
    /// The create request's currency.
    #[n(6)]
    pub currency: Option<Currency>,
    /// Sum over paid or refunded refs of what was paid, minor units.
    #[n(7)]
    pub paid_amount: i64,
    /// Sum over refs of what went back, each capped at the amount, minor units.
    #[n(8)]
    pub refunded_amount: i64,
    /// What was paid over the amount and has not gone back, minor units.
    #[n(9)]
    pub overpaid: i64,
    /// `refunded_amount` is a lower bound: partial refunds without event references.
    #[n(10)]
    pub refunded_at_least: bool,
    /// The session's ref.
    #[n(11)]
    pub session_ref: Option<ProviderRef>,
    /// The ref that paid (or was refunded).
    #[n(12)]
    pub payment_ref: Option<ProviderRef>,
    /// When that ref was paid.
    #[n(13)]
    pub paid_at: Option<Time>,
    /// When the order expires (or did).
    #[n(14)]
    pub deadline: Option<Time>,
}

impl Summary {
    /// The open flags a person must look at: high or critical.
    pub fn attention(&self) -> impl Iterator<Item = Flag> + '_ {
        self.flags
            .iter()
            .filter(|raised| raised.is_open() && raised.severity >= Severity::High)
            .map(|raised| raised.flag)
    }
}

/// One order, as one row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// Its name.
    #[n(0)]
    pub key: OrderKey,
    /// How many records changed the kept facts.
    #[n(1)]
    pub version: u64,
    /// When the first of its records was received.
    #[n(2)]
    pub first_seen: Time,
    /// The last record that was folded into it.
    #[n(3)]
    pub position: Position,
    /// What they come to.
    #[n(4)]
    pub summary: Summary,
    /// The kept facts.
    #[n(5)]
    pub facts: KnownFacts,
}
