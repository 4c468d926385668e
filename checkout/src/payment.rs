//! Owns a payment as its shop sees it: the order's row at a time.

use payfold_schemas::fact::{Presentation, Session};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{Flag, Order, OrderState};
use payfold_schemas::time::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::rows::OrderRow;
use crate::version::Version;

/// Where to read and follow a payment: paths of this listener.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Links {
    /// The path to read the payment.
    #[serde(rename = "self")]
    pub this: String,
    /// The path of its stream of changes (server-sent events).
    pub events: String,
}

impl Links {
    /// The links of an order.
    pub(crate) fn of_order(key: &OrderKey) -> Self {
        let this = format!("/v1/payments/{key}");
        Self { events: format!("{this}/events"), this }
    }
}

/// A payment. Amounts are in minor units of the currency; times are RFC 3339.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Payment {
    /// The gateway partner.
    pub partner: String,
    /// The account there.
    pub merchant_code: String,
    /// The order id of this attempt; this system made it.
    pub order_id: String,
    /// The shop's own reference for what is paid; absent while only notices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Which attempt at that reference in this account, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1))]
    pub attempt: Option<u32>,
    /// The state of the payment.
    #[schemars(schema_with = "states", description = STATES)]
    pub state: OrderState,
    /// Whether the shop may deliver: the state is PAID and no notice contradicts that.
    pub fulfil: bool,
    /// Contradictions that a person has to settle: open flags of high or critical severity.
    #[schemars(schema_with = "flags")]
    pub attention: Vec<Flag>,
    /// `epoch.version`; a later one is greater. Also the ETag.
    #[schemars(regex(pattern = Version::PATTERN), extend("example" = "1.3"))]
    pub version: String,
    /// The amount to be paid, in minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<i64>,
    /// The currency (ISO 4217).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// The amount that was paid, in minor units.
    pub paid_amount: i64,
    /// The amount that was refunded to the payer, in minor units.
    pub refunded_amount: i64,
    /// When it was paid, by the partner's notice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paid_at: Option<Time>,
    /// The partner's name of the session's transaction. Where only notices name transactions, the
    /// order id stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<String>,
    /// The partner's transaction that paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_ref: Option<String>,
    /// The hosted page to send the payer to. Either this or `qrPayload` is present if a session is
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_url: Option<String>,
    /// The content of a QR code to show the payer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qr_payload: Option<String>,
    /// When the partner's session ends (contract 2.2): the end of a countdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// When the payment expires if it is not paid; later than `expiresAt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Why the create call failed: `partner_refused`, `contract_violation.<rule>`, `not_called`.
    /// Only while the state is FAILED.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<String>,
    /// The present time of this system, so that a countdown does not depend on the payer's clock.
    pub server_time: Time,
    /// Where to read and follow the payment.
    pub links: Links,
}

impl Payment {
    /// The payment of a row, at `now`.
    pub(crate) fn from_row(row: &OrderRow, now: Time) -> Self {
        let order = &row.order;
        let (key, summary) = (&order.key, &order.summary);
        let session = shown_session(order);
        let text = |text: &dyn ToString| text.to_string();
        Self {
            partner: key.partner.to_string(),
            merchant_code: key.merchant_code.to_string(),
            order_id: key.order_id.to_string(),
            reference: summary.reference.as_ref().map(|reference| text(reference)),
            attempt: summary.attempt,
            state: summary.state,
            fulfil: summary.fulfil,
            attention: summary.attention().collect(),
            version: row.shop_version().to_string(),
            amount: summary.amount,
            currency: summary.currency.map(|currency| text(&currency)),
            paid_amount: summary.paid_amount,
            refunded_amount: summary.refunded_amount,
            paid_at: summary.paid_at,
            provider_ref: summary.session_ref.as_ref().map(|provider_ref| text(provider_ref)),
            payment_ref: summary.payment_ref.as_ref().map(|provider_ref| text(provider_ref)),
            redirect_url: session.and_then(|session| redirect_url(&session.presentation)),
            qr_payload: session.and_then(|session| qr_payload(&session.presentation)),
            expires_at: session.map(|session| session.expires_at),
            deadline: summary.deadline,
            failure_code: failure_code(order).map(str::to_owned),
            server_time: now,
            links: Links::of_order(key),
        }
    }
}

/// The session to send the payer to: the session with the ref in the order's summary.
fn shown_session(order: &Order) -> Option<&Session> {
    let shown = order.summary.session_ref.as_ref();
    let mut sessions = order.facts.sessions.iter().map(|known| &known.content);
    sessions.find(|session| Some(&session.provider_ref) == shown)
}

/// Why the create call failed, if the order is FAILED for that reason: no session is known. `None`
/// if the order was paid all the same.
pub(crate) fn failure_code(order: &Order) -> Option<&str> {
    let failed = order.facts.create_failures.first().map(|known| known.content.code.as_str());
    let is_reason = order.summary.state == OrderState::Failed && order.facts.sessions.is_empty();
    failed.filter(|_| is_reason)
}

/// The address of the hosted page, if the session has one.
pub(crate) fn redirect_url(presentation: &Presentation) -> Option<String> {
    match presentation {
        Presentation::RedirectUrl(url) => Some(url.clone()),
        Presentation::QrPayload(_) => None,
    }
}

/// The content of the QR code, if the session has one.
pub(crate) fn qr_payload(presentation: &Presentation) -> Option<String> {
    match presentation {
        Presentation::RedirectUrl(_) => None,
        Presentation::QrPayload(content) => Some(content.clone()),
    }
}

/// What the states mean to a shop, for the OpenAPI document.
pub(crate) const STATES: &str = "REQUESTED: created, the partner's answer is not known. PENDING: \
    a session is open. EXPIRED, FAILED: ended unpaid. PAID. REFUNDED: paid and refunded in full. \
    UNMATCHED: there are notices, but no create request (yet). UNCONFIRMED: a notice counts only \
    once a query confirms it.";

/// The schema of `OrderState`.
pub(crate) fn states(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": OrderState::ALL.map(OrderState::as_str) })
}

fn flags(_: &mut SchemaGenerator) -> Schema {
    let flag = json_schema!({ "type": "string", "enum": Flag::ALL.map(Flag::as_str) });
    json_schema!({ "type": "array", "items": flag })
}
