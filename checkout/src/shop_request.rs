//! Owns one request of a shop: which shop sent it, which order its path names, and how it is
//! answered.

use std::future::{Ready, ready};
use std::sync::Arc;

use actix_web::dev;
use actix_web::http::header;
use actix_web::web::{Data, Payload, Query};
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use payfold_partners::shops::ShopEntry;
use payfold_schemas::ids::{MerchantCode, OrderId, OrderKey, PartnerCode};
use serde::de::DeserializeOwned;

use crate::body;
use crate::checkout::{Checkout, Receipt};
use crate::metrics;
use crate::problem::{Problem, kinds};

/// One request to the shop listener.
pub(crate) struct ShopRequest {
    pub(crate) http: HttpRequest,
    pub(crate) payload: Payload,
    pub(crate) checkout: Arc<Checkout>,
    pub(crate) receipt: Receipt,
}

impl FromRequest for ShopRequest {
    type Error = actix_web::Error;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, payload: &mut dev::Payload) -> Self::Future {
        let checkout = request.app_data::<Data<Checkout>>().expect("wired as app data");
        let checkout = Arc::clone(checkout);
        let payload = Payload::from_request(request, payload);
        ready(payload.into_inner().map(|payload| Self {
            http: request.clone(),
            payload,
            receipt: checkout.receipt(),
            checkout,
        }))
    }
}

impl ShopRequest {
    /// Runs `work` and makes the response: counts it, turns a problem into a problem document, and
    /// keeps the unread rest of the body.
    pub(crate) async fn answer(
        mut self,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut Self) -> Result<HttpResponse, Problem>,
    ) -> HttpResponse {
        let _work = self.checkout.open_work();
        let answer = match work(&mut self).await {
            Ok(response) => {
                self.checkout.parts.metrics.count_request(operation, metrics::OK);
                response
            }
            Err(problem) => {
                self.checkout.parts.metrics.count_request(operation, problem.code());
                problem.respond(self.receipt.request_id)
            }
        };
        body::keep_unread_body(self.payload, answer)
    }

    /// Authenticates the shop by the key in the `Authorization` header. Errors: `unauthenticated`.
    pub(crate) fn authenticate_shop(&self) -> Result<ShopEntry, Problem> {
        let unauthenticated = || Problem::new(&kinds::UNAUTHENTICATED);
        let mut headers = self.http.headers().get_all(header::AUTHORIZATION);
        let header = headers.next().and_then(|value| value.to_str().ok());
        let (scheme, token) =
            header.and_then(|text| text.split_once(' ')).ok_or_else(unauthenticated)?;
        if headers.next().is_some() || !scheme.eq_ignore_ascii_case("bearer") {
            return Err(unauthenticated());
        }
        let shops = self.checkout.parts.shops.load();
        let shop = shops.authenticate(token.trim().as_bytes(), self.receipt.received_at);
        shop.cloned().ok_or_else(unauthenticated)
    }

    /// The order the path names. Errors: `not_found`, also if the shop does not have its account.
    pub(crate) fn order_key(&self, shop: &ShopEntry) -> Result<OrderKey, Problem> {
        let part = |name| self.http.match_info().get(name).unwrap_or_default();
        let key = || {
            Some(OrderKey {
                partner: PartnerCode::parse(part("partner")).ok()?,
                merchant_code: MerchantCode::parse(part("merchantCode")).ok()?,
                order_id: OrderId::parse(part("orderId")).ok()?,
            })
        };
        key()
            .filter(|key| shop.may_see(&key.partner, &key.merchant_code))
            .ok_or_else(no_such_payment)
    }

    /// The query's parameters. Errors: `bad_parameter`, also for an unknown or a repeated one.
    pub(crate) fn parse_query<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        Query::from_query(self.http.query_string())
            .map(Query::into_inner)
            .map_err(|error| Problem::new(&kinds::BAD_PARAMETER).with_detail(error.to_string()))
    }
}

/// The problem of an order that does not exist, or is not this shop's: both look the same.
pub(crate) fn no_such_payment() -> Problem {
    Problem::new(&kinds::NOT_FOUND).with_detail("there is no such payment among this shop's")
}
