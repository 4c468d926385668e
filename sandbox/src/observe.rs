//! Owns what the sandbox tells of itself, for tests and demos; no partner has this. It settles nothing.
//!
//! - `GET /sandbox/creates?min=N`: an object of orderId → how many create calls it has had, of those with N at least.
//! - `GET /sandbox/deliveries?orderId=O[&merchantCode=M]`: how the notices of an order fared, and whether it is
//!   `finished`: nothing more will be sent.
//! - `GET /sandbox/troubles`: the words and what each must come to.

use actix_web::HttpResponse;
use actix_web::web::{Data, Query};
use payfold_schemas::ids::{MerchantCode, OrderId};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::expected::expected;
use crate::partner::Partner;
use crate::payment::{Attempt, Outcome, Sending};
use crate::payments::Order;
use crate::problem::Problem;
use crate::trouble::{Trouble, Troubles};

#[derive(Debug, Deserialize)]
pub(crate) struct Least {
    #[serde(default)]
    min: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Which {
    order_id: OrderId,
    merchant_code: Option<MerchantCode>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Deliveries {
    order_id: OrderId,
    create_calls: u32,
    /// Nothing more will be sent.
    finished: bool,
    deliveries: Vec<Delivery>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Delivery {
    provider_ref: String,
    status: &'static str,
    amount: i64,
    currency: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid_at: Option<Time>,
    acked: bool,
    attempts: Vec<Value>,
}

pub(crate) async fn creates(partner: Data<Partner>, least: Query<Least>) -> HttpResponse {
    HttpResponse::Ok().json(partner.payments.calls(least.min))
}

pub(crate) async fn deliveries(
    partner: Data<Partner>,
    which: Query<Which>,
) -> Result<HttpResponse, Problem> {
    let Which { order_id, merchant_code } = which.into_inner();
    let found = match merchant_code {
        Some(code) => partner.payments.order(&code, &order_id),
        None => (partner.reception.accounts.keys())
            .find_map(|code| partner.payments.order(code, &order_id)),
    };
    let Some(Order { calls, payment }) = found else {
        return Err(Problem::not_found("no create call named this order, or it is long forgotten"));
    };
    let deliveries = payment.as_ref().map(|payment| payment.sendings()).unwrap_or_default();
    Ok(HttpResponse::Ok().json(Deliveries {
        order_id,
        create_calls: calls,
        finished: payment.is_none_or(|payment| payment.is_finished()),
        deliveries: deliveries.into_iter().map(delivery).collect(),
    }))
}

fn delivery(sending: Sending) -> Delivery {
    let said = sending.said;
    Delivery {
        provider_ref: said.provider_ref.to_string(),
        status: said.status.as_str(),
        amount: said.amount.minor(),
        currency: said.currency.code(),
        paid_at: said.paid_at,
        acked: sending.acked,
        attempts: sending.attempts.iter().map(attempt).collect(),
    }
}

/// `http` is null where there was no answer; 200 without `acked` had a body.
fn attempt(attempt: &Attempt) -> Value {
    let status = match attempt.outcome {
        Outcome::Acked => Some(200),
        Outcome::Refused(status) => Some(status),
        Outcome::Unanswered => None,
    };
    let acked = attempt.outcome == Outcome::Acked;
    json!({ "at": attempt.at, "timestamp": attempt.timestamp, "http": status, "acked": acked })
}

pub(crate) async fn troubles() -> HttpResponse {
    let told = Trouble::ALL.map(|trouble| {
        let words = Troubles::new([trouble]).expect("a word goes with itself");
        let expectation = expected(&words);
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
    HttpResponse::Ok().json(told.as_slice())
}
