//! Owns `payfold.order.changed.v1`: what other teams read on the `orders` topic (CloudEvents 1.0).
//! There is exactly one event for each record that changed an order's kept facts, and after a
//! switch of builds there are `rebuilt` events. An event's content depends only on the log's
//! prefix, so a repeat after a crash is byte-identical. Changes within v1 are additive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{MerchantCode, OrderId, OrderKey, PartnerCode, ProviderRef, Reference, RequestId};
use crate::ipn::Status;
use crate::money::Currency;
use crate::order::{Flag, OrderState};
use crate::position::Position;
use crate::time::Time;

/// The CloudEvents type.
pub const ORDER_CHANGED_TYPE: &str = "payfold.order.changed.v1";

/// The CloudEvents source.
pub const SOURCE: &str = "payfold";

/// The cause's kind of an event that no fact caused: a rebuild computed another state of the order.
/// The version may stay the same.
pub const REBUILT: &str = "rebuilt";

/// The fact that caused a change of the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The fact's kind: `ipn`, `createRequested`, …; or `rebuilt`.
    pub kind: String,
    /// The partner's status, for `ipn` and `queryAnswered`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The record's position in `intake`.
    pub position: Position,
    /// The request that brought it.
    pub request_id: RequestId,
}

/// The profile that checked the notice behind a change.
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
    /// The partner that handles the payment.
    pub partner: PartnerCode,
    /// Our account at that partner.
    pub merchant_code: MerchantCode,
    /// The order: one attempt at one payment.
    pub order_id: OrderId,
    /// The shop's reference; null while no create request is known.
    pub reference: Option<Reference>,
    /// The number of the attempt at that reference, from 1.
    pub attempt: Option<u32>,
    /// The publication epoch: subscribers order events by (epoch, version).
    pub epoch: u32,
    /// Counts the changes of this order from 1, without a gap.
    pub version: u64,
    /// The state before the change; null for the first event.
    pub previous_state: Option<OrderState>,
    /// The state after the change.
    pub state: OrderState,
    /// The shop may deliver.
    pub fulfil: bool,
    /// Open flags of high or critical severity.
    pub attention: Vec<Flag>,
    /// The amount of the create request, minor units.
    pub amount: Option<i64>,
    /// The currency of the create request.
    pub currency: Option<Currency>,
    /// The number of decimal digits of that currency.
    pub exponent: Option<u16>,
    /// The sum of payments, minor units.
    pub paid_amount: i64,
    /// The sum of refunds, minor units.
    pub refunded_amount: i64,
    /// The partner's ref of the session.
    pub session_ref: Option<ProviderRef>,
    /// The partner's ref of the payment.
    pub payment_ref: Option<ProviderRef>,
    /// When it was paid.
    pub paid_at: Option<Time>,
    /// When the order expires (or did).
    pub deadline: Option<Time>,
    /// The fact that caused the change.
    pub cause: Cause,
    /// The profile that checked the cause; null for Payfold's own facts.
    pub profile: Option<EventProfile>,
}

/// The CloudEvents attributes that differ from event to event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventAttributes {
    /// `key/epoch/version` for an order. Subscribers drop an id that they have seen.
    pub id: String,
    /// The event type, with its major version.
    pub kind: &'static str,
    /// When the change happened (`occurredAt`).
    pub time: Time,
}

/// The id of an order's event: `partner/merchantCode/orderId/epoch/version`.
pub fn order_event_id(key: &OrderKey, epoch: u32, version: u64) -> String {
    format!("{key}/{epoch}/{version}")
}
