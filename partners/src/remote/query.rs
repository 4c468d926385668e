//! Owns the status query call: one signed request to a checked address, without redirects, bounded
//! in time and in the size of its answer. A query changes nothing at the partner and may be
//! repeated. Its outcome is a valid or an invalid answer, a requested pause, a refusal, or no
//! answer.

use std::sync::Arc;
use std::time::Duration;

use payfold_schemas::time::Time;
use reqwest::header::RETRY_AFTER;
use reqwest::{Client, Response, StatusCode};

use super::prepared_call::PreparedCall;
use super::tokens::CallToken;
use crate::directory::account::Account;
use crate::query::{PaymentQuery, PaymentStatus, QueryViolation};
use crate::remote::answer::{read_body, reason};
use crate::remote::partner_call::{CallError, CallKind, PartnerCall, RequestError};
use crate::remote::partner_client::PartnerClient;
use crate::scheme::call::CallBuildError;
use crate::scheme::query::rule::SchemeQuery;

/// The outcome of a status query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryOutcome {
    /// A valid answer, with the status of the payment.
    Answered(PaymentStatus),
    /// A complete answer that breaks a rule. Nothing in it is used.
    Invalid(QueryViolation),
    /// 429 or 503: the partner asks for a pause. Holds the pause in ms, if `Retry-After` gives one.
    Busy(Option<u64>),
    /// Another 4xx: the partner refuses the query.
    Refused(u16),
    /// No answer, or an incomplete one. Holds the reason, for the log.
    Unanswered(String),
}

/// Why a query can't be prepared: a mistake in the configuration, or a query that the profile can't
/// express. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The profile has no `[query]`.
    #[error("partner {0} takes no queries: its profile has no [query]")]
    NoQuery(String),
    /// The profile queries by transaction, and the transaction is not known yet. Holds the partner.
    #[error("no transaction is known yet, and partner {0} is queried by transaction only")]
    NoRef(String),
    /// The call can't be made.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A query that is ready to be made. The configuration, keys and address are checked.
pub struct QueryCall {
    account: Arc<Account>,
    client: Client,
    prepared: PreparedCall,
    payment_query: PaymentQuery,
    timeout_ms: u64,
    answer_bytes_max: usize,
}

impl PartnerClient {
    /// Signs a query with the keys of create calls, and checks its address. `api_url` is the
    /// partner's address in the settings. Errors: `QueryError`; nothing is sent.
    pub fn prepare_query(
        &self,
        account: &Arc<Account>,
        api_url: &str,
        payment_query: PaymentQuery,
        now: Time,
    ) -> Result<QueryCall, QueryError> {
        let query = account.profile().scheme().query.as_ref();
        let query = query.ok_or_else(|| QueryError::NoQuery(account.partner().to_string()))?;
        let values = query.values(&payment_query, now).map_err(|why| unaskable(account, why))?;
        let (which, api_url) = (CallKind::Query, api_url.to_owned());
        let call = PartnerCall { account: Arc::clone(account), which, api_url, values, now };
        // Builds the request once without a token, so that a mistake on our side is found before a
        // token is requested.
        let request = call.request("");
        let request = request.map_err(|why| CallError::of_request(account, why))?;
        let client = self.clients.of(account, now);
        let client = client.map_err(|why| CallError::of_client(account, why))?;
        let prepared = PreparedCall::new(call, request, (&client, &self.tokens));
        let (timeout_ms, answer_bytes_max) = (query.timeout_ms, query.answer.bytes_max);
        let account = Arc::clone(account);
        Ok(QueryCall { account, client, prepared, payment_query, timeout_ms, answer_bytes_max })
    }
}

fn unaskable(account: &Account, why: CallBuildError) -> QueryError {
    match why {
        CallBuildError::NoRef => QueryError::NoRef(account.partner().to_string()),
        why => CallError::of_request(account, RequestError::Uncallable(why)).into(),
    }
}

impl QueryCall {
    /// Makes the call. Every outcome, failures included, is a `QueryOutcome`.
    pub async fn make(self, now: impl Fn() -> Time) -> QueryOutcome {
        let now = &now;
        let token = match self.prepared.token(None, now).await {
            Ok(token) => token,
            Err(why) => return QueryOutcome::Unanswered(why.0),
        };
        let queried = self.with_timeout(token.as_ref(), now).await;
        let Some(spent) = token.filter(|token| token.was_cached) else { return queried };
        if queried != QueryOutcome::Refused(StatusCode::UNAUTHORIZED.as_u16()) {
            return queried;
        }
        // The partner may end a token before its stated expiry.
        match self.prepared.token(Some(&spent), now).await {
            Ok(token) => self.with_timeout(token.as_ref(), now).await,
            Err(why) => QueryOutcome::Unanswered(why.0),
        }
    }

    async fn with_timeout(
        &self,
        token: Option<&CallToken>,
        now: &impl Fn() -> Time,
    ) -> QueryOutcome {
        let timeout = Duration::from_millis(self.timeout_ms);
        match tokio::time::timeout(timeout, self.exchange(token, now)).await {
            Ok(queried) => queried,
            Err(_) => QueryOutcome::Unanswered(format!(
                "no whole answer within {} ms",
                timeout.as_millis()
            )),
        }
    }

    async fn exchange(&self, token: Option<&CallToken>, now: &impl Fn() -> Time) -> QueryOutcome {
        let request = match self.prepared.request(token, now()) {
            Ok(request) => request,
            Err(why) => return QueryOutcome::Unanswered(why.0),
        };
        let response = match self.client.execute(request).await {
            Ok(response) => response,
            Err(error) => return QueryOutcome::Unanswered(reason(&error)),
        };
        let status = response.status();
        if status.is_redirection() {
            return QueryOutcome::Invalid(QueryViolation::Redirect);
        }
        if self.query().answer.not_found.contains(&status.as_u16()) {
            return QueryOutcome::Answered(PaymentStatus::Unknown);
        }
        match status {
            status if status.is_success() && status != StatusCode::NO_CONTENT => {
                match read_body(response, self.answer_bytes_max).await {
                    Ok(body) => {
                        let judged = self.account.judge_answer(&self.payment_query, &body);
                        judged.map_or_else(QueryOutcome::Invalid, QueryOutcome::Answered)
                    }
                    Err(why) => QueryOutcome::Unanswered(why.0),
                }
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                QueryOutcome::Busy(retry_after_ms(&response, now()))
            }
            StatusCode::REQUEST_TIMEOUT => {
                QueryOutcome::Unanswered("the partner answered 408".into())
            }
            refused if refused.is_client_error() => QueryOutcome::Refused(refused.as_u16()),
            other => QueryOutcome::Unanswered(format!("the partner answered {}", other.as_u16())),
        }
    }
}

impl QueryCall {
    fn query(&self) -> &SchemeQuery {
        self.account.profile().scheme().query.as_ref().expect("it was prepared by this rule")
    }
}

/// `Retry-After` in ms, from seconds or a date (RFC 9110, section 10.2.3). `None` if the header is
/// missing or can't be read.
fn retry_after_ms(response: &Response, now: Time) -> Option<u64> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(text.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1_000));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let at_ms = at.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis();
    let now_ms = u128::try_from(now.unix_ms()).unwrap_or(0);
    u64::try_from(at_ms.saturating_sub(now_ms)).ok()
}

#[cfg(test)]
mod tests;
