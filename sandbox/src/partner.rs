//! Owns the partner's state, and the steps of a payment: opening, outcome, notices. A payment ends
//! once. Its outcome is recorded before any notice is sent. Notices are sent on the tokio runtime
//! that the partner was created in, whichever thread ended the payment.

use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use payfold_engines::clock::Clock;
use payfold_partners::directory::Account;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::create::{CreateCall, CreateEndpoint};
use crate::create_answer::{self, SessionOffer};
use crate::payment::{LedgerEntry, Payer, Payment, SessionParameters, TransactionState};
use crate::payments::PaymentRegistry;
use crate::plan::{ActionTime, Plan, PlannedAnswer, ReturnDefect, SessionLength};
use crate::planning::{plan, plan_for_action, plan_payer_defects};
use crate::problem::RequestProblem;
use crate::records::RecordsWriter;
use crate::sender::NoticeSender;
use crate::settings::SandboxSettings;
use crate::trouble::Trouble;
use crate::troubles::Troubles;

/// The longest wait of a create response for notices sent before it, in ms; at most half of the
/// timeout.
const BEFORE_ANSWER_MS_MAX: u64 = 3_000;

/// The state of a simulated partner.
pub(crate) struct Partner {
    pub(crate) settings: SandboxSettings,
    pub(crate) create_endpoint: CreateEndpoint,
    pub(crate) payments: PaymentRegistry,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sender: NoticeSender,
    pub(crate) records: RecordsWriter,
    pub(crate) runtime: Handle,
    /// The number of payments with notices still to send.
    pub(crate) unfinished: watch::Sender<usize>,
}

/// Counts a payment as unfinished until it is dropped.
struct UnfinishedGuard(Arc<Partner>);

impl UnfinishedGuard {
    fn begin(partner: &Arc<Partner>) -> Self {
        partner.unfinished.send_modify(|count| *count += 1);
        Self(Arc::clone(partner))
    }
}

impl Drop for UnfinishedGuard {
    fn drop(&mut self) {
        self.0.unfinished.send_modify(|count| *count -= 1);
    }
}

impl Partner {
    /// Handles one create call. Errors: the problem to respond with.
    pub(crate) async fn handle_create(
        self: &Arc<Self>,
        body: &[u8],
    ) -> Result<HttpResponse, RequestProblem> {
        let now = Time::from_unix_ms(self.clock.now().unix_ms());
        let call = self.create_endpoint.verify(body, now)?;
        self.count_call((&call.account, &call.order_id), now)?;
        let call = self.create_endpoint.parse_fields(call)?;
        self.accept_call(call, now).await
    }

    /// Counts an authenticated create call. Errors: its order had one before.
    pub(crate) fn count_call(
        &self,
        (account, order_id): (&Account, &OrderId),
        now: Time,
    ) -> Result<(), RequestProblem> {
        let order = (account.merchant_code(), order_id);
        let calls = self.payments.count_create_call(order.0, order_id, now);
        self.records.append_create(order, calls, now).map_err(records_unavailable)?;
        if calls > 1 {
            let detail = "orderId: it had a create call before";
            return Err(RequestProblem::new(409, "duplicate_order", detail));
        }
        Ok(())
    }

    /// Opens the payment of a counted create call. Errors: the problem to respond with.
    pub(crate) async fn accept_call(
        self: &Arc<Self>,
        call: CreateCall,
        now: Time,
    ) -> Result<HttpResponse, RequestProblem> {
        if call.expires_at.is_some_and(|at| at <= now) {
            return Err(RequestProblem::field("expiresAt", "is not in the future"));
        }
        let troubles = Troubles::parse_description(&call.description)
            .map_err(|problem| RequestProblem::new(400, "unknown_trouble", problem.to_string()))?;
        if troubles.as_ref().is_some_and(Troubles::needs_two_units) && call.amount.minor() < 2 {
            return Err(RequestProblem::field("amount", "is too small for a partial refund"));
        }
        if *self.unfinished.borrow() >= self.settings.unfinished_max {
            let detail = "too many payments have notices that are not acknowledged";
            return Err(RequestProblem::new(429, "too_many_unfinished", detail));
        }
        self.open_payment(call, troubles.as_ref(), now).await
    }

    /// Opens a payment as its plan requires, and responds.
    async fn open_payment(
        self: &Arc<Self>,
        call: CreateCall,
        troubles: Option<&Troubles>,
        now: Time,
    ) -> Result<HttpResponse, RequestProblem> {
        let seed = payment_seed(self.settings.seed, &call.description);
        let plan = troubles.map(|troubles| plan(troubles, seed));
        let answer = plan.as_ref().map_or(PlannedAnswer::Session, |plan| plan.answer);
        let length = plan.as_ref().map_or(SessionLength::Full, |plan| plan.session);
        let session_ms = match length {
            SessionLength::Full => self.settings.session_ms,
            SessionLength::Short => self.settings.short_session_ms,
        };
        let session_end = now.plus_ms(session_ms);
        let expires_at =
            call.expires_at.map_or(session_end, |requested| requested.min(session_end));
        let page = format!("sbx-{}", self.clock.request_id());
        let mut provider_ref = new_ref(&call.account, &page);
        let shares_ref = troubles.is_some_and(|troubles| troubles.has(Trouble::ReusedRef));
        let pair = shares_ref
            .then(|| self.payments.take_shared_ref(call.account.merchant_code()))
            .flatten();
        if let Some(other) = &pair {
            provider_ref = other.provider_ref.clone();
        }
        let payer = if plan.is_some() { Payer::Plan } else { Payer::Person };
        let offer = self.build_offer(&call, (&page, &provider_ref), expires_at, now);
        // A payment is only opened if its offer can be written.
        let text = offer.text()?;
        if answer.opens_payment() {
            let page = page.into_boxed_str();
            let hosting = troubles.map(plan_payer_defects).unwrap_or_default();
            let created_at = now;
            let opening = SessionParameters {
                page,
                provider_ref,
                payer,
                created_at,
                expires_at,
                seed,
                hosting,
            };
            let payment = Arc::new(Payment::open(call, opening));
            self.payments.add(&payment);
            if shares_ref && pair.is_none() {
                self.payments.offer_ref(&payment);
            }
            if let Some(plan) = plan {
                self.run_plan(payment, plan).await;
            }
        }
        let timeout_ms = self.create_endpoint.terms.timeout_ms;
        create_answer::respond(answer, &offer, text, timeout_ms).await
    }

    fn build_offer(
        &self,
        call: &CreateCall,
        (page, provider_ref): (&str, &ProviderRef),
        expires_at: Time,
        now: Time,
    ) -> SessionOffer {
        SessionOffer {
            account: Arc::clone(&call.account),
            provider_ref: provider_ref.to_string(),
            page_url: format!("{}/pay/{page}", self.settings.public_url),
            qr_payload: create_answer::qr_payload(
                provider_ref.as_str(),
                call.amount,
                call.currency,
            ),
            presentation: call.presentation,
            expires_at,
            now,
        }
    }

    /// Runs a plan: waits until the payer acts, records the outcome, and sends the notices. Returns
    /// at once, unless the notices come before the create response.
    async fn run_plan(self: &Arc<Self>, payment: Arc<Payment>, plan: Plan) {
        let unfinished = UnfinishedGuard::begin(self);
        let (partner, timeout_ms) = (Arc::clone(self), self.create_endpoint.terms.timeout_ms);
        let (done, sent) = oneshot::channel();
        let (begin, delay) = (plan.begin, self.action_delay(&payment, plan.begin));
        self.runtime.spawn(async move {
            sleep(delay).await;
            let acted_at = partner.now_in_ms();
            if partner.book_outcome(&payment, &plan, acted_at) {
                partner.sender.send_notices(&payment, &plan, acted_at).await;
            }
            payment.finish();
            drop(unfinished);
            // The receiver is gone unless the create response waits.
            let _ = done.send(());
        });
        if begin == ActionTime::BeforeAnswer {
            let wait_ms = BEFORE_ANSWER_MS_MAX.min(timeout_ms / 2);
            // Notices that are not acknowledged by then are retried after the response.
            let _ = timeout(Duration::from_millis(wait_ms), sent).await;
        }
    }

    /// The time from now until the payer acts.
    fn action_delay(&self, payment: &Payment, begin: ActionTime) -> Duration {
        let terms = &self.create_endpoint.terms;
        match begin {
            ActionTime::BeforeAnswer => Duration::ZERO,
            ActionTime::AfterMs(ms) => Duration::from_millis(ms),
            ActionTime::AfterTimeout => {
                Duration::from_millis(create_answer::caller_gave_up_ms(terms.timeout_ms))
            }
            ActionTime::AfterDeadline => {
                let late = payment.expires_at.plus_ms(terms.grace_ms + self.settings.late_ms);
                let nanos = late.nanos_since(self.clock.now());
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
            }
        }
    }

    pub(crate) fn now_in_ms(&self) -> Time {
        Time::from_unix_ms(self.clock.now().unix_ms())
    }

    /// Ends a payment for a person or for the end of its session, unless it has ended. The ledger
    /// then has its outcome.
    pub(crate) fn end_payment(self: &Arc<Self>, payment: &Arc<Payment>, status: Status) {
        if payment.payer == Payer::Plan {
            return;
        }
        let acted_at = self.now_in_ms();
        let status = if acted_at >= payment.expires_at { Status::Expired } else { status };
        let plan = plan_for_action(status, payment.seed);
        if !self.book_outcome(payment, &plan, acted_at) {
            return;
        }
        let unfinished = UnfinishedGuard::begin(self);
        let (partner, payment) = (Arc::clone(self), Arc::clone(payment));
        self.runtime.spawn(async move {
            partner.sender.send_notices(&payment, &plan, acted_at).await;
            payment.finish();
            drop(unfinished);
        });
    }

    /// Records the outcome; returns `false` if the payment already has one.
    fn book_outcome(&self, payment: &Payment, plan: &Plan, acted_at: Time) -> bool {
        let entry =
            |event| LedgerEntry { state: payment.transaction_state(event, acted_at), at: acted_at };
        let Some(recorded) = payment.record_outcome(plan.history.iter().map(entry).collect())
        else {
            return false;
        };
        if let Err(error) = self.records.append_payment(payment, &recorded) {
            tracing::error!(
                %error, order.id = payment.order_id.as_str(),
                "a payment could not be written to the records file"
            );
        }
        true
    }

    /// The outcome of a payment and its signed return address. `None` if the payment has not ended.
    /// The address is `None` if the plan leaves it out.
    pub(crate) fn find_return(&self, payment: &Payment) -> Option<(Status, Option<String>)> {
        let entry = payment.latest_entry(payment.provider_ref.as_str())?;
        let state: &TransactionState = &entry.state;
        let missing = payment.hosting.return_defect == ReturnDefect::Missing(state.status);
        let address = (!missing).then(|| self.sender.return_address(payment, state)).flatten();
        Some((state.status, address))
    }
}

/// The transaction of a payment: the id of its page, or digits where the partner's transactions are
/// numbers.
fn new_ref(account: &Account, page: &str) -> ProviderRef {
    let random: u128 = page
        .bytes()
        .filter_map(|byte| char::from(byte).to_digit(16))
        .fold(0, |number, digit| (number << 4) ^ u128::from(digit));
    let text = match account.takes_ref(page) {
        true => page.to_owned(),
        false => (random % 1_000_000_000_000_000).to_string(),
    };
    ProviderRef::parse(&text).expect("a ref may hold a UUID")
}

fn records_unavailable(error: std::io::Error) -> RequestProblem {
    RequestProblem::new(
        503,
        "records_unavailable",
        format!("the records can't be written: {error}"),
    )
}

/// The seed of one payment: equal descriptions get equal seeds, in any order of payments.
fn payment_seed(seed: u64, description: &str) -> u64 {
    let mut text = seed.to_be_bytes().to_vec();
    text.extend_from_slice(description.as_bytes());
    let digest = Digest::of_bytes(&text);
    let [a, b, c, d, e, f, g, h, ..] = *digest.as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}
