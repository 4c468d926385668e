//! Owns the answers to a create request: 201 with what the payer needs, 202 while the partner's answer is unknown.

use actix_web::HttpResponse;
use actix_web::http::header;
use payfold_schemas::fact::{Create, Session};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::OrderState;
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::Serialize;

use crate::payment::{Links, STATES, qr_payload, redirect_url, states};
use crate::rows::Row;
use crate::version::Version;

/// Seconds after which to read a payment whose create call's end is unknown.
const RETRY_AFTER_S: u32 = 2;

/// A payment that was created: its session is open. Times are RFC 3339.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedPayment {
    /// One attempt; made by this system.
    pub order_id: String,
    /// The gateway partner.
    pub partner: String,
    /// The account there.
    pub merchant_code: String,
    /// The shop's name for what is paid.
    pub reference: String,
    /// Which attempt at that reference in this account, from 1.
    #[schemars(with = "i32", range(min = 1))]
    pub attempt: u32,
    /// Where the payment stands, PENDING as a rule.
    #[schemars(schema_with = "states", description = STATES)]
    pub state: OrderState,
    /// `generation.version` of that state; absent if it could not be read in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = Version::PATTERN), extend("example" = "1.2"))]
    pub version: Option<String>,
    /// The description as it was sent to the partner.
    pub description: String,
    /// The partner's transaction (contract 2.2); the order's own id where only a notice will name it.
    pub provider_ref: String,
    /// The hosted page to send the payer to; there is this or `qrPayload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_url: Option<String>,
    /// QR content to show the payer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qr_payload: Option<String>,
    /// When the partner's session ends (contract 2.2): what a countdown counts to.
    pub expires_at: Time,
    /// This system's clock, so that a countdown need not trust the payer's.
    pub server_time: Time,
    /// Where to go on.
    pub links: Links,
}

/// A payment whose create call's end is unknown: read it on, and do not create another one for it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedPayment {
    /// One attempt; made by this system.
    pub order_id: String,
    /// The gateway partner.
    pub partner: String,
    /// The account there.
    pub merchant_code: String,
    /// The shop's name for what is paid.
    pub reference: String,
    /// Which attempt at that reference in this account, from 1.
    #[schemars(with = "i32", range(min = 1))]
    pub attempt: u32,
    /// Where the payment stands, REQUESTED as a rule.
    #[schemars(schema_with = "states", description = STATES)]
    pub state: OrderState,
    /// This system's clock.
    pub server_time: Time,
    /// Where to go on.
    pub links: Links,
}

/// The answer to a create request that was not refused.
pub(crate) enum Answer {
    /// 201
    Created(Box<CreatedPayment>),
    /// 202
    Accepted(Box<AcceptedPayment>),
}

/// What both answers tell: the attempt, and its row where that can be read.
pub(crate) struct Told<'a> {
    pub(crate) key: &'a OrderKey,
    pub(crate) create: &'a Create,
    pub(crate) row: Option<&'a Row>,
    pub(crate) now: Time,
}

impl Told<'_> {
    fn state_or(&self, state: OrderState) -> OrderState {
        self.row.map_or(state, |row| row.summary.state)
    }

    /// The session is known.
    pub(crate) fn created(&self, session: &Session, description: String) -> Answer {
        Answer::Created(Box::new(CreatedPayment {
            order_id: self.key.order_id.to_string(),
            partner: self.key.partner.to_string(),
            merchant_code: self.key.merchant_code.to_string(),
            reference: self.create.reference.to_string(),
            attempt: self.create.attempt,
            state: self.state_or(OrderState::Pending),
            version: self.row.map(|row| Version::of(row).to_string()),
            description,
            provider_ref: session.provider_ref.to_string(),
            redirect_url: redirect_url(&session.presentation),
            qr_payload: qr_payload(&session.presentation),
            expires_at: session.expires_at,
            server_time: self.now,
            links: Links::of(self.key),
        }))
    }

    /// Nobody knows yet.
    pub(crate) fn accepted(&self) -> Answer {
        Answer::Accepted(Box::new(AcceptedPayment {
            order_id: self.key.order_id.to_string(),
            partner: self.key.partner.to_string(),
            merchant_code: self.key.merchant_code.to_string(),
            reference: self.create.reference.to_string(),
            attempt: self.create.attempt,
            state: self.state_or(OrderState::Requested),
            server_time: self.now,
            links: Links::of(self.key),
        }))
    }
}

impl Answer {
    /// The response.
    pub(crate) fn respond(&self) -> HttpResponse {
        let (mut response, links) = match self {
            Self::Created(payment) => (HttpResponse::Created(), &payment.links),
            Self::Accepted(payment) => (HttpResponse::Accepted(), &payment.links),
        };
        response.insert_header((header::LOCATION, links.this.as_str())).insert_header(NO_STORE);
        match self {
            Self::Created(payment) => response.json(payment),
            Self::Accepted(payment) => response
                .insert_header((header::RETRY_AFTER, RETRY_AFTER_S.to_string()))
                .json(payment),
        }
    }
}

/// What a payer may do with a payment is nobody's to keep.
pub(crate) const NO_STORE: (header::HeaderName, &str) = (header::CACHE_CONTROL, "no-store");
