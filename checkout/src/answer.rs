//! Owns the answers to a create request that is not refused: 201 with what the payer needs, or 202
//! while the partner's answer is unknown.

use actix_web::HttpResponse;
use actix_web::http::header;
use payfold_schemas::fact::{Create, Session};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::OrderState;
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::Serialize;

use crate::payment::{Links, STATES, qr_payload, redirect_url, states};
use crate::rows::OrderRow;
use crate::version::Version;

/// The `Retry-After` of a 202, s: when to read the payment.
const RETRY_AFTER_S: u32 = 2;

/// A payment with an open session at the partner. Times are RFC 3339.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreatedPayment {
    /// The order id of this attempt; this system made it.
    pub order_id: String,
    /// The gateway partner.
    pub partner: String,
    /// The account there.
    pub merchant_code: String,
    /// The shop's own reference for what is paid.
    pub reference: String,
    /// Which attempt at that reference in this account, from 1.
    #[schemars(with = "i32", range(min = 1))]
    pub attempt: u32,
    /// The state of the payment; mostly PENDING.
    #[schemars(schema_with = "states", description = STATES)]
    pub state: OrderState,
    /// `epoch.version` of that state; absent if it could not be read in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = Version::PATTERN), extend("example" = "1.2"))]
    pub version: Option<String>,
    /// The description as it was sent to the partner.
    pub description: String,
    /// The partner's transaction (contract 2.2), or the order id if the partner names a transaction
    /// only in its notices.
    pub provider_ref: String,
    /// The hosted page to send the payer to. Either this or `qrPayload` is present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_url: Option<String>,
    /// The content of a QR code to show the payer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qr_payload: Option<String>,
    /// When the partner's session ends (contract 2.2): the end of a countdown.
    pub expires_at: Time,
    /// The present time of this system, so that a countdown does not depend on the payer's clock.
    pub server_time: Time,
    /// Where to read and follow the payment.
    pub links: Links,
}

/// A payment of which it is not known whether the partner opened a session. Keep reading it, and do
/// not create another payment for it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AcceptedPayment {
    /// The order id of this attempt; this system made it.
    pub order_id: String,
    /// The gateway partner.
    pub partner: String,
    /// The account there.
    pub merchant_code: String,
    /// The shop's own reference for what is paid.
    pub reference: String,
    /// Which attempt at that reference in this account, from 1.
    #[schemars(with = "i32", range(min = 1))]
    pub attempt: u32,
    /// The state of the payment; mostly REQUESTED.
    #[schemars(schema_with = "states", description = STATES)]
    pub state: OrderState,
    /// The present time of this system.
    pub server_time: Time,
    /// Where to read and follow the payment.
    pub links: Links,
}

/// The answer to a create request that was not refused.
pub(crate) enum CreateAnswer {
    /// 201: the session is open.
    Created(Box<CreatedPayment>),
    /// 202: the outcome is unknown, or not durable yet.
    Accepted(Box<AcceptedPayment>),
}

/// What an answer shows: the attempt, and the order's row if it was read.
pub(crate) struct AttemptView<'a> {
    pub(crate) key: &'a OrderKey,
    pub(crate) create: &'a Create,
    pub(crate) row: Option<&'a OrderRow>,
    pub(crate) now: Time,
}

impl AttemptView<'_> {
    fn state_or(&self, state: OrderState) -> OrderState {
        self.row.map_or(state, |row| row.summary.state)
    }

    /// The answer for an attempt with a known session.
    pub(crate) fn created_answer(&self, session: &Session, description: String) -> CreateAnswer {
        CreateAnswer::Created(Box::new(CreatedPayment {
            order_id: self.key.order_id.to_string(),
            partner: self.key.partner.to_string(),
            merchant_code: self.key.merchant_code.to_string(),
            reference: self.create.reference.to_string(),
            attempt: self.create.attempt,
            state: self.state_or(OrderState::Pending),
            version: self.row.map(|row| row.shop_version().to_string()),
            description,
            provider_ref: session.provider_ref.to_string(),
            redirect_url: redirect_url(&session.presentation),
            qr_payload: qr_payload(&session.presentation),
            expires_at: session.expires_at,
            server_time: self.now,
            links: Links::of_order(self.key),
        }))
    }

    /// The answer for an attempt with an unknown outcome.
    pub(crate) fn accepted_answer(&self) -> CreateAnswer {
        CreateAnswer::Accepted(Box::new(AcceptedPayment {
            order_id: self.key.order_id.to_string(),
            partner: self.key.partner.to_string(),
            merchant_code: self.key.merchant_code.to_string(),
            reference: self.create.reference.to_string(),
            attempt: self.create.attempt,
            state: self.state_or(OrderState::Requested),
            server_time: self.now,
            links: Links::of_order(self.key),
        }))
    }
}

impl CreateAnswer {
    /// Makes the HTTP response.
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

/// `Cache-Control: no-store`: a cached page or QR code could be paid by somebody else.
pub(crate) const NO_STORE: (header::HeaderName, &str) = (header::CACHE_CONTROL, "no-store");
