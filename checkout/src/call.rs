//! Owns one request of a shop: who it is from, which order its path names, and the way every answer leaves.

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

/// One request.
pub(crate) struct Call {
    pub(crate) request: HttpRequest,
    pub(crate) payload: Payload,
    pub(crate) checkout: Arc<Checkout>,
    pub(crate) receipt: Receipt,
}

impl FromRequest for Call {
    type Error = actix_web::Error;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, payload: &mut dev::Payload) -> Self::Future {
        let checkout = request.app_data::<Data<Checkout>>().expect("wired as app data");
        let checkout = Arc::clone(checkout);
        let payload = Payload::from_request(request, payload);
        ready(payload.into_inner().map(|payload| Self {
            request: request.clone(),
            payload,
            receipt: checkout.receipt(),
            checkout,
        }))
    }
}

impl Call {
    /// Does the work and answers: counted, a problem as a document, the rest of the body held.
    pub(crate) async fn answer(
        mut self,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut Self) -> Result<HttpResponse, Problem>,
    ) -> HttpResponse {
        let _open = self.checkout.open_work();
        let answer = match work(&mut self).await {
            Ok(response) => {
                self.checkout.parts.metrics.answered(operation, metrics::OK);
                response
            }
            Err(problem) => {
                self.checkout.parts.metrics.answered(operation, problem.code());
                problem.respond(self.receipt.request_id)
            }
        };
        body::hold(self.payload, answer)
    }

    /// The shop whose key the request carries. Errors: `unauthenticated`.
    pub(crate) fn shop(&self) -> Result<ShopEntry, Problem> {
        let unauthenticated = || Problem::new(&kinds::UNAUTHENTICATED);
        let mut headers = self.request.headers().get_all(header::AUTHORIZATION);
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

    /// The order the path names. Errors: `not_found`, also for one of an account the shop has not.
    pub(crate) fn order_key(&self, shop: &ShopEntry) -> Result<OrderKey, Problem> {
        let part = |name| self.request.match_info().get(name).unwrap_or_default();
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

    /// The query's parameters. Errors: `bad_parameter`, also for one that is not known or there twice.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        Query::from_query(self.request.query_string())
            .map(Query::into_inner)
            .map_err(|error| Problem::new(&kinds::BAD_PARAMETER).because(error.to_string()))
    }
}

/// The problem of an order that is not there, or not this shop's.
pub(crate) fn no_such_payment() -> Problem {
    Problem::new(&kinds::NOT_FOUND).because("there is no such payment among this shop's")
}
