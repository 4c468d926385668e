//! Owns the query call: one signed GET, no redirect, within a time and a size, to a checked address. It may be made
//! as often as one likes; what it came to says what may be concluded, and how long to leave the partner alone.

use std::time::Duration;

use payfold_schemas::time::Time;
use reqwest::header::{ACCEPT, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};

use super::{Remote, read, reason};
use crate::directory::Account;
use crate::keys::Channel;
use crate::outbound::{Reach, UrlProblem};
use crate::profile::QueryRule;
use crate::query::{Ambiguous, Question, Told, WrongAnswer, judge};

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
    /// The account has no key that counts now.
    #[error("account {0} has no key that is valid now; add one with payfold key add")]
    NoKey(String),
    /// The value holds the separator.
    #[error(transparent)]
    Ambiguous(#[from] Ambiguous),
    /// The partner's address.
    #[error("the partner's address can't be called: {0}")]
    Address(#[from] UrlProblem),
}

/// A query that can be made: everything that could be wrong on our side has been looked at.
pub struct QueryCall {
    client: Client,
    url: url::Url,
    question: Question,
    rule: QueryRule,
}

impl Remote {
    /// Signs a question, as our create calls are signed, and looks at where it goes. `api_url` is the partner's
    /// address of the settings.
    pub fn prepare_query(
        &self,
        account: &Account,
        api_url: &str,
        question: Question,
        now: Time,
    ) -> Result<QueryCall, QueryError> {
        let profile = account.profile();
        let rule = profile.query();
        let rule = rule.ok_or_else(|| QueryError::NoQuery(account.partner().to_string()))?;
        let key = account.keys_of(Channel::Create).signing_key(now).ok_or_else(|| {
            QueryError::NoKey(format!("{}/{}", account.partner(), account.merchant_code()))
        })?;
        let reach = Reach::of(profile);
        let url = reach.check(&format!("{}{}", api_url.trim_end_matches('/'), rule.path))?;
        let url = question.signed((profile, rule), key.mac(), now, url)?;
        let client = match reach {
            Reach::Public => self.public.clone(),
            Reach::Sandbox => self.sandbox.clone(),
        };
        Ok(QueryCall { client, url, question, rule: rule.clone() })
    }
}

impl QueryCall {
    /// Makes the call. Never fails: every end says what it is worth.
    pub async fn make(self, now: impl Fn() -> Time) -> Queried {
        let timeout = Duration::from_millis(self.rule.timeout_ms);
        match tokio::time::timeout(timeout, self.exchange(now)).await {
            Ok(queried) => queried,
            Err(_) => {
                Queried::Unanswered(format!("no whole answer within {} ms", timeout.as_millis()))
            }
        }
    }

    async fn exchange(self, now: impl Fn() -> Time) -> Queried {
        let request = self.client.get(self.url).header(ACCEPT, "application/json");
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Queried::Unanswered(reason(&error)),
        };
        let status = response.status();
        if status.is_redirection() {
            return Queried::Wrong(WrongAnswer::Redirect);
        }
        match status {
            StatusCode::OK => match read(response, self.rule.answer_bytes_max).await {
                Ok(body) => {
                    let judged = judge(&body, &self.question, &self.rule);
                    judged.map_or_else(Queried::Wrong, Queried::Told)
                }
                Err(reason) => Queried::Unanswered(reason),
            },
            StatusCode::NOT_FOUND => Queried::Told(Told::Unknown),
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
