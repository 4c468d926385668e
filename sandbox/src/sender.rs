//! Owns the sending of notices. Each attempt is signed again. A notice is retried after a growing
//! pause until it is answered with 200 and an empty body. The number of concurrent requests is
//! limited. Every attempt is recorded in its payment.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use futures_util::future::join_all;
use payfold_engines::clock::Clock;
use payfold_partners::mac::MacKey;
use payfold_partners::profile::{NonceRule, Profile, TimeKind};
use payfold_partners::remote::install_tls;
use payfold_schemas::money::Amount;
use payfold_schemas::time::Time;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Client, redirect};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use url::Url;

use crate::notice::{AmountFormat, NoticeStamp, SignedNotice};
use crate::payment::{AttemptOutcome, Payment, SendAttempt, TransactionState};
use crate::plan::{NoticeDefect, Plan, PlannedNotice, RepeatFormat, RetryPolicy, ReturnDefect};
use crate::settings::RetrySchedule;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The age of a stale notice, in multiples of the profile's skew: ten minutes for the usual five.
const STALE_SKEWS: i64 = 2;
/// The merchantCode of a notice with another merchantCode.
const OTHER_MERCHANT: &str = "SOMEBODY-ELSE";
/// The key of forged notices.
const FORGED_KEY: &[u8] = b"a key of no account, for notices that must be refused";

/// Sends notices.
pub(crate) struct NoticeSender {
    client: Client,
    permits: Semaphore,
    profile: Profile,
    clock: Arc<dyn Clock>,
    retry: RetrySchedule,
    forged_key: MacKey,
}

/// How one notice is sent: the defects of its first attempts, its retries, and optionally the bytes
/// of its first attempt.
struct SendingRules<'a> {
    defects: &'a [NoticeDefect],
    retry_policy: RetryPolicy,
    retries: RepeatFormat,
    opening: Option<SignedBody>,
    seed: u64,
}

/// A notice's bytes and the timestamp in them; `None` if the profile has no timestamp.
#[derive(Clone)]
struct SignedBody {
    bytes: Bytes,
    timestamp: Option<Time>,
}

impl NoticeSender {
    pub(crate) fn new(
        profile: Profile,
        clock: Arc<dyn Clock>,
        retry: RetrySchedule,
        sends_max: usize,
        answer: Duration,
    ) -> Result<Self, reqwest::Error> {
        install_tls();
        let client = Client::builder()
            .user_agent(concat!("payfold-sandbox/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(answer)
            .pool_max_idle_per_host(sends_max)
            // This file decides about retries.
            .retry(reqwest::retry::never())
            .build()?;
        let permits = Semaphore::new(sends_max.max(1));
        let forged_key = MacKey::new(FORGED_KEY);
        Ok(Self { client, permits, profile, clock, retry, forged_key })
    }

    /// Sends a plan's notices one after another, whether or not the previous one was acknowledged.
    pub(crate) async fn send_notices(&self, payment: &Payment, plan: &Plan, acted_at: Time) {
        for (delivery, nth) in plan.deliveries.iter().zip(0_u64..) {
            if delivery.pause_ms > 0 {
                sleep(Duration::from_millis(delivery.pause_ms)).await;
            }
            let seed = plan.seed.wrapping_add(nth << 8);
            self.send_notice(payment, delivery, acted_at, seed).await;
        }
    }

    async fn send_notice(
        &self,
        payment: &Payment,
        delivery: &PlannedNotice,
        acted_at: Time,
        seed: u64,
    ) {
        let state = payment.transaction_state(&delivery.event, acted_at);
        let (defects, retry_policy) = (delivery.defects.as_slice(), delivery.retry_policy);
        let (body, retries) = (self.sign_body(payment, &state, defects.first()), delivery.retries);
        let opening = Some(body.clone());
        let rules = SendingRules { defects, retry_policy, retries, opening, seed };
        let first = self.send_until_acknowledged(payment, &state, rules);
        if delivery.repeats.is_empty() {
            return first.await;
        }
        let repeats = delivery.repeats.iter().zip(1..).map(|(repeat, nth)| {
            let opening = (repeat.format == RepeatFormat::SameBytes).then(|| body.clone());
            let seed = seed.wrapping_add(nth);
            let rules = SendingRules { defects: &[], retry_policy, retries, opening, seed };
            let (state, pause) = (&state, Duration::from_millis(repeat.pause_ms));
            async move {
                sleep(pause).await;
                self.send_until_acknowledged(payment, state, rules).await;
            }
        });
        tokio::join!(first, join_all(repeats));
    }

    /// Sends one notice until it is acknowledged or its retries end.
    async fn send_until_acknowledged(
        &self,
        payment: &Payment,
        state: &TransactionState,
        rules: SendingRules<'_>,
    ) {
        let index = payment.begin_notice(state);
        let mut random = Rng::with_seed(rules.seed);
        let mut opening = rules.opening;
        let attempts_max = match rules.retry_policy {
            RetryPolicy::Once => 1,
            _ => self.retry.attempts_max,
        };
        let mut defects = rules.defects.iter();
        let mut sent: Option<SignedBody> = None;
        for attempt in 1..=attempts_max {
            let defect = defects.next();
            let same_bytes = sent.take().filter(|_| rules.retries == RepeatFormat::SameBytes);
            let body = opening.take().or(same_bytes);
            let body = body.unwrap_or_else(|| self.sign_body(payment, state, defect));
            sent = Some(body.clone());
            let outcome = self.post(&payment.ipn_url, body.bytes).await;
            let (at, timestamp) = (self.clock.now(), body.timestamp);
            payment.record_attempt(index, SendAttempt { at, timestamp, outcome });
            if outcome == AttemptOutcome::Acked || stops_retrying(rules.retry_policy, outcome) {
                return;
            }
            if attempt < attempts_max {
                let pause_ms = self.retry.pause_ms(attempt);
                let jitter_ms = random.u64(0..=pause_ms / 5);
                sleep(Duration::from_millis(pause_ms.saturating_add(jitter_ms))).await;
            }
        }
        if rules.retry_policy == RetryPolicy::Schedule {
            tracing::warn!(
                order.id = payment.order_id.as_str(),
                ipn.status = state.status.as_str(),
                attempts = attempts_max,
                "a notice was not acknowledged and is not sent again"
            );
        }
    }

    /// Signs the notice's bytes with the current time.
    fn sign_body(
        &self,
        payment: &Payment,
        state: &TransactionState,
        defect: Option<&NoticeDefect>,
    ) -> SignedBody {
        let key = match defect {
            Some(NoticeDefect::WrongKey) => &self.forged_key,
            Some(_) | None => &payment.account.key,
        };
        let mut stamp = self.new_stamp();
        if defect == Some(&NoticeDefect::OtherMerchant) {
            stamp.merchant_code = Some(OTHER_MERCHANT);
        }
        if defect == Some(&NoticeDefect::AmountText) {
            stamp.amount = AmountFormat::String;
        }
        let without_paid_at = TransactionState { paid_at: None, ..state.clone() };
        let state = if defect == Some(&NoticeDefect::NoPaidAt) { &without_paid_at } else { state };
        if defect == Some(&NoticeDefect::OldTimestamp) {
            let skew_ms = self.profile.time().skew_ms;
            stamp.at = stamp.at.plus_ms(skew_ms.saturating_mul(-STALE_SKEWS));
        }
        let timestamp = (self.profile.time().kind != TimeKind::None).then_some(stamp.at);
        SignedBody {
            bytes: SignedNotice::sign(&self.profile, key, (payment, state), stamp).encode_body(),
            timestamp,
        }
    }

    /// The payer's return address, signed with the current time.
    pub(crate) fn return_address(&self, payment: &Payment, state: &TransactionState) -> String {
        let (key, defect) = (&payment.account.key, payment.hosting.return_defect);
        let mut state = state.clone();
        if defect == ReturnDefect::OtherAmount {
            state.amount = Amount::from_minor(state.amount.minor() + 1).unwrap_or(state.amount);
        }
        let mut notice =
            SignedNotice::sign(&self.profile, key, (payment, &state), self.new_stamp());
        if defect == ReturnDefect::Unsigned {
            notice.remove_signature();
        }
        notice.return_address(&payment.return_url)
    }

    fn new_stamp(&self) -> NoticeStamp {
        let required = self.profile.nonce() == NonceRule::Required;
        NoticeStamp {
            at: Time::from_unix_ms(self.clock.now().unix_ms()),
            nonce: required.then(|| self.clock.request_id().to_string()),
            merchant_code: None,
            amount: AmountFormat::Number,
        }
    }

    async fn post(&self, url: &Url, body: Bytes) -> AttemptOutcome {
        let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
        let json = HeaderValue::from_static("application/json");
        let request = self.client.post(url.clone()).header(CONTENT_TYPE, json).body(body);
        let Ok(mut response) = request.send().await else { return AttemptOutcome::Unanswered };
        let status = response.status().as_u16();
        // The connection is reused only if the body is read to its end.
        match response.chunk().await {
            Ok(None) if status == 200 => AttemptOutcome::Acked,
            Ok(_) => AttemptOutcome::Refused(status),
            Err(_) => AttemptOutcome::Unanswered,
        }
    }
}

/// Whether this outcome ends the retries before the schedule does.
fn stops_retrying(retry_policy: RetryPolicy, outcome: AttemptOutcome) -> bool {
    match retry_policy {
        RetryPolicy::Schedule | RetryPolicy::Once => false,
        RetryPolicy::UntilRefused => matches!(outcome, AttemptOutcome::Refused(_)),
        RetryPolicy::UntilSilent => outcome == AttemptOutcome::Unanswered,
    }
}
