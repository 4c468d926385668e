//! Owns the sending of notices: signed anew for every attempt, again after a growing pause until it is answered with
//! 200 and an empty body, and so many at a time. Every attempt is in its payment's log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use futures_util::future::join_all;
use payfold_engines::clock::Clock;
use payfold_partners::mac::MacKey;
use payfold_partners::profile::{NonceRule, Profile, TimeKind};
use payfold_schemas::money::Amount;
use payfold_schemas::time::Time;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Client, redirect};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use url::Url;

use crate::notice::{AmountForm, Notice, Stamp};
use crate::payment::{Attempt, Outcome, Payment, Said};
use crate::plan::{Defect, Delivery, Form, Persistence, Plan, WayDefect};
use crate::settings::RetrySchedule;

const CONNECT: Duration = Duration::from_secs(3);
/// How old a stale notice says it is: so many times what the profile lets pass, ten minutes of the usual five.
const STALE_SKEWS: i64 = 2;
/// The account of a notice that names another's.
const OTHER_MERCHANT: &str = "SOMEBODY-ELSE";
/// What a forger signs with.
const FORGERS_KEY: &[u8] = b"a key of nobody, for notices that must be refused";

/// Sends notices.
pub(crate) struct Sender {
    client: Client,
    permits: Semaphore,
    profile: Profile,
    clock: Arc<dyn Clock>,
    retry: RetrySchedule,
    forgers_key: MacKey,
}

/// How one notice is sent: what is wrong with its first attempts, how often it is tried and with which bytes, and its
/// first bytes if they are given.
struct Course<'a> {
    defects: &'a [Defect],
    persistence: Persistence,
    retries: Form,
    opening: Option<SignedBody>,
    seed: u64,
}

/// A notice's bytes, and the timestamp in them; none where the profile has no time.
#[derive(Clone)]
struct SignedBody {
    bytes: Bytes,
    timestamp: Option<Time>,
}

impl Sender {
    pub(crate) fn new(
        profile: Profile,
        clock: Arc<dyn Clock>,
        retry: RetrySchedule,
        sends_max: usize,
        answer: Duration,
    ) -> Result<Self, reqwest::Error> {
        // Another part of the process may have chosen the same before.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = Client::builder()
            .user_agent(concat!("payfold-sandbox/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .tcp_nodelay(true)
            .connect_timeout(CONNECT)
            .timeout(answer)
            .pool_max_idle_per_host(sends_max)
            // Whether a notice is sent again is decided here.
            .retry(reqwest::retry::never())
            .build()?;
        let permits = Semaphore::new(sends_max.max(1));
        let forgers_key = MacKey::new(FORGERS_KEY);
        Ok(Self { client, permits, profile, clock, retry, forgers_key })
    }

    /// Sends a plan's notices, one after the other, whether the one before was taken or given up.
    pub(crate) async fn send(&self, payment: &Payment, plan: &Plan, acted_at: Time) {
        for (delivery, nth) in plan.deliveries.iter().zip(0_u64..) {
            if delivery.pause_ms > 0 {
                sleep(Duration::from_millis(delivery.pause_ms)).await;
            }
            let seed = plan.seed.wrapping_add(nth << 8);
            self.deliver(payment, delivery, acted_at, seed).await;
        }
    }

    async fn deliver(&self, payment: &Payment, delivery: &Delivery, acted_at: Time, seed: u64) {
        let said = payment.said(&delivery.event, acted_at);
        let (defects, persistence) = (delivery.defects.as_slice(), delivery.persistence);
        let (body, retries) = (self.body(payment, &said, defects.first()), delivery.retries);
        let opening = Some(body.clone());
        let course = Course { defects, persistence, retries, opening, seed };
        let first = self.carry(payment, &said, course);
        if delivery.repeats.is_empty() {
            return first.await;
        }
        let repeats = delivery.repeats.iter().zip(1..).map(|(repeat, nth)| {
            let opening = (repeat.form == Form::SameBytes).then(|| body.clone());
            let seed = seed.wrapping_add(nth);
            let course = Course { defects: &[], persistence, retries, opening, seed };
            let (said, pause) = (&said, Duration::from_millis(repeat.pause_ms));
            async move {
                sleep(pause).await;
                self.carry(payment, said, course).await;
            }
        });
        tokio::join!(first, join_all(repeats));
    }

    /// Sends one notice until it is taken or given up.
    async fn carry(&self, payment: &Payment, said: &Said, course: Course<'_>) {
        let place = payment.sets_out(said);
        let mut dice = Rng::with_seed(course.seed);
        let mut opening = course.opening;
        let attempts_max = match course.persistence {
            Persistence::Once => 1,
            _ => self.retry.attempts_max,
        };
        let mut defects = course.defects.iter();
        let mut sent: Option<SignedBody> = None;
        for attempt in 1..=attempts_max {
            let defect = defects.next();
            let again = sent.take().filter(|_| course.retries == Form::SameBytes);
            let body = opening.take().or(again);
            let body = body.unwrap_or_else(|| self.body(payment, said, defect));
            sent = Some(body.clone());
            let outcome = self.post(&payment.ipn_url, body.bytes).await;
            let (at, timestamp) = (self.clock.now(), body.timestamp);
            payment.attempted(place, Attempt { at, timestamp, outcome });
            if outcome == Outcome::Acked || gives_up(course.persistence, outcome) {
                return;
            }
            if attempt < attempts_max {
                let pause_ms = self.retry.pause_ms(attempt);
                let jitter_ms = dice.u64(0..=pause_ms / 5);
                sleep(Duration::from_millis(pause_ms.saturating_add(jitter_ms))).await;
            }
        }
        if course.persistence == Persistence::Schedule {
            tracing::warn!(
                order.id = payment.order_id.as_str(),
                ipn.status = said.status.as_str(),
                attempts = attempts_max,
                "a notice was never taken and is given up"
            );
        }
    }

    /// The notice's bytes as they are sent now.
    fn body(&self, payment: &Payment, said: &Said, defect: Option<&Defect>) -> SignedBody {
        let key = match defect {
            Some(Defect::WrongKey) => &self.forgers_key,
            Some(_) | None => &payment.account.key,
        };
        let mut stamp = self.stamp();
        if defect == Some(&Defect::OtherMerchant) {
            stamp.merchant_code = Some(OTHER_MERCHANT);
        }
        if defect == Some(&Defect::AmountText) {
            stamp.amount = AmountForm::Text;
        }
        let unpaid = Said { paid_at: None, ..said.clone() };
        let said = if defect == Some(&Defect::NoPaidAt) { &unpaid } else { said };
        if defect == Some(&Defect::OldStamp) {
            let skew_ms = self.profile.time().skew_ms;
            stamp.at = stamp.at.plus_ms(skew_ms.saturating_mul(-STALE_SKEWS));
        }
        let timestamp = (self.profile.time().kind != TimeKind::None).then_some(stamp.at);
        SignedBody {
            bytes: Notice::sign(&self.profile, key, (payment, said), stamp).body(),
            timestamp,
        }
    }

    /// Where the payer goes back to, signed now.
    pub(crate) fn return_address(&self, payment: &Payment, said: &Said) -> String {
        let (key, defect) = (&payment.account.key, payment.hosting.way_back);
        let mut said = said.clone();
        if defect == WayDefect::OtherAmount {
            said.amount = Amount::from_minor(said.amount.minor() + 1).unwrap_or(said.amount);
        }
        let mut notice = Notice::sign(&self.profile, key, (payment, &said), self.stamp());
        if defect == WayDefect::Unsigned {
            notice.forget_signature();
        }
        notice.return_address(&payment.return_url)
    }

    fn stamp(&self) -> Stamp {
        let required = self.profile.nonce() == NonceRule::Required;
        Stamp {
            at: Time::from_unix_ms(self.clock.now().unix_ms()),
            nonce: required.then(|| self.clock.request_id().to_string()),
            merchant_code: None,
            amount: AmountForm::Number,
        }
    }

    async fn post(&self, url: &Url, body: Bytes) -> Outcome {
        let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
        let json = HeaderValue::from_static("application/json");
        let request = self.client.post(url.clone()).header(CONTENT_TYPE, json).body(body);
        let Ok(mut response) = request.send().await else { return Outcome::Unanswered };
        let status = response.status().as_u16();
        // Read to its end: only so the connection is used again.
        match response.chunk().await {
            Ok(None) if status == 200 => Outcome::Acked,
            Ok(_) => Outcome::Refused(status),
            Err(_) => Outcome::Unanswered,
        }
    }
}

/// Whether a notice with this outcome is not sent again, whatever the schedule says.
fn gives_up(persistence: Persistence, outcome: Outcome) -> bool {
    match persistence {
        Persistence::Schedule | Persistence::Once => false,
        Persistence::UntilRefused => matches!(outcome, Outcome::Refused(_)),
        Persistence::UntilSilent => outcome == Outcome::Unanswered,
    }
}
