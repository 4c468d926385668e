//! Owns the order as it is stored and read: the kept facts, their summary (`Summary`), and the
//! version. The summary is a pure function of the kept facts; version and positions are outside
//! every digest.

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fact::{Create, CreateFailed, Decision, QueryAnswer, Session, SharedRef};
use crate::ids::{OrderKey, ProviderRef, Reference};
use crate::ipn::{IpnPolicy, MoneyContent, Status};
use crate::money::Currency;
use crate::position::Position;
use crate::time::Time;

pub use crate::flag::{Flag, RaisedFlag, Severity};

/// The state of an order.
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
    /// The payer has paid.
    #[n(4)]
    Paid,
    /// Paid and given back in full.
    #[n(5)]
    Refunded,
    /// Notices came for an order without a create request (so far).
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

    /// The name on the wire.
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

    /// Parses the name on the wire. `None` for any other text.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

impl std::fmt::Display for OrderState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// A kept fact and the log position of the record that first brought it. The position is for people
/// and is never compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode, JsonSchema)]
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
pub struct KnownIpn {
    /// The partner's transaction.
    #[n(0)]
    pub provider_ref: ProviderRef,
    /// The transaction's status.
    #[n(1)]
    pub status: Status,
    /// The moved money, and when.
    #[n(2)]
    pub money: MoneyContent,
    /// `IpnPolicy::merge` over all deliveries.
    #[n(3)]
    pub policy: IpnPolicy,
}

/// The set of distinct facts of one order, capped. Every list is sorted by content, so equal sets
/// are equal values in whatever order their facts came.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Encode, Decode, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct KnownFacts {
    /// Create requests of the shop.
    #[n(0)]
    pub creates: Vec<Known<Create>>,
    /// Sessions that the partner opened.
    #[n(1)]
    pub sessions: Vec<Known<Session>>,
    /// Create calls that failed.
    #[n(2)]
    pub create_failures: Vec<Known<CreateFailed>>,
    /// Notices of the partner, of every status.
    #[n(3)]
    pub ipns: Vec<Known<KnownIpn>>,
    /// Deadlines that passed.
    #[n(4)]
    pub deadlines_passed: Vec<Known<Time>>,
    /// Answers of the partner to queries.
    #[n(5)]
    pub query_answers: Vec<Known<QueryAnswer>>,
    /// Refs that another order has too.
    #[n(6)]
    pub shared_refs: Vec<Known<SharedRef>>,
    /// Decisions of people on flags.
    #[n(7)]
    pub decisions: Vec<Known<Decision>>,
    /// Whether a fact was ever left out because of the caps (FACT_OVERFLOW), other than those that
    /// `unconfirmed_left_out` says.
    #[n(8)]
    pub overflowed: bool,
    /// Whether a notice that its profile calls unconfirmed was ever left out because of the caps.
    /// Rows of orders that lost none don't contain the field.
    #[n(9)]
    #[cbor(skip_if = "std::ops::Not::not")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed_left_out: bool,
}

/// The summary of the kept facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The order's state.
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
    /// The sum of what was paid, over paid and refunded refs, minor units.
    #[n(7)]
    pub paid_amount: i64,
    /// The sum of refunds over all refs, each ref capped at the amount, minor units.
    #[n(8)]
    pub refunded_amount: i64,
    /// What was paid above the amount and not refunded, minor units.
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
    /// A summary with this state and nothing else: no money, no refs, no flags.
    pub fn new(state: OrderState) -> Self {
        Self {
            state,
            fulfil: false,
            flags: Vec::new(),
            reference: None,
            attempt: None,
            amount: None,
            currency: None,
            paid_amount: 0,
            refunded_amount: 0,
            overpaid: 0,
            refunded_at_least: false,
            session_ref: None,
            payment_ref: None,
            paid_at: None,
            deadline: None,
        }
    }

    /// The open flags that keep the order from being delivered: critical.
    pub fn critical(&self) -> impl Iterator<Item = Flag> + '_ {
        let critical =
            |raised: &&RaisedFlag| raised.is_open() && raised.severity == Severity::Critical;
        self.flags.iter().filter(critical).map(|raised| raised.flag)
    }

    /// The open flags a person must look at: high or critical.
    pub fn attention(&self) -> impl Iterator<Item = Flag> + '_ {
        self.flags.iter().filter(|raised| raised.needs_attention()).map(|raised| raised.flag)
    }
}

/// One order, as one row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// The order's name.
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
    /// The summary of its kept facts.
    #[n(4)]
    pub summary: Summary,
    /// The kept facts.
    #[n(5)]
    pub facts: KnownFacts,
}
