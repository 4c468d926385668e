//! Owns the sandbox's introspection endpoints, for tests and demos. A real partner has none. They
//! change nothing.
//!
//! - `GET /sandbox/creates?min=N`: an object of orderId → number of its create calls, for orders
//!   with at least N calls.
//! - `GET /sandbox/deliveries?orderId=O[&merchantCode=M]`: the notices of an order with all
//!   attempts, and whether it is `finished`, that is, nothing more will be sent.
//! - `GET /sandbox/troubles`: the keywords with their expected results.

use actix_web::HttpResponse;
use actix_web::web::{Data, Query};
use payfold_schemas::ids::{MerchantCode, OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::expectation::expect_outcome;
use crate::partner::Partner;
use crate::payment::{AttemptOutcome, SendAttempt, SentNotice};
use crate::payments::OrderEntry;
use crate::problem::RequestProblem;
use crate::trouble::Trouble;
use crate::troubles::Troubles;

#[derive(Debug, Deserialize)]
pub(crate) struct CreatesQuery {
    #[serde(default)]
    min: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveriesQuery {
    order_id: OrderId,
    merchant_code: Option<MerchantCode>,
}

/// The notices of an order.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderDeliveries {
    /// The order.
    pub order_id: OrderId,
    /// How many create calls named the order.
    pub create_calls: u32,
    /// Whether nothing more will be sent.
    pub finished: bool,
    /// The notices with their attempts.
    pub deliveries: Vec<ObservedDelivery>,
}

/// One notice with its attempts.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedDelivery {
    /// The transaction.
    pub provider_ref: ProviderRef,
    /// The status in the notice.
    pub status: Status,
    /// The amount in minor units.
    pub amount: Amount,
    /// The ISO 4217 code.
    pub currency: Currency,
    /// When the payer paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paid_at: Option<Time>,
    /// Whether an attempt was acknowledged.
    pub acked: bool,
    /// The attempts, oldest first.
    pub attempts: Vec<SentAttempt>,
}

/// One attempt to send a notice.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SentAttempt {
    /// When it was sent.
    pub at: Time,
    /// The timestamp in the notice.
    pub timestamp: Option<Time>,
    /// The HTTP status of the answer; null if there was none.
    pub http: Option<u16>,
    /// Whether the answer acknowledges the notice. A 200 with a body does not.
    pub acked: bool,
}

pub(crate) async fn list_creates(
    partner: Data<Partner>,
    query: Query<CreatesQuery>,
) -> HttpResponse {
    HttpResponse::Ok().json(partner.payments.create_calls(query.min))
}

pub(crate) async fn list_deliveries(
    partner: Data<Partner>,
    query: Query<DeliveriesQuery>,
) -> Result<HttpResponse, RequestProblem> {
    let DeliveriesQuery { order_id, merchant_code } = query.into_inner();
    let found = match merchant_code {
        Some(code) => partner.payments.order(&code, &order_id),
        None => (partner.create_endpoint.accounts.keys())
            .find_map(|code| partner.payments.order(code, &order_id)),
    };
    let Some(OrderEntry { calls, payment }) = found else {
        return Err(RequestProblem::not_found(
            "no create call named this order, or the sandbox no longer remembers it",
        ));
    };
    let deliveries = payment.as_ref().map(|payment| payment.sent_notices()).unwrap_or_default();
    Ok(HttpResponse::Ok().json(OrderDeliveries {
        order_id,
        create_calls: calls,
        finished: payment.is_none_or(|payment| payment.is_finished()),
        deliveries: deliveries.into_iter().map(observe_delivery).collect(),
    }))
}

fn observe_delivery(sending: SentNotice) -> ObservedDelivery {
    let state = sending.state;
    ObservedDelivery {
        provider_ref: state.provider_ref,
        status: state.status,
        amount: state.amount,
        currency: state.currency,
        paid_at: state.paid_at,
        acked: sending.acked,
        attempts: sending.attempts.iter().map(observe_attempt).collect(),
    }
}

fn observe_attempt(attempt: &SendAttempt) -> SentAttempt {
    let http = match attempt.outcome {
        AttemptOutcome::Acked(status) | AttemptOutcome::Refused(status) => Some(status),
        AttemptOutcome::Unanswered => None,
    };
    let SendAttempt { at, timestamp, outcome } = *attempt;
    SentAttempt { at, timestamp, http, acked: outcome.is_acked() }
}

pub(crate) async fn list_troubles() -> HttpResponse {
    let rows = Trouble::ALL.map(|trouble| {
        let troubles = Troubles::new([trouble]).expect("a keyword does not conflict with itself");
        let expectation = expect_outcome(&troubles);
        let flags: Vec<_> = (expectation.flags.iter())
            .map(|(flag, severity)| json!({ "flag": flag, "severity": severity }))
            .collect();
        json!({
            "word": trouble.name(),
            "create": { "status": expectation.create.status, "code": expectation.create.code },
            "state": expectation.state,
            "flags": flags,
            "fulfil": expectation.fulfil,
            "acked": expectation.acked,
            "refused": expectation.refused,
        })
    });
    HttpResponse::Ok().json(rows.as_slice())
}
