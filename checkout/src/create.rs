//! Owns the processing of one create request. A request with a known key is answered by a replay of
//! the earlier attempt. The steps of a new attempt: plan it and sign the call → claim the key →
//! make `CreateRequested` durable → call the partner → make `SessionOpened` or `CreateFailed`
//! durable → answer. A request calls the partner only if the store answers its claim with `Mine`. A
//! crash after `CreateRequested` leaves an order that a notice, a query or its deadline settles. A
//! crash before `CreateRequested` leaves a claim that the shop's retry finds (`replay`). The work
//! continues when the shop hangs up.
//!
//! `ShopRequest::answer` turns a `Problem` into its document. `Checkout::claim` waits five seconds
//! at most for the store. `fact_log` appends `CreateRequested`, `outcome_writer` the outcome,
//! in a task that goes on after the five seconds that a shop waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::{HttpRequest, HttpResponse};
use payfold_engines::orders::{ClaimKey, Claimed, ReservedClaimKey};
use payfold_partners::remote::{CreateFailure, CreateOutcome};
use payfold_partners::shops::ShopEntry;
use payfold_schemas::fact::{CreateFailed, Fact, Session};
use payfold_schemas::record::is_create_request;
use tokio::sync::OwnedSemaphorePermit;

use crate::answer::CreateAnswer;
use crate::attempt::{PlannedAttempt, plan_attempt};
use crate::body;
use crate::checkout::{Checkout, Receipt, STORAGE_TIMEOUT};
use crate::metrics::CreateResult;
use crate::outcome_writer::{AttemptGuards, OutcomeWriter};
use crate::payment::AttemptView;
use crate::payment_request::PaymentRequest;
use crate::problem::{Problem, kinds};
use crate::rows::{OrderRow, RowWatcher};
use crate::shop_request::ShopRequest;

/// How long an answer waits for the projector, to show the folded state and version.
pub(crate) const FOLD_TIMEOUT: Duration = Duration::from_secs(1);
/// The most characters of an Idempotency-Key.
const KEY_CHARS_MAX: usize = 255;

/// `POST /v1/payments`.
pub(crate) async fn create(request: &mut ShopRequest) -> Result<HttpResponse, Problem> {
    let shop = request.authenticate_shop()?;
    let claim_key = ClaimKey::create_request(&shop.name, idempotency_key(&request.http)?);
    let checkout = Arc::clone(&request.checkout);
    let timeout = checkout.parts.limits.body_timeout;
    let body = body::read_json_body(request.http.head(), &mut request.payload, timeout).await?;
    let wanted = PaymentRequest::parse(&body)?;
    let key = checkout.in_flight.begin_key(lookup_key(&claim_key).as_str());
    let key = key.ok_or_else(|| Problem::new(&kinds::IDEMPOTENCY_KEY_IN_FLIGHT))?;
    let guards = AttemptGuards { _key: key, _work: checkout.open_work() };
    let runtime = checkout.runtime.clone();
    let job = CreateJob { checkout, shop, claim_key, wanted, receipt: request.receipt };
    // A task of its own: the HTTP library drops this handler when the shop hangs up.
    let answer = runtime.spawn(job.run(guards)).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a create request ended without an answer");
        Err(Problem::new(&kinds::INTERNAL))
    });
    answer.map(|answer| answer.respond())
}

/// The request's Idempotency-Key. Errors: `idempotency_key_missing`, also for several keys or a key
/// of another format.
fn idempotency_key(request: &HttpRequest) -> Result<&str, Problem> {
    let mut keys = request.headers().get_all("idempotency-key");
    let key = keys.next().and_then(|value| value.to_str().ok());
    key.filter(|key| (1..=KEY_CHARS_MAX).contains(&key.len()) && keys.next().is_none())
        .filter(|key| key.bytes().all(|byte| matches!(byte, b' '..=b'~')))
        .ok_or_else(|| Problem::new(&kinds::IDEMPOTENCY_KEY_MISSING))
}

/// The key to look up an earlier claim of this request by.
fn lookup_key(claim_key: &Result<ClaimKey, ReservedClaimKey>) -> &ClaimKey {
    claim_key.as_ref().unwrap_or_else(ReservedClaimKey::existing)
}

/// The answer to an Idempotency-Key that can't be claimed.
fn reserved_key() -> Problem {
    Problem::new(&kinds::IDEMPOTENCY_KEY_MISSING).with_detail(
        "for a shop of this name, Idempotency-Keys of this format are reserved for payfold's own \
         claims; nothing was sent to the partner; send the request again with another key, such as \
         order-17",
    )
}

/// One well-formed create request.
pub(crate) struct CreateJob {
    pub(crate) checkout: Arc<Checkout>,
    pub(crate) shop: ShopEntry,
    /// `Err` if the Idempotency-Key is reserved and can't be claimed.
    pub(crate) claim_key: Result<ClaimKey, ReservedClaimKey>,
    pub(crate) wanted: PaymentRequest,
    pub(crate) receipt: Receipt,
}

impl CreateJob {
    async fn run(self, guards: AttemptGuards) -> Result<CreateAnswer, Problem> {
        let checkout = &self.checkout;
        // The look-up comes before every other check: what a check allowed for the first request
        // may be refused by now, and a known key is answered all the same.
        let claim_key = self.claim_key.clone();
        let known = checkout.parts.store.claimed(lookup_key(&claim_key).clone());
        let known = checkout.read_store(known).await?;
        let claim_key = match (known, claim_key) {
            (Some(record), Ok(_)) => return self.replay(record).await,
            // An earlier version let shops claim such keys: that request may have been paid for.
            (Some(record), Err(_)) if is_create_request(&record) => {
                return self.replay(record).await;
            }
            (_, Err(_)) => return Err(reserved_key()),
            (None, Ok(claim_key)) => claim_key,
        };
        let attempt = plan_attempt(checkout, &self.shop, &self.wanted, self.receipt).await?;
        let Some(permit) = checkout.in_flight.acquire_call(&attempt.key.partner) else {
            checkout.parts.metrics.count_create(&attempt.key.partner, CreateResult::Busy);
            return Err(Problem::new(&kinds::PARTNER_BUSY));
        };
        // If the claim's answer is lost, no process may make the call.
        match checkout.claim(claim_key, attempt.record.clone()).await? {
            Claimed::Taken(record) => self.replay(record).await,
            Claimed::Mine => call_partner(&self.checkout, attempt, permit, guards).await,
        }
    }
}

/// Makes the attempt's one call, between its `CreateRequested` and its outcome. Only the process
/// that holds the claim may do this.
async fn call_partner(
    checkout: &Arc<Checkout>,
    attempt: PlannedAttempt,
    permit: OwnedSemaphorePermit,
    guards: AttemptGuards,
) -> Result<CreateAnswer, Problem> {
    let PlannedAttempt { key, create, account, description, record, receipt, call } = attempt;
    let metrics = &checkout.parts.metrics;
    let writer = OutcomeWriter { checkout, key: &key, receipt, guards };
    // CreateRequested is durable before the call, so that no session can be open at the partner for
    // an order that the log does not know.
    let requested = checkout.fact_log.append_within(STORAGE_TIMEOUT, &key, record.clone()).await;
    if let Err(problem) = requested {
        metrics.count_create(&key.partner, CreateResult::StorageUnavailable);
        writer.append_not_called(record);
        return Err(problem);
    }
    let (started, goes_out) = (Instant::now(), call.goes_out());
    let created = call.make(|| checkout.now()).await;
    // The partner is free as soon as it has answered, however long the outcome waits for the log.
    drop(permit);
    if goes_out {
        metrics.observe_call(&key.partner, started.elapsed());
    }
    metrics.count_create(&key.partner, outcome_of(&created));
    checkout.call_log.log_call(&key, &created, checkout.now());
    // Without a watcher the answer lacks the version.
    let mut watcher = checkout.watch_row(&key).ok();

    let (description, now) = (&*description, checkout.now());
    let view = AttemptView { key: &key, create: &create, description, row: None, now };
    match created {
        CreateOutcome::Opened(offer) => {
            let grace_ms = account.profile().create_terms().map_or(0, |terms| terms.grace_ms);
            let session = Session {
                provider_ref: offer.provider_ref,
                presentation: offer.presentation,
                expires_at: offer.expires_at,
                deadline: offer.expires_at.plus_ms(grace_ms),
                create: create.digest(),
            };
            if !writer.append_outcome(Fact::SessionOpened(session.clone())).await {
                return Ok(CreateAnswer::accepted(&view));
            }
            let is_folded =
                |row: &OrderRow| row.facts.sessions.iter().any(|o| o.content == session);
            let row = wait_for_row(&mut watcher, is_folded).await;
            let view = AttemptView { row: row.as_ref(), now: checkout.now(), ..view };
            Ok(CreateAnswer::created(&view, &session))
        }
        CreateOutcome::Failed(failure) => {
            let code = failure.code();
            if !writer.append_outcome(Fact::CreateFailed(CreateFailed { code: code.clone() })).await
            {
                return Ok(CreateAnswer::accepted(&view));
            }
            Err(Problem::create_failed(&code, key.order_id.clone()))
        }
        CreateOutcome::Unknown(_) => {
            let row = wait_for_row(&mut watcher, |_| true).await;
            let view = AttemptView { row: row.as_ref(), now: checkout.now(), ..view };
            Ok(CreateAnswer::accepted(&view))
        }
    }
}

/// Waits for a row that is `wanted`; `None` if the projector does not commit it in time.
pub(crate) async fn wait_for_row(
    watcher: &mut Option<RowWatcher>,
    wanted: impl Fn(&OrderRow) -> bool,
) -> Option<OrderRow> {
    let watcher = watcher.as_mut()?;
    tokio::time::timeout(FOLD_TIMEOUT, watcher.wait_until(wanted)).await.ok()?.ok()
}

fn outcome_of(created: &CreateOutcome) -> CreateResult {
    match created {
        CreateOutcome::Opened(_) => CreateResult::Opened,
        CreateOutcome::Failed(CreateFailure::Refused(_) | CreateFailure::Declined(_)) => {
            CreateResult::Refused
        }
        CreateOutcome::Failed(CreateFailure::Unreachable(_)) => CreateResult::Unreachable,
        CreateOutcome::Failed(CreateFailure::Violation(_)) => CreateResult::ContractViolation,
        CreateOutcome::Unknown(_) => CreateResult::Unknown,
    }
}
