//! Owns the answers to queries, and the query endpoint of the contract: it returns the status of a
//! payment to callers with the account's key. A caller that never got the providerRef queries by
//! order.
//!
//! `GET /payments/{providerRef}?merchantCode&timestamp&signature` or `GET
//! /payments?merchantCode&orderId&timestamp&signature`. The signature is that of the profile over
//! `merchantCode|providerRef|orderId|timestamp`, with the profile's separator. The missing one of
//! providerRef and orderId is an empty field. The timestamp must be within the profile's skew. The
//! response has `status` (PENDING, SUCCESS, FAILED, EXPIRED or REFUNDED), `amount`, `currency`,
//! `providerRef`, `orderId` and `merchantCode`. 401 without a valid signature, 404 for an unknown
//! payment.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use payfold_partners::mac::SIGNATURE_BYTES;
use payfold_partners::scheme::SimulatedStatus;
use payfold_schemas::ids::{MerchantCode, OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;
use serde::Deserialize;

use crate::notice::payment_values;
use crate::partner::Partner;
use crate::payment::{Payment, TransactionState};
use crate::problem::RequestProblem;

/// The parameters of a status query.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusQuery {
    merchant_code: String,
    #[serde(default)]
    order_id: String,
    timestamp: String,
    signature: String,
}

impl Partner {
    /// Responds with the status of a payment. Errors: 401, 404, or 400 with the parameter's name.
    pub(crate) fn answer_query(
        &self,
        provider_ref: Option<&str>,
        query: &StatusQuery,
    ) -> Result<HttpResponse, RequestProblem> {
        let merchant_code = self.find_query_signer(provider_ref.unwrap_or_default(), query)?;
        let unknown = || RequestProblem::not_found("this account has no such payment");
        let payment = match provider_ref {
            Some(provider_ref) => self.payments.find(provider_ref),
            None => {
                let order_id = OrderId::parse(&query.order_id)
                    .map_err(|problem| RequestProblem::field("orderId", problem))?;
                self.payments.order(merchant_code, &order_id).and_then(|order| order.payment)
            }
        };
        let payment = payment.filter(|payment| payment.account.merchant_code() == merchant_code);
        let payment = payment.ok_or_else(unknown)?;
        respond_status(&payment, provider_ref.unwrap_or_default())
    }

    /// The account that signed a query.
    fn find_query_signer(
        &self,
        provider_ref: &str,
        query: &StatusQuery,
    ) -> Result<&MerchantCode, RequestProblem> {
        let profile = &self.create_endpoint.profile;
        let merchant = MerchantCode::parse(&query.merchant_code).ok();
        let account = merchant.and_then(|code| self.create_endpoint.accounts.get(&code));
        let account = account.ok_or_else(|| {
            RequestProblem::unauthenticated("merchantCode: this partner has no such account")
        })?;
        let parts = [&query.merchant_code, provider_ref, &query.order_id, &query.timestamp];
        let separator = char::from(profile.separator());
        if parts.iter().any(|part| part.contains(separator)) {
            return Err(RequestProblem::field(
                "a parameter",
                "contains the separator of the signing text",
            ));
        }
        let text = parts.join(&separator.to_string());
        let claimed: Option<[u8; SIGNATURE_BYTES]> = profile.output().read(&query.signature);
        if !claimed.is_some_and(|claimed| {
            account.has_signed_call(text.as_bytes(), &claimed, self.clock.now())
        }) {
            return Err(RequestProblem::unauthenticated(
                "signature: it is not this account's signature over \
                 merchantCode|providerRef|orderId|timestamp",
            ));
        }
        let timestamp = Time::parse(&query.timestamp)
            .map_err(|problem| RequestProblem::field("timestamp", problem))?;
        let (now, skew_ms) = (self.clock.now(), profile.time().skew_ms);
        if timestamp < now.plus_ms(-skew_ms) || timestamp > now.plus_ms(skew_ms) {
            return Err(RequestProblem::unauthenticated(
                "timestamp: it is too far from the present",
            ));
        }
        Ok(account.merchant_code())
    }
}

/// Responds with the status of a payment's transaction: that of the session if `provider_ref` is
/// empty. Errors: the payment has no such transaction, or the profile can't say it.
pub(crate) fn respond_status(
    payment: &Payment,
    provider_ref: &str,
) -> Result<HttpResponse, RequestProblem> {
    let requested = match provider_ref {
        "" => payment.provider_ref.clone(),
        named => ProviderRef::parse(named)
            .map_err(|problem| RequestProblem::field("providerRef", problem))?,
    };
    let entry = payment.latest_entry(requested.as_str());
    if entry.is_none() && requested != payment.provider_ref {
        return Err(RequestProblem::not_found("this account has no such payment"));
    }
    let status = entry.as_ref().map(|entry| entry.state.status);
    let pending = || TransactionState {
        provider_ref: requested.clone(),
        status: Status::Success,
        amount: payment.amount,
        currency: payment.currency,
        paid_at: None,
        at: payment.created_at,
    };
    let state = entry.map_or_else(pending, |entry| entry.state);
    let said = SimulatedStatus { payment: payment_values(payment, &state), status };
    Ok(respond(200, payment.account.write_status(&said)?))
}

/// A response with a body as the profile writes it.
pub(crate) fn respond(status: u16, body: Vec<u8>) -> HttpResponse {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    HttpResponse::build(status).content_type("application/json").body(body)
}
