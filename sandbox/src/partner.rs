//! Owns the partner as a whole: its accounts, payments, books and sender, and the way of one payment through them.
//! A payment ends once, is booked before anything is sent for it, and its notices go out on the runtime the partner
//! was made in, whoever asked for them.

use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use payfold_engines::clock::Clock;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::answer::{self, Offered};
use crate::create::{CreateCall, Reception};
use crate::payment::{Entry, Opening, Payer, Payment, Said};
use crate::payments::Payments;
use crate::plan::{Answer, Begin, Plan, SessionLength, WayDefect, hosting, plan, plan_of_click};
use crate::problem::Problem;
use crate::records::Records;
use crate::sender::Sender;
use crate::settings::SandboxSettings;
use crate::trouble::{Trouble, Troubles};

/// How long a create call waits for notices that come before its answer, or half of the time-out.
const BEFORE_ANSWER_MS_MAX: u64 = 3_000;

/// What a partner is made of.
pub(crate) struct Partner {
    pub(crate) settings: SandboxSettings,
    pub(crate) reception: Reception,
    pub(crate) payments: Payments,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sender: Sender,
    pub(crate) records: Records,
    pub(crate) runtime: Handle,
    /// Payments with something still to send.
    pub(crate) unfinished: watch::Sender<usize>,
}

/// Counts a payment as unfinished until it is dropped.
struct Unfinished(Arc<Partner>);

impl Unfinished {
    fn begin(partner: &Arc<Partner>) -> Self {
        partner.unfinished.send_modify(|count| *count += 1);
        Self(Arc::clone(partner))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.unfinished.send_modify(|count| *count -= 1);
    }
}

impl Partner {
    /// Takes one create call, from its bytes to its answer. Errors: what is wrong with it.
    pub(crate) async fn create(self: &Arc<Self>, body: &[u8]) -> Result<HttpResponse, Problem> {
        let now = Time::from_unix_ms(self.clock.now().unix_ms());
        let call = self.reception.verify(body)?;
        let (account, order_id) = (Arc::clone(&call.account), call.order_id.clone());
        let calls = self.payments.count(&account.merchant_code, &order_id, now);
        self.records.create((&account.merchant_code, &order_id), calls, now).map_err(not_kept)?;
        if calls > 1 {
            let detail = "orderId: there was a create call for it before";
            return Err(Problem::new(409, "duplicate_order", detail));
        }
        let call = self.reception.read(call)?;
        if call.expires_at.is_some_and(|at| at <= now) {
            return Err(Problem::field("expiresAt", "is not in the future"));
        }
        let troubles = Troubles::of_description(&call.description)
            .map_err(|problem| Problem::new(400, "unknown_trouble", problem.to_string()))?;
        if troubles.as_ref().is_some_and(Troubles::divides) && call.amount.minor() < 2 {
            return Err(Problem::field("amount", "can't be given back in part"));
        }
        if *self.unfinished.borrow() >= self.settings.unfinished_max {
            let detail = "too many payments wait for their notices to be taken";
            return Err(Problem::new(429, "too_many_unfinished", detail));
        }
        self.open(call, troubles.as_ref(), now).await
    }

    /// Opens a payment as its plan says, and answers.
    async fn open(
        self: &Arc<Self>,
        call: CreateCall,
        troubles: Option<&Troubles>,
        now: Time,
    ) -> Result<HttpResponse, Problem> {
        let seed = seed(self.settings.seed, &call.description);
        let plan = troubles.map(|troubles| plan(troubles, seed));
        let answer = plan.as_ref().map_or(Answer::Session, |plan| plan.answer);
        let length = plan.as_ref().map_or(SessionLength::Full, |plan| plan.session);
        let session_ms = match length {
            SessionLength::Full => self.settings.session_ms,
            SessionLength::Short => self.settings.short_session_ms,
        };
        let session_end = now.plus_ms(session_ms);
        let expires_at = call.expires_at.map_or(session_end, |asked| asked.min(session_end));
        let page = format!("sbx-{}", self.clock.request_id());
        let mut provider_ref = ProviderRef::parse(&page).expect("a ref may hold a UUID");
        let shares = troubles.is_some_and(|troubles| troubles.has(Trouble::ReusedRef));
        let pair = shares.then(|| self.payments.pair(&call.account.merchant_code)).flatten();
        if let Some(other) = &pair {
            provider_ref = other.provider_ref.clone();
        }
        let payer = if plan.is_some() { Payer::Plan } else { Payer::Person };
        let offered = self.offered(&call, (&page, &provider_ref), expires_at, now);
        if answer.opens() {
            let page = page.into_boxed_str();
            let hosting = troubles.map(hosting).unwrap_or_default();
            let created_at = now;
            let opening =
                Opening { page, provider_ref, payer, created_at, expires_at, seed, hosting };
            let payment = Arc::new(Payment::open(call, opening));
            self.payments.add(&payment);
            if shares && pair.is_none() {
                self.payments.offer_ref(&payment);
            }
            if let Some(plan) = plan {
                self.play(payment, plan).await;
            }
        }
        Ok(answer::respond(answer, &offered, self.reception.rule.timeout_ms).await)
    }

    fn offered(
        &self,
        call: &CreateCall,
        (page, provider_ref): (&str, &ProviderRef),
        expires_at: Time,
        now: Time,
    ) -> Offered {
        Offered {
            provider_ref: provider_ref.to_string(),
            page_url: format!("{}/pay/{page}", self.settings.public_url),
            qr_payload: answer::qr_payload(provider_ref.as_str(), call.amount, call.currency),
            wish: call.wish,
            expires_at,
            now,
        }
    }

    /// Plays a plan: the payer acts when it says, then the notices go out. Waits for them only where they come
    /// before the answer.
    async fn play(self: &Arc<Self>, payment: Arc<Payment>, plan: Plan) {
        let unfinished = Unfinished::begin(self);
        let (partner, timeout_ms) = (Arc::clone(self), self.reception.rule.timeout_ms);
        let (done, sent) = oneshot::channel();
        let (begin, pause) = (plan.begin, self.pause(&payment, plan.begin));
        self.runtime.spawn(async move {
            sleep(pause).await;
            let acted_at = partner.acted_at();
            if partner.settle(&payment, &plan, acted_at) {
                partner.sender.send(&payment, &plan, acted_at).await;
            }
            payment.finish();
            drop(unfinished);
            // Nobody waits where the answer does not.
            let _ = done.send(());
        });
        if begin == Begin::BeforeAnswer {
            let patience_ms = BEFORE_ANSWER_MS_MAX.min(timeout_ms / 2);
            // Notices that are not taken by then come after it, as anywhere.
            let _ = timeout(Duration::from_millis(patience_ms), sent).await;
        }
    }

    /// How long from now until the payer acts.
    fn pause(&self, payment: &Payment, begin: Begin) -> Duration {
        let rule = &self.reception.rule;
        match begin {
            Begin::BeforeAnswer => Duration::ZERO,
            Begin::AfterMs(ms) => Duration::from_millis(ms),
            Begin::AfterTimeout => Duration::from_millis(answer::given_up_ms(rule.timeout_ms)),
            Begin::AfterDeadline => {
                let late = payment.expires_at.plus_ms(rule.grace_ms + self.settings.late_ms);
                let nanos = late.nanos_since(self.clock.now());
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
            }
        }
    }

    fn acted_at(&self) -> Time {
        Time::from_unix_ms(self.clock.now().unix_ms())
    }

    /// Ends a payment as a person or the clock does, unless it has ended. What it ended as is in its books then.
    pub(crate) fn end(self: &Arc<Self>, payment: &Arc<Payment>, status: Status) {
        if payment.payer == Payer::Plan {
            return;
        }
        let acted_at = self.acted_at();
        let status = if acted_at >= payment.expires_at { Status::Expired } else { status };
        let plan = plan_of_click(status, payment.seed);
        if !self.settle(payment, &plan, acted_at) {
            return;
        }
        let unfinished = Unfinished::begin(self);
        let (partner, payment) = (Arc::clone(self), Arc::clone(payment));
        self.runtime.spawn(async move {
            partner.sender.send(&payment, &plan, acted_at).await;
            payment.finish();
            drop(unfinished);
        });
    }

    /// Books what happened; false if something did before.
    fn settle(&self, payment: &Payment, plan: &Plan, acted_at: Time) -> bool {
        let entry = |event| Entry { said: payment.said(event, acted_at), at: acted_at };
        let Some(booked) = payment.book(plan.history.iter().map(entry).collect()) else {
            return false;
        };
        if let Err(error) = self.records.booked(payment, &booked) {
            tracing::error!(%error, order.id = payment.order_id.as_str(), "a payment is not in the records");
        }
        true
    }

    /// How a payment ended, and where its browser goes back to: what its books say, signed now. `None` while it has
    /// not ended; without a way where its plan has none.
    pub(crate) fn way_back(&self, payment: &Payment) -> Option<(Status, Option<String>)> {
        let entry = payment.latest(payment.provider_ref.as_str())?;
        let said: &Said = &entry.said;
        let missing = payment.hosting.way_back == WayDefect::Missing(said.status);
        let way = (!missing).then(|| self.sender.return_address(payment, said));
        Some((said.status, way))
    }
}

fn not_kept(error: std::io::Error) -> Problem {
    Problem::new(503, "records_unavailable", format!("the records can't be written: {error}"))
}

/// What chance starts from for one payment: the same description the same, whichever comes first.
fn seed(seed: u64, description: &str) -> u64 {
    let mut text = seed.to_be_bytes().to_vec();
    text.extend_from_slice(description.as_bytes());
    let digest = Digest::of_bytes(&text);
    let [a, b, c, d, e, f, g, h, ..] = *digest.as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}
