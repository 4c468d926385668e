//! Owns the OAuth access tokens of calls (RFC 6749, section 4.4). A token is requested when a call
//! needs one, by one call at a time for each account, and cached until shortly before its expiry.
//! Tokens are in memory only and are never shown.
//!
//! Invariants: a token is used only with the `Account` value and the key it was requested with, so
//! that a changed key or profile requests a new one. A token that the partner has refused is not
//! used again. Each token request has its whole timeout. A failed request also fails the calls that
//! wait for it; they do not each repeat it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use payfold_schemas::time::Time;
use reqwest::Client;
use tokio::sync::Mutex as AsyncMutex;

use crate::directory::account::Account;
use crate::reason::Reason;
use crate::remote::answer::{read_body, reason};
use crate::remote::partner_call::{CallKind, PartnerCall};
use crate::scheme::oauth::rule::{SchemeOauth, TokenGrant};
use crate::secret::Secret;

/// How long a failed token request is returned to other calls instead of repeating it, in ms.
const FAILED_FOR_MS: i64 = 1_000;
/// A new token is requested this long before the old one expires, in ms; for a token of less than
/// ten minutes, a tenth of its lifetime.
const MARGIN_MS: i64 = 60_000;
/// The largest accepted answer to a token request, in bytes.
const ANSWER_BYTES_MAX: usize = 65_536;

/// The access tokens of every account, by account name.
#[derive(Default)]
pub(super) struct TokenCache {
    by_account: Mutex<HashMap<String, Arc<AsyncMutex<TokenSlot>>>>,
}

#[derive(Default)]
struct TokenSlot {
    cached: Option<CachedToken>,
    /// When the last request failed, and why.
    failed: Option<(Time, Reason)>,
}

struct CachedToken {
    token: Secret,
    /// The account value it was requested for. Weak, so that a replaced directory is freed.
    account: Weak<Account>,
    until: Time,
}

/// The access token of one call. It has no `Debug`, so that no log shows it.
pub(super) struct CallToken {
    token: Secret,
    /// Whether the token was in the cache before this call. The partner may have ended it since.
    pub(super) was_cached: bool,
}

impl CallToken {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(self.token.expose()).expect("a token is printable ASCII")
    }
}

impl TokenCache {
    /// The token for a call: the cached one, or a new one if the cached one has expired or is
    /// `spent`. Errors: the reason why there is none, for the log.
    pub(super) async fn get(
        &self,
        call: &PartnerCall,
        client: &Client,
        spent: Option<&CallToken>,
        now: &impl Fn() -> Time,
    ) -> Result<CallToken, Reason> {
        let account = &call.account;
        let rule = account.profile().scheme().oauth.as_ref();
        let rule = rule.expect("a profile has [oauth] if its calls carry a token");
        let slot = self.slot(account);
        let timeout = Duration::from_millis(rule.timeout_ms);
        let late = || Reason(format!("none within {} ms", timeout.as_millis()));
        let found = async {
            let mut slot = slot.lock().await;
            if let Some(token) = slot.usable(account, spent, now()) {
                return Ok(CallToken { token, was_cached: true });
            }
            if let Some(why) = slot.failed_just_now(now()) {
                return Err(why);
            }
            let begun = now();
            let granted =
                tokio::time::timeout(timeout, request_token(rule, call, client, now)).await;
            let grant = granted.unwrap_or_else(|_| Err(late()));
            let token = slot.store(account, grant, (begun, now()));
            token.map(|token| CallToken { token, was_cached: false })
        };
        // A call that finds a request in flight waits for it, and then makes at most one request of
        // its own. That takes at most twice the timeout.
        tokio::time::timeout(timeout * 2, found).await.unwrap_or_else(|_| Err(late()))
    }

    fn slot(&self, account: &Account) -> Arc<AsyncMutex<TokenSlot>> {
        let mut all = self.by_account.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(account.name()).or_default())
    }
}

impl TokenSlot {
    fn usable(
        &self,
        account: &Arc<Account>,
        spent: Option<&CallToken>,
        now: Time,
    ) -> Option<Secret> {
        let cached = self.cached.as_ref()?;
        // Another vault or profile makes another `Account` value, and its token is not used.
        let is_same_account = cached.account.ptr_eq(&Arc::downgrade(account));
        let is_spent = spent.is_some_and(|spent| spent.token.expose() == cached.token.expose());
        (is_same_account && !is_spent && now < cached.until).then(|| cached.token.clone())
    }

    fn failed_just_now(&self, now: Time) -> Option<Reason> {
        let (at, why) = self.failed.as_ref()?;
        (now < at.plus_ms(FAILED_FOR_MS)).then(|| why.clone())
    }

    fn store(
        &mut self,
        account: &Arc<Account>,
        grant: Result<TokenGrant, Reason>,
        (begun, now): (Time, Time),
    ) -> Result<Secret, Reason> {
        match grant {
            Ok(TokenGrant { token, lasts_s }) => {
                let lasts_ms = i64::try_from(lasts_s).unwrap_or(0).saturating_mul(1_000);
                let ends = now.plus_ms(lasts_ms - MARGIN_MS.min(lasts_ms / 10));
                let until =
                    account.calls_change_after(begun).map_or(ends, |change| change.min(ends));
                let account = Arc::downgrade(account);
                let cached = CachedToken { token: token.clone(), account, until };
                *self = Self { cached: Some(cached), failed: None };
                Ok(token)
            }
            Err(why) => {
                *self = Self { cached: None, failed: Some((now, why.clone())) };
                Err(why)
            }
        }
    }
}

/// Requests a token from the partner. Errors: the reason why there is none.
async fn request_token(
    rule: &SchemeOauth,
    call: &PartnerCall,
    client: &Client,
    now: &impl Fn() -> Time,
) -> Result<TokenGrant, Reason> {
    let (account, api_url, now) = (Arc::clone(&call.account), call.api_url.clone(), now());
    let values = rule.values(account.merchant_code().as_str(), now);
    let asking = PartnerCall { account, which: CallKind::Token, api_url, values, now };
    let request = asking.request("").map_err(|why| Reason(why.to_string()))?;
    let response = client.execute(request).await.map_err(|error| Reason(reason(&error)))?;
    let status = response.status();
    let body = read_body(response, ANSWER_BYTES_MAX).await?;
    let (scheme, of) = (call.account.profile().scheme(), call.account.template_inputs());
    let of = (call.account.profile().limits(), of);
    if !status.is_success() {
        let code = rule.grant.refusal(scheme, of, &body);
        return Reason::err(
            format!("the partner answered {} {code}", status.as_u16()).trim_end().to_owned(),
        );
    }
    rule.grant.judge(scheme, of, &body)
}

#[cfg(test)]
mod tests;
