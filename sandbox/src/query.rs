//! Owns the query endpoint: it returns the status of a payment to callers with the account's key. A
//! caller that never got the providerRef queries by order.
//!
//! `GET /payments/{providerRef}?merchantCode&timestamp&signature` or `GET
//! /payments?merchantCode&orderId&timestamp&signature`. The signature is that of the profile over
//! `merchantCode|providerRef|orderId|timestamp`, with the profile's separator. The missing one of
//! providerRef and orderId is an empty field. The timestamp must be within the profile's skew. The
//! response has `status` (PENDING, SUCCESS, FAILED, EXPIRED or REFUNDED), `amount`, `currency`,
//! `providerRef`, `orderId`, `merchantCode`, and `paidAt` if a payment was made. 401 without a
//! valid signature, 404 for an unknown payment.

use actix_web::HttpResponse;
use payfold_partners::mac::SIGNATURE_BYTES;
use payfold_schemas::ids::{MerchantCode, OrderId};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use crate::partner::Partner;
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusAnswer<'a> {
    merchant_code: &'a str,
    order_id: &'a str,
    provider_ref: &'a str,
    status: &'a str,
    amount: Amount,
    currency: Currency,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid_at: Option<Time>,
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
        let payment = payment.filter(|payment| payment.account.merchant_code == *merchant_code);
        let payment = payment.ok_or_else(unknown)?;
        let requested_ref = provider_ref.unwrap_or(payment.provider_ref.as_str());
        let entry = payment.latest_entry(requested_ref);
        if entry.is_none() && requested_ref != payment.provider_ref.as_str() {
            return Err(unknown());
        }
        let state = entry.map(|entry| entry.state);
        Ok(HttpResponse::Ok().json(StatusAnswer {
            merchant_code: merchant_code.as_str(),
            order_id: payment.order_id.as_str(),
            provider_ref: requested_ref,
            status: state.as_ref().map_or("PENDING", |state| state.status.as_str()),
            amount: state.as_ref().map_or(payment.amount, |state| state.amount),
            currency: state.as_ref().map_or(payment.currency, |state| state.currency),
            paid_at: state.and_then(|state| state.paid_at),
        }))
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
        if !claimed.is_some_and(|claimed| account.key.verifies(text.as_bytes(), &claimed)) {
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
        Ok(&account.merchant_code)
    }
}
