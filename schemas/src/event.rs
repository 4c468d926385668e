//! Owns `payfold.order.changed.v1`: what other teams read on the `orders` topic (CloudEvents 1.0).
//! Exactly one per record that changed an order's kept facts. Its content depends on the log's prefix only,
//! so a repeat after a crash is byte-identical. Changes within v1 are additive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{MerchantCode, OrderId, OrderKey, PartnerCode, ProviderRef, Reference, RequestId};
use crate::ipn::Status;
use crate::money::Currency;
use crate::order::{Flag, OrderState};
use crate::record::Position;
use crate::time::Time;

/// The CloudEvents type.
pub const ORDER_CHANGED_TYPE: &str = "payfold.order.changed.v1";

/// The CloudEvents source.
pub const SOURCE: &str = "payfold";

/// The cause's kind of an event that no fact made: a rebuild sees the order in another way. The version may stay.
pub const REBUILT: &str = "rebuilt";

/// What made the order change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The fact's kind: `ipn`, `createRequested`, …; or `rebuilt`.
    pub kind: String,
    /// The partner's word, for `ipn` and `queryAnswered`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The record's place in `intake`.
    pub position: Position,
    /// The request that brought it.
    pub request_id: RequestId,
}

/// The profile that judged the notice behind a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventProfile {
    /// The profile's version.
    pub version: u32,
    /// The profile's digest, hex.
    pub digest: crate::digest::Digest,
}

/// The data of `payfold.order.changed.v1`. Amounts are minor units; times RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderChanged {
    /// Whose payment.
    pub partner: PartnerCode,
    /// Which account.
    pub merchant_code: MerchantCode,
    /// Which attempt.
    pub order_id: OrderId,
    /// The shop's reference; null while no create request is known.
    pub reference: Option<Reference>,
    /// Which attempt at that reference.
    pub attempt: Option<u32>,
    /// Subscribers order by (generation, version).
    pub generation: u32,
    /// Counts the changes of this order from 1, without a gap.
    pub version: u64,
    /// Null for the first.
    pub previous_state: Option<OrderState>,
    /// Where the order stands now.
    pub state: OrderState,
    /// The shop may deliver.
    pub fulfil: bool,
    /// Open flags of high or critical severity.
    pub attention: Vec<Flag>,
    /// Of the create request.
    pub amount: Option<i64>,
    /// Of the create request.
    pub currency: Option<Currency>,
    /// Digits behind the point of that currency.
    pub exponent: Option<u16>,
    /// What was paid.
    pub paid_amount: i64,
    /// What went back.
    pub refunded_amount: i64,
    /// The session's ref.
    pub session_ref: Option<ProviderRef>,
    /// The ref that paid.
    pub payment_ref: Option<ProviderRef>,
    /// When it was paid.
    pub paid_at: Option<Time>,
    /// When the order expires (or did).
    pub deadline: Option<Time>,
    /// What made it change.
    pub cause: Cause,
    /// The profile behind the cause; null for facts of our own.
    pub profile: Option<EventProfile>,
}

/// The CloudEvents attributes that differ from event to event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventAttributes {
    /// `key/generation/version` for an order: subscribers drop what they have seen.
    pub id: String,
    /// The event type, with its major version.
    pub kind: &'static str,
    /// When what it tells happened (`occurredAt`).
    pub time: Time,
}

/// The id of an order's event: `partner/merchantCode/orderId/generation/version`.
pub fn order_event_id(key: &OrderKey, generation: u32, version: u64) -> String {
    format!("{key}/{generation}/{version}")
}
