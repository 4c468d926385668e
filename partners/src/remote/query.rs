//! Owns the query call: one signed request, no redirect, within a time and a size, to a checked address. It may be made
//! as often as one likes; what it came to says what may be concluded, and how long to leave the partner alone.

use std::sync::Arc;
use std::time::Duration;

use payfold_schemas::time::Time;
use reqwest::header::{ACCEPT, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Method, Request, Response, StatusCode};

use super::clients::NoClient;
use super::sending::{OwnCall, Sending, Unsendable, Which};
use super::tokens::Carried;
use super::{Remote, none_valid, read, reason};
use crate::directory::Account;
use crate::keys::Channel;
use crate::outbound::{Reach, UrlProblem};
use crate::profile::QueryRule;
use crate::query::{Ambiguous, Question, Told, WrongAnswer, judge};
use crate::scheme::Scheme;
use crate::scheme::call::Uncallable;
use crate::scheme::query::{self, SchemeQuery};

/// What a query came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queried {
    /// The partner told of this payment.
    Told(Told),
    /// A complete answer that breaks a rule: believed nothing of.
    Wrong(WrongAnswer),
    /// 429 or 503: to be left alone, for so long where it said how long, ms.
    Busy(Option<u64>),
    /// Another 4xx: it does not take our question.
    Refused(u16),
    /// No answer, or none that is whole. Why, for the log.
    Unanswered(String),
}

/// Why a query can't be made at all: the configuration, or a question the profile can't sign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The profile has no `[query]`.
    #[error("partner {0} takes no queries: its profile has no [query]")]
    NoQuery(String),
    /// The account has no key that counts now. Which account, and when its keys are valid.
    #[error(
        "no key for calls of account {0}; check the clock of this machine, or add one with payfold key add"
    )]
    NoKey(String),
    /// The partner's TLS is to be shown a certificate, and the account has none that counts now. Which account, and when its
    /// certificates are valid.
    #[error(
        "no client certificate of account {0}; check the clock of this machine, or add one with payfold key add --channel tls"
    )]
    NoCertificate(String),
    /// The partner is asked for transactions, and none is known yet.
    #[error("no transaction is known yet, and partner {0} is asked for transactions only")]
    NoRef(String),
    /// The question can't be put as the profile says. Why; never a value.
    #[error("the question to partner {0} can't be put together: {1}")]
    Unaskable(String, String),
    /// The value holds the separator.
    #[error(transparent)]
    Ambiguous(#[from] Ambiguous),
    /// The partner's address.
    #[error("the partner's address can't be called: {0}")]
    Address(UrlProblem),
}

// No `#[from]`: a cause would be told twice.
impl From<UrlProblem> for QueryError {
    fn from(problem: UrlProblem) -> Self {
        Self::Address(problem)
    }
}

/// A query that can be made: everything that could be wrong on our side has been looked at.
pub struct QueryCall {
    client: Client,
    sending: Sending,
    question: Question,
    judge: Judge,
    timeout_ms: u64,
    answer_bytes_max: usize,
}

/// Whose rules an answer is judged by.
enum Judge {
    Contract(QueryRule),
    /// The account's partner has a scheme of its own.
    Own(Arc<Account>),
}

impl Remote {
    /// Signs a question, as our create calls are signed, and looks at where it goes. `api_url` is the partner's
    /// address of the settings.
    pub fn prepare_query(
        &self,
        account: &Arc<Account>,
        api_url: &str,
        question: Question,
        now: Time,
    ) -> Result<QueryCall, QueryError> {
        let profile = account.profile();
        if let Some(scheme) = profile.scheme() {
            return self.prepare_own((account, scheme), api_url, question, now);
        }
        let rule = profile.query();
        let rule = rule.ok_or_else(|| QueryError::NoQuery(account.partner().to_string()))?;
        let key = account
            .keys_of(Channel::Create)
            .signing_key(now)
            .ok_or_else(|| QueryError::NoKey(none_valid(account, &[Channel::Create])))?;
        let reach = Reach::of(profile);
        let url = reach.check(&format!("{}{}", api_url.trim_end_matches('/'), rule.path))?;
        let url = question.signed((profile, rule), key.mac(), now, url)?;
        let client = self.clients.of(account, now).map_err(|why| no_client(account, why))?;
        let mut request = Request::new(Method::GET, url);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let sending = Sending::Ready(Box::new(request));
        let (timeout_ms, answer_bytes_max) = (rule.timeout_ms, rule.answer_bytes_max);
        let judge = Judge::Contract(rule.clone());
        Ok(QueryCall { client, sending, question, judge, timeout_ms, answer_bytes_max })
    }

    /// The same in the partner's own scheme.
    fn prepare_own(
        &self,
        (account, scheme): (&Arc<Account>, &Scheme),
        api_url: &str,
        question: Question,
        now: Time,
    ) -> Result<QueryCall, QueryError> {
        let query = scheme.query.as_ref();
        let query = query.ok_or_else(|| QueryError::NoQuery(account.partner().to_string()))?;
        let values = query.values(&question, now).map_err(|why| unaskable(account, &why))?;
        let (which, api_url) = (Which::Query, api_url.to_owned());
        let call = OwnCall { account: Arc::clone(account), which, api_url, values, now };
        // What is wrong on our side shows before anybody is asked for a token.
        let request = call.request("").map_err(|why| match why {
            Unsendable::Uncallable(why) => unaskable(account, &why),
            Unsendable::Address(problem) => QueryError::Address(problem),
            Unsendable::Header(_) => {
                QueryError::Unaskable(account.partner().to_string(), why.to_string())
            }
        })?;
        let client = self.clients.of(account, now).map_err(|why| no_client(account, why))?;
        let sending = Sending::of(call, request, (&client, &self.tokens));
        Ok(QueryCall {
            client,
            sending,
            question,
            timeout_ms: query.timeout_ms,
            answer_bytes_max: query.answer.bytes_max,
            judge: Judge::Own(Arc::clone(account)),
        })
    }
}

fn no_client(account: &Account, why: NoClient) -> QueryError {
    match why {
        NoClient::NoCertificate => QueryError::NoCertificate(none_valid(account, &[Channel::Tls])),
        NoClient::Unusable(why) => QueryError::Unaskable(account.partner().to_string(), why),
    }
}

fn unaskable(account: &Account, why: &Uncallable) -> QueryError {
    let partner = account.partner().to_string();
    match why {
        Uncallable::NoRef => QueryError::NoRef(partner),
        Uncallable::NoKey => {
            QueryError::NoKey(none_valid(account, &[Channel::Create, Channel::Sign]))
        }
        _ => QueryError::Unaskable(partner, why.to_string()),
    }
}

impl Judge {
    /// Whether this status means that there is no such payment.
    fn knows_none(&self, status: StatusCode) -> bool {
        match self.own() {
            None => status == StatusCode::NOT_FOUND,
            Some((_, query)) => query.answer.not_found.contains(&status.as_u16()),
        }
    }

    /// Whether what comes with this status is an answer.
    fn answers(&self, status: StatusCode) -> bool {
        status == StatusCode::OK || (self.own().is_some() && status.is_success())
    }

    fn own(&self) -> Option<(&Account, &SchemeQuery)> {
        match self {
            Self::Contract(_) => None,
            Self::Own(account) => {
                let query = account.profile().scheme()?.query.as_ref()?;
                Some((account.as_ref(), query))
            }
        }
    }

    fn judge(&self, body: &[u8], question: &Question) -> Result<Told, WrongAnswer> {
        match self {
            Self::Contract(rule) => judge(body, question, rule),
            Self::Own(account) => {
                let profile = account.profile();
                let scheme = profile.scheme().expect("it was asked by its own scheme");
                let query = scheme.query.as_ref().expect("it was asked by its query");
                query::judge((scheme, query), (profile.limits(), account.of()), question, body)
            }
        }
    }
}

impl QueryCall {
    /// Makes the call. Never fails: every end says what it is worth.
    pub async fn make(self, now: impl Fn() -> Time) -> Queried {
        let now = &now;
        let token = match self.sending.token(None, now).await {
            Ok(token) => token,
            Err(why) => return Queried::Unanswered(why),
        };
        let queried = self.in_time(token.as_ref(), now).await;
        let Some(spent) = token.filter(|token| token.was_kept) else { return queried };
        if queried != Queried::Refused(StatusCode::UNAUTHORIZED.as_u16()) {
            return queried;
        }
        // A token may end sooner than was said.
        match self.sending.token(Some(&spent), now).await {
            Ok(token) => self.in_time(token.as_ref(), now).await,
            Err(why) => Queried::Unanswered(why),
        }
    }

    async fn in_time(&self, token: Option<&Carried>, now: &impl Fn() -> Time) -> Queried {
        let timeout = Duration::from_millis(self.timeout_ms);
        match tokio::time::timeout(timeout, self.exchange(token, now)).await {
            Ok(queried) => queried,
            Err(_) => {
                Queried::Unanswered(format!("no whole answer within {} ms", timeout.as_millis()))
            }
        }
    }

    async fn exchange(&self, token: Option<&Carried>, now: &impl Fn() -> Time) -> Queried {
        let request = match self.sending.request(token, now()) {
            Ok(request) => request,
            Err(why) => return Queried::Unanswered(why),
        };
        let response = match self.client.execute(request).await {
            Ok(response) => response,
            Err(error) => return Queried::Unanswered(reason(&error)),
        };
        let status = response.status();
        if status.is_redirection() {
            return Queried::Wrong(WrongAnswer::Redirect);
        }
        if self.judge.knows_none(status) {
            return Queried::Told(Told::Unknown);
        }
        match status {
            status if self.judge.answers(status) => {
                match read(response, self.answer_bytes_max).await {
                    Ok(body) => {
                        let judged = self.judge.judge(&body, &self.question);
                        judged.map_or_else(Queried::Wrong, Queried::Told)
                    }
                    Err(reason) => Queried::Unanswered(reason),
                }
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Queried::Busy(retry_after_ms(&response, now()))
            }
            StatusCode::REQUEST_TIMEOUT => Queried::Unanswered("the partner answered 408".into()),
            refused if refused.is_client_error() => Queried::Refused(refused.as_u16()),
            other => Queried::Unanswered(format!("the partner answered {}", other.as_u16())),
        }
    }
}

/// `Retry-After` in ms, from seconds or a date (RFC 9110, 10.2.3); none where it says nothing that can be read.
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
