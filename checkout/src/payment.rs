//! Owns a payment as its shop sees it: a representation of the order's row, and nothing that is not in it.

use payfold_schemas::fact::{Presentation, Session};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{Flag, Order, OrderState};
use payfold_schemas::time::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::rows::Row;
use crate::version::Version;

/// Where a payment is read and followed; paths on this listener.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Links {
    /// The payment.
    #[serde(rename = "self")]
    pub this: String,
    /// Its stream of changes (SSE).
    pub events: String,
}

impl Links {
    /// The links of an order.
    pub fn of(key: &OrderKey) -> Self {
        let this = format!("/v1/payments/{key}");
        Self { events: format!("{this}/events"), this }
    }
}

/// A payment. Amounts are in minor units of the currency; times RFC 3339.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Payment {
    /// The gateway partner.
    pub partner: String,
    /// The account there.
    pub merchant_code: String,
    /// One attempt; made by this system.
    pub order_id: String,
    /// The shop's name for what is paid; absent while only notices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Which attempt at that reference in this account, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1))]
    pub attempt: Option<u32>,
    /// Where the payment stands.
    #[schemars(schema_with = "states", description = STATES)]
    pub state: OrderState,
    /// The shop may deliver: PAID, and nothing contradicts it.
    pub fulfil: bool,
    /// Contradictions a person has to look at: open flags of high or critical severity.
    #[schemars(schema_with = "flags")]
    pub attention: Vec<Flag>,
    /// `generation.version`; a later one is greater. Also the ETag.
    #[schemars(regex(pattern = Version::PATTERN), extend("example" = "1.3"))]
    pub version: String,
    /// What is to be paid, minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<i64>,
    /// ISO 4217.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// What was paid, minor units.
    pub paid_amount: i64,
    /// What went back to the payer, minor units.
    pub refunded_amount: i64,
    /// When it was paid, as the partner says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paid_at: Option<Time>,
    /// The partner's transaction of the session; the order's own id where only a notice names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<String>,
    /// The partner's transaction that paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_ref: Option<String>,
    /// The hosted page to send the payer to; there is this or `qrPayload` while a session is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_url: Option<String>,
    /// QR content to show the payer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qr_payload: Option<String>,
    /// When the partner's session ends (contract 2.2): what a countdown counts to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// When the payment is given up; after `expiresAt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Why the create call failed: `partner_refused`, `contract_violation.<rule>`, `not_called`. Only while the state is FAILED.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<String>,
    /// This system's clock, so that a countdown need not trust the payer's.
    pub server_time: Time,
    /// Where to go on.
    pub links: Links,
}

impl Payment {
    /// What a row shows at `now`.
    pub fn of(row: &Row, now: Time) -> Self {
        let order = &row.order;
        let (key, summary) = (&order.key, &order.summary);
        let session = session(order);
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
            version: Version::of(row).to_string(),
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
            failure_code: failure(order).map(str::to_owned),
            server_time: now,
            links: Links::of(key),
        }
    }
}

/// The session a payer is sent to: the one whose ref the order shows.
pub fn session(order: &Order) -> Option<&Session> {
    let shown = order.summary.session_ref.as_ref();
    let mut sessions = order.facts.sessions.iter().map(|known| &known.content);
    sessions.find(|session| Some(&session.provider_ref) == shown)
}

/// Why the create call failed, where that is how the order ended: no session is known, and nobody paid all the same.
pub fn failure(order: &Order) -> Option<&str> {
    let failed = order.facts.create_failures.first().map(|known| known.content.code.as_str());
    let is_its_end = order.summary.state == OrderState::Failed && order.facts.sessions.is_empty();
    failed.filter(|_| is_its_end)
}

/// The page's address.
pub fn redirect_url(presentation: &Presentation) -> Option<String> {
    match presentation {
        Presentation::RedirectUrl(url) => Some(url.clone()),
        Presentation::QrPayload(_) => None,
    }
}

/// The QR content.
pub fn qr_payload(presentation: &Presentation) -> Option<String> {
    match presentation {
        Presentation::RedirectUrl(_) => None,
        Presentation::QrPayload(content) => Some(content.clone()),
    }
}

/// What the states mean to a shop.
pub const STATES: &str = "REQUESTED: asked for, the partner's answer is not known. PENDING: a session is open. \
    EXPIRED, FAILED: ended unpaid. PAID. REFUNDED: paid and given back in full. UNMATCHED: notices for an \
    order nobody asked for (yet). UNCONFIRMED: a notice that counts only once a query confirms it.";

/// The words of `OrderState`.
pub fn states(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": OrderState::ALL.map(OrderState::as_str) })
}

fn flags(_: &mut SchemaGenerator) -> Schema {
    let flag = json_schema!({ "type": "string", "enum": Flag::ALL.map(Flag::as_str) });
    json_schema!({ "type": "array", "items": flag })
}
