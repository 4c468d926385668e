//! Handles the calls of every profile but the contract's: a request is tried as a create call and
//! as a query of each account.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse};
use payfold_partners::directory::Account;
use payfold_partners::scheme::{CallReadError, NoticeRequest, ReadCreate, ReadQuery};
use payfold_schemas::ids::OrderId;
use payfold_schemas::time::Time;

use crate::create::CreateCall;
use crate::partner::Partner;
use crate::payment::Payment;
use crate::problem::RequestProblem;
use crate::query;

/// A call that one of the accounts made.
enum SchemeCall {
    Create(ReadCreate),
    Query(ReadQuery),
}

impl Partner {
    /// Handles a call. Errors: the problem to respond with.
    pub(crate) async fn handle_call(
        self: &Arc<Self>,
        request: &HttpRequest,
        body: &[u8],
    ) -> Result<HttpResponse, RequestProblem> {
        let now = self.now_in_ms();
        let headers = request.headers().iter();
        let received = NoticeRequest {
            method: request.method().as_str(),
            base_url: &self.settings.public_url,
            path: request.path(),
            query: request.query_string(),
            headers: NoticeRequest::text_headers(headers.map(|(n, v)| (n.as_str(), v.as_bytes()))),
            body,
        };
        let (account, call) = self.find_caller(&received, now)?;
        match call {
            SchemeCall::Create(read) => {
                self.count_call((account, &read.order_id), now)?;
                let call = self.create_call(Arc::clone(account), read)?;
                self.accept_call(call, now).await
            }
            SchemeCall::Query(read) => self.answer_scheme_query(account, &read),
        }
    }

    /// Finds the account that made a call. Errors: why no account made it; the reason that comes
    /// nearest to a call of ours.
    fn find_caller(
        &self,
        received: &NoticeRequest<'_>,
        now: Time,
    ) -> Result<(&Arc<Account>, SchemeCall), RequestProblem> {
        let mut nearest = CallReadError::Address;
        for account in self.create_endpoint.accounts.values() {
            for read in [
                account.read_create(received, now).map(SchemeCall::Create),
                account.read_query(received, now).map(SchemeCall::Query),
            ] {
                match read {
                    Ok(call) => return Ok((account, call)),
                    Err(error) if nearness(&error) > nearness(&nearest) => nearest = error,
                    Err(_) => {}
                }
            }
        }
        let detail = nearest.to_string();
        Err(match nearest {
            CallReadError::Address => {
                let NoticeRequest { method, path, .. } = received;
                RequestProblem::not_found(format!("{method} {path}: {detail}"))
            }
            CallReadError::Unauthenticated(_) => RequestProblem::unauthenticated(detail),
            CallReadError::Unbuildable(_) | CallReadError::Part(_) | CallReadError::Value(_) => {
                RequestProblem::new(400, "malformed_call", detail)
            }
        })
    }

    fn create_call(
        &self,
        account: Arc<Account>,
        read: ReadCreate,
    ) -> Result<CreateCall, RequestProblem> {
        let shop_page = || format!("{}/shop/result", self.settings.public_url);
        let return_url = read.return_url.unwrap_or_else(shop_page);
        let ipn_url = read.ipn_url.or_else(|| self.settings.notice_url.clone());
        let ipn_url = ipn_url.ok_or_else(|| {
            let detail = "the call does not say where notices go, and neither does public_url of \
                          the process that plays the partner";
            RequestProblem::new(400, "no_notice_url", detail)
        })?;
        Ok(CreateCall {
            account,
            order_id: read.order_id,
            amount: read.amount,
            currency: read.currency,
            description: read.description.into(),
            return_url: self.create_endpoint.check_return_url(&return_url)?,
            ipn_url: self.create_endpoint.check_address("the address for notices", &ipn_url)?,
            expires_at: read.expires_at,
            presentation: read.presentation,
        })
    }

    fn answer_scheme_query(
        &self,
        account: &Account,
        read: &ReadQuery,
    ) -> Result<HttpResponse, RequestProblem> {
        let order_id = OrderId::parse(&read.order_id).ok();
        let payment = match read.provider_ref.as_str() {
            "" => order_id
                .as_ref()
                .and_then(|order_id| self.payments.order(account.merchant_code(), order_id))
                .and_then(|order| order.payment),
            provider_ref => self.payments.find(provider_ref),
        };
        let is_asked = |payment: &Arc<Payment>| {
            payment.account.merchant_code() == account.merchant_code()
                && order_id.as_ref().is_none_or(|order_id| payment.order_id == *order_id)
        };
        let answer = payment
            .filter(is_asked)
            .map(|payment| query::respond_status(&payment, &read.provider_ref));
        match answer {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(problem)) if problem.status != 404 => Err(problem),
            Some(Err(_)) | None => {
                let (status, body) = account.write_unknown()?;
                Ok(query::respond(status, body))
            }
        }
    }
}

/// How near a request came to being a call.
fn nearness(error: &CallReadError) -> u8 {
    match error {
        CallReadError::Address => 0,
        CallReadError::Part(_) => 1,
        CallReadError::Value(_) | CallReadError::Unbuildable(_) => 2,
        CallReadError::Unauthenticated(_) => 3,
    }
}
