//! Owns the access tokens our calls carry (RFC 6749, 4.4): asked for when a call needs one, by one call at a time for
//! each account, and kept until shortly before they end. In memory only, and never shown.
//!
//! Invariants: a token is used with the very account it was granted to and with no other key than it was asked for with, so that
//! a changed key or profile asks anew; one that a partner no longer takes is used no more; each asking has its whole time, and
//! a no, or none in that time, is not asked over again at once by everybody who waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use payfold_schemas::time::Time;
use reqwest::Client;
use tokio::sync::Mutex as AsyncMutex;

use super::sending::{OwnCall, Which};
use super::{read, reason};
use crate::directory::Account;
use crate::scheme::oauth::{Grant, SchemeToken};
use crate::secret::Secret;

/// How long a failure answers those who waited for the same, ms.
const FAILED_FOR_MS: i64 = 1_000;
/// How long before its end a token is asked for anew, at most, ms.
const MARGIN_MS: i64 = 60_000;
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 65_536;

/// The tokens of every account.
#[derive(Default)]
pub(super) struct Tokens {
    by_account: Mutex<HashMap<String, Arc<AsyncMutex<Slot>>>>,
}

#[derive(Default)]
struct Slot {
    kept: Option<Kept>,
    failed: Option<(Time, String)>,
}

struct Kept {
    token: Secret,
    of: Weak<Account>,
    until: Time,
}

/// A token that a call carries. It has no `Debug`.
pub(super) struct Carried {
    token: Secret,
    /// It was there before this call; a partner may have ended it since.
    pub(super) was_kept: bool,
}

impl Carried {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(self.token.expose()).expect("a token is printable ASCII")
    }
}

impl Tokens {
    /// The token for a call of this account: the kept one, unless it ended or is `spent`, or a new one. Errors: why there is
    /// none, for the log.
    pub(super) async fn of(
        &self,
        call: &OwnCall,
        client: &Client,
        spent: Option<&Carried>,
        now: &impl Fn() -> Time,
    ) -> Result<Carried, String> {
        let account = &call.account;
        let scheme = account.profile().scheme().and_then(|scheme| scheme.oauth.as_ref());
        let rule = scheme.expect("what carries a token has [oauth]");
        let slot = self.slot(account);
        let timeout = Duration::from_millis(rule.timeout_ms);
        let late = || format!("none within {} ms", timeout.as_millis());
        let found = async {
            let mut slot = slot.lock().await;
            if let Some(token) = slot.usable(account, spent, now()) {
                return Ok(Carried { token, was_kept: true });
            }
            if let Some(why) = slot.failed_just_now(now()) {
                return Err(why);
            }
            let begun = now();
            let asked = tokio::time::timeout(timeout, ask(rule, call, client, now)).await;
            let grant = asked.unwrap_or_else(|_| Err(late()));
            let kept = slot.keep(account, grant, (begun, now()));
            kept.map(|token| Carried { token, was_kept: false })
        };
        // Who comes while another asks waits for that, and asks once at most.
        tokio::time::timeout(timeout * 2, found).await.unwrap_or_else(|_| Err(late()))
    }

    fn slot(&self, account: &Account) -> Arc<AsyncMutex<Slot>> {
        let mut all = self.by_account.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(account.name()).or_default())
    }
}

impl Slot {
    fn usable(&self, account: &Arc<Account>, spent: Option<&Carried>, now: Time) -> Option<Secret> {
        let kept = self.kept.as_ref()?;
        let is_theirs = kept.of.ptr_eq(&Arc::downgrade(account));
        let is_spent = spent.is_some_and(|spent| spent.token.expose() == kept.token.expose());
        (is_theirs && !is_spent && now < kept.until).then(|| kept.token.clone())
    }

    fn failed_just_now(&self, now: Time) -> Option<String> {
        let (at, why) = self.failed.as_ref()?;
        (now < at.plus_ms(FAILED_FOR_MS)).then(|| why.clone())
    }

    fn keep(
        &mut self,
        account: &Arc<Account>,
        grant: Result<Grant, String>,
        (begun, now): (Time, Time),
    ) -> Result<Secret, String> {
        match grant {
            Ok(Grant { token, lasts_s }) => {
                let lasts_ms = i64::try_from(lasts_s).unwrap_or(0).saturating_mul(1_000);
                let ends = now.plus_ms(lasts_ms - MARGIN_MS.min(lasts_ms / 10));
                let until =
                    account.calls_change_after(begun).map_or(ends, |change| change.min(ends));
                let of = Arc::downgrade(account);
                *self = Self { kept: Some(Kept { token: token.clone(), of, until }), failed: None };
                Ok(token)
            }
            Err(why) => {
                *self = Self { kept: None, failed: Some((now, why.clone())) };
                Err(why)
            }
        }
    }
}

/// Asks for a token. Errors: why there is none.
async fn ask(
    rule: &SchemeToken,
    call: &OwnCall,
    client: &Client,
    now: &impl Fn() -> Time,
) -> Result<Grant, String> {
    let (account, api_url, now) = (Arc::clone(&call.account), call.api_url.clone(), now());
    let values = rule.values(account.merchant_code().as_str(), now);
    let asking = OwnCall { account, which: Which::Token, api_url, values, now };
    let request = asking.request("").map_err(|why| why.to_string())?;
    let response = client.execute(request).await.map_err(|error| reason(&error))?;
    let status = response.status();
    let body = read(response, ANSWER_BYTES_MAX).await?;
    let (scheme, of) = (call.account.profile().scheme(), call.account.of());
    let scheme = scheme.expect("a token is asked for in a scheme");
    let of = (call.account.profile().limits(), of);
    if !status.is_success() {
        let code = rule.grant.refusal(scheme, of, &body);
        return Err(format!("the partner answered {} {code}", status.as_u16())
            .trim_end()
            .to_owned());
    }
    rule.grant.judge(scheme, of, &body)
}

#[cfg(test)]
mod tests;
