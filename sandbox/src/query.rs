//! Owns the query endpoint: what a payment came to, told to who has its account's key. By transaction, or by order
//! for who never learnt the transaction.
//!
//! `GET /payments/{providerRef}?merchantCode&timestamp&signature` or `GET /payments?merchantCode&orderId&timestamp&
//! signature`. The signature is the profile's over `merchantCode|providerRef|orderId|timestamp` (its separator; the
//! one of the two that is not named is an empty slot), the timestamp within the skew the profile has for notices.
//! The answer: `status` PENDING, SUCCESS, FAILED, EXPIRED or REFUNDED, `amount`, `currency`, `providerRef`, `orderId`,
//! `merchantCode`, and `paidAt` where somebody paid. 401 for what nobody here has signed, 404 for what is not known.

use actix_web::HttpResponse;
use payfold_partners::mac::SIGNATURE_BYTES;
use payfold_schemas::ids::{MerchantCode, OrderId};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use crate::partner::Partner;
use crate::problem::Problem;

/// The parameters of a query.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Query {
    merchant_code: String,
    #[serde(default)]
    order_id: String,
    timestamp: String,
    signature: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
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
    /// Tells what a payment came to. Errors: 401, 404, or 400 with the parameter's name.
    pub(crate) fn tell(
        &self,
        provider_ref: Option<&str>,
        query: &Query,
    ) -> Result<HttpResponse, Problem> {
        let merchant_code = self.signer(provider_ref.unwrap_or_default(), query)?;
        let unknown = || Problem::not_found("this account has no such payment here");
        let payment = match provider_ref {
            Some(provider_ref) => self.payments.find(provider_ref),
            None => {
                let order_id = OrderId::parse(&query.order_id)
                    .map_err(|problem| Problem::field("orderId", problem))?;
                self.payments.order(merchant_code, &order_id).and_then(|order| order.payment)
            }
        };
        let payment = payment.filter(|payment| payment.account.merchant_code == *merchant_code);
        let payment = payment.ok_or_else(unknown)?;
        let asked = provider_ref.unwrap_or(payment.provider_ref.as_str());
        let entry = payment.latest(asked);
        if entry.is_none() && asked != payment.provider_ref.as_str() {
            return Err(unknown());
        }
        let said = entry.map(|entry| entry.said);
        Ok(HttpResponse::Ok().json(Told {
            merchant_code: merchant_code.as_str(),
            order_id: payment.order_id.as_str(),
            provider_ref: asked,
            status: said.as_ref().map_or("PENDING", |said| said.status.as_str()),
            amount: said.as_ref().map_or(payment.amount, |said| said.amount),
            currency: said.as_ref().map_or(payment.currency, |said| said.currency),
            paid_at: said.and_then(|said| said.paid_at),
        }))
    }

    /// The account that has signed a query.
    fn signer(&self, provider_ref: &str, query: &Query) -> Result<&MerchantCode, Problem> {
        let profile = &self.reception.profile;
        let merchant = MerchantCode::parse(&query.merchant_code).ok();
        let account = merchant.and_then(|code| self.reception.accounts.get(&code));
        let account = account.ok_or_else(|| {
            Problem::unauthenticated("merchantCode: there is no such account at this partner")
        })?;
        let parts = [&query.merchant_code, provider_ref, &query.order_id, &query.timestamp];
        let separator = char::from(profile.separator());
        if parts.iter().any(|part| part.contains(separator)) {
            return Err(Problem::field("a parameter", "holds the separator of the signing text"));
        }
        let text = parts.join(&separator.to_string());
        let claimed: Option<[u8; SIGNATURE_BYTES]> = profile.output().read(&query.signature);
        if !claimed.is_some_and(|claimed| account.key.verifies(text.as_bytes(), &claimed)) {
            return Err(Problem::unauthenticated(
                "signature: it is not this account's of merchantCode|providerRef|orderId|timestamp",
            ));
        }
        let timestamp = Time::parse(&query.timestamp)
            .map_err(|problem| Problem::field("timestamp", problem))?;
        let (now, skew_ms) = (self.clock.now(), profile.time().skew_ms);
        if timestamp < now.plus_ms(-skew_ms) || timestamp > now.plus_ms(skew_ms) {
            return Err(Problem::unauthenticated("timestamp: it is too far from the present"));
        }
        Ok(&account.merchant_code)
    }
}
