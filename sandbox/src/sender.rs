//! Owns the sending of notices. Each attempt is signed again. A notice is retried after a growing
//! pause until it is acknowledged as the profile says. The number of concurrent requests is
//! limited. Every attempt is recorded in its payment.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use payfold_engines::clock::Clock;
use payfold_partners::profile::{NonceRule, Profile, TimeKind, TimeRule};
use payfold_partners::remote::install_tls;
use payfold_partners::scheme::{NoticeFlaw, SimulatedNotice, SimulationError};
use payfold_schemas::money::Amount;
use payfold_schemas::time::Time;
use reqwest::{Client, Method, redirect};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use url::Url;

use crate::notice::{self, NoticeStamp};
use crate::payment::{AttemptOutcome, Payment, SendAttempt, TransactionState};
use crate::plan::{NoticeDefect, Plan, PlannedNotice, RepeatFormat, RetryPolicy, ReturnDefect};
use crate::settings::RetrySchedule;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The age of a stale notice, in multiples of the profile's skew: ten minutes for the usual five.
const STALE_SKEWS: i64 = 2;
/// The most bytes of an acknowledgement that are read.
const ANSWER_BYTES_MAX: usize = 65_536;
/// The merchantCode of a notice with another merchantCode.
const OTHER_MERCHANT: &str = "SOMEBODY-ELSE";

/// Sends notices.
pub(crate) struct NoticeSender {
    client: Client,
    permits: Semaphore,
    profile: Profile,
    clock: Arc<dyn Clock>,
    retry: RetrySchedule,
}

/// How one notice is sent: the defects of its first attempts, its retries, and optionally the bytes
/// of its first attempt.
struct SendingRules<'a> {
    defects: &'a [NoticeDefect],
    retry_policy: RetryPolicy,
    retries: RepeatFormat,
    opening: Option<SignedNotice>,
    seed: u64,
}

/// A signed notice and the timestamp in it; `None` if the profile has no timestamp.
#[derive(Clone)]
struct SignedNotice {
    notice: Arc<SimulatedNotice>,
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
        Ok(Self { client, permits, profile, clock, retry })
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
        let signed = match self.sign(payment, &state, defects.first()) {
            Ok(signed) => signed,
            Err(error) => return report_unwritable(payment, &state, &error),
        };
        let retries = delivery.retries;
        let opening = Some(signed.clone());
        let rules = SendingRules { defects, retry_policy, retries, opening, seed };
        let first = self.send_until_acknowledged(payment, &state, rules);
        if delivery.repeats.is_empty() {
            return first.await;
        }
        let repeats = delivery.repeats.iter().zip(1..).map(|(repeat, nth)| {
            let opening = (repeat.format == RepeatFormat::SameBytes).then(|| signed.clone());
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
        let mut sent: Option<SignedNotice> = None;
        for attempt in 1..=attempts_max {
            let defect = defects.next();
            let same_bytes = sent.take().filter(|_| rules.retries == RepeatFormat::SameBytes);
            let signed = match opening.take().or(same_bytes) {
                Some(signed) => Ok(signed),
                None => self.sign(payment, state, defect),
            };
            let signed = match signed {
                Ok(signed) => signed,
                Err(error) => return report_unwritable(payment, state, &error),
            };
            sent = Some(signed.clone());
            let outcome = self.send(payment, &signed.notice).await;
            let (at, timestamp) = (self.clock.now(), signed.timestamp);
            payment.record_attempt(index, SendAttempt { at, timestamp, outcome });
            if outcome.is_acked() || stops_retrying(rules.retry_policy, outcome) {
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

    /// Writes and signs a notice with the current time. Errors: the profile has no such notice.
    fn sign(
        &self,
        payment: &Payment,
        state: &TransactionState,
        defect: Option<&NoticeDefect>,
    ) -> Result<SignedNotice, SimulationError> {
        let mut stamp = self.new_stamp(state);
        match defect {
            Some(NoticeDefect::WrongKey) => stamp.flaw = Some(NoticeFlaw::WrongKey),
            Some(NoticeDefect::NoPaidAt) => stamp.flaw = Some(NoticeFlaw::NoPaidAt),
            Some(NoticeDefect::AmountText) => stamp.flaw = Some(NoticeFlaw::AmountKind),
            Some(NoticeDefect::OtherMerchant) => stamp.merchant_code = Some(OTHER_MERCHANT),
            Some(NoticeDefect::OldTimestamp) => {
                let TimeRule { skew_ms, max_age_ms, .. } = *self.profile.time();
                let age_ms = skew_ms.saturating_mul(STALE_SKEWS) + max_age_ms.unwrap_or(0);
                stamp.at = stamp.at.plus_ms(-age_ms);
            }
            None => {}
        }
        let timestamp = (self.profile.time().kind != TimeKind::None).then_some(stamp.at);
        let notice = Arc::new(notice::write(payment, state, &stamp)?);
        Ok(SignedNotice { notice, timestamp })
    }

    /// The payer's return address, signed with the current time. `None` if it can't be written.
    pub(crate) fn return_address(
        &self,
        payment: &Payment,
        state: &TransactionState,
    ) -> Option<String> {
        let defect = payment.hosting.return_defect;
        let mut state = state.clone();
        if defect == ReturnDefect::OtherAmount {
            state.amount = Amount::from_minor(state.amount.minor() + 1).unwrap_or(state.amount);
        }
        notice::return_address(payment, &state, &self.new_stamp(&state), defect).ok()
    }

    /// The time of sending, or of the event where the profile's time is that.
    fn new_stamp(&self, state: &TransactionState) -> NoticeStamp {
        let required = self.profile.nonce() == NonceRule::Required;
        let now = Time::from_unix_ms(self.clock.now().unix_ms());
        let nonce = required.then(|| self.clock.request_id().to_string());
        let at = match self.profile.time().kind {
            TimeKind::Event => state.paid_at.unwrap_or(state.at),
            TimeKind::Delivery | TimeKind::None => now,
        };
        NoticeStamp { now, at, nonce, merchant_code: None, flaw: None }
    }

    async fn send(&self, payment: &Payment, notice: &SimulatedNotice) -> AttemptOutcome {
        let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
        let mut url: Url = (*payment.ipn_url).clone();
        if !notice.query.is_empty() {
            url.set_query(Some(&notice.query));
        }
        let method = if notice.method == "GET" { Method::GET } else { Method::POST };
        let mut request = self.client.request(method, url).body(notice.body.clone());
        for (name, value) in &notice.headers {
            request = request.header(name, value);
        }
        let Ok(mut response) = request.send().await else { return AttemptOutcome::Unanswered };
        let (status, mut body) = (response.status().as_u16(), Vec::new());
        // The connection is reused only if the body is read to its end.
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() <= ANSWER_BYTES_MAX => body.extend(chunk),
                Ok(Some(_)) => return AttemptOutcome::Refused(status),
                Ok(None) if payment.account.is_acknowledgement(status, &body) => {
                    return AttemptOutcome::Acked(status);
                }
                Ok(None) => return AttemptOutcome::Refused(status),
                Err(_) => return AttemptOutcome::Unanswered,
            }
        }
    }
}

/// Logs a notice that the profile has no form for.
fn report_unwritable(payment: &Payment, state: &TransactionState, error: &SimulationError) {
    tracing::warn!(
        order.id = payment.order_id.as_str(),
        ipn.status = state.status.as_str(),
        %error,
        "a notice is not sent: the partner's profile has no such notice"
    );
}

/// Whether this outcome ends the retries before the schedule does.
fn stops_retrying(retry_policy: RetryPolicy, outcome: AttemptOutcome) -> bool {
    match retry_policy {
        RetryPolicy::Schedule | RetryPolicy::Once => false,
        RetryPolicy::UntilRefused => matches!(outcome, AttemptOutcome::Refused(_)),
        RetryPolicy::UntilSilent => outcome == AttemptOutcome::Unanswered,
    }
}
