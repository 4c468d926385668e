//! Owns the way of one create request: known key or planned attempt → claim → C durable → one call → O or CF durable
//! → answer. Whoever is told `Mine` calls once and nobody else ever does; a crash at any point leaves an order that
//! a notice, a query or its deadline settles. The work goes on when the shop hangs up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::{HttpRequest, HttpResponse};
use payfold_engines::orders::{ClaimKey, Claimed, ReservedClaimKey, is_create_request};
use payfold_partners::remote::{Created, Failure};
use payfold_partners::shops::ShopEntry;
use payfold_schemas::fact::{CreateFailed, Fact, Session};
use tokio::sync::OwnedSemaphorePermit;

use crate::answer::{Answer, Told};
use crate::attempt::{Attempt, plan};
use crate::body;
use crate::call::Call;
use crate::checkout::{Checkout, Receipt, STORAGE_PATIENCE};
use crate::metrics::Outcome;
use crate::outcome::{Begun, Kept};
use crate::problem::{Problem, kinds};
use crate::request::PaymentRequest;
use crate::rows::{Row, Watcher};

/// How long an answer waits for the projector, for the state and version it shows.
pub(crate) const FOLD_PATIENCE: Duration = Duration::from_secs(1);
/// Characters of an Idempotency-Key.
const KEY_CHARS_MAX: usize = 255;

/// `POST /v1/payments`.
pub(crate) async fn create(call: &mut Call) -> Result<HttpResponse, Problem> {
    let shop = call.shop()?;
    let claim_key = ClaimKey::create_request(&shop.name, idempotency_key(&call.request)?);
    let checkout = Arc::clone(&call.checkout);
    let timeout = checkout.parts.limits.body_timeout;
    let body = body::read(call.request.head(), &mut call.payload, timeout).await?;
    let asked = PaymentRequest::parse(&body)?;
    let in_flight = checkout.calls.begin(look_up_key(&claim_key).as_str());
    let in_flight = in_flight.ok_or_else(|| Problem::new(&kinds::IDEMPOTENCY_KEY_IN_FLIGHT))?;
    let (runtime, open) = (checkout.runtime.clone(), checkout.open_work());
    let job = Job { checkout, shop, claim_key, asked, receipt: call.receipt };
    let answer = runtime.spawn(job.run((in_flight, open))).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a create request ended without an answer");
        Err(Problem::new(&kinds::INTERNAL))
    });
    answer.map(|answer| answer.respond())
}

/// Errors: `idempotency_key_missing`, also for two of them or another form.
fn idempotency_key(request: &HttpRequest) -> Result<&str, Problem> {
    let mut keys = request.headers().get_all("idempotency-key");
    let key = keys.next().and_then(|value| value.to_str().ok());
    key.filter(|key| (1..=KEY_CHARS_MAX).contains(&key.len()) && keys.next().is_none())
        .filter(|key| key.bytes().all(|byte| matches!(byte, b' '..=b'~')))
        .ok_or_else(|| Problem::new(&kinds::IDEMPOTENCY_KEY_MISSING))
}

/// The key at which a claim of this request would be found.
fn look_up_key(claim_key: &Result<ClaimKey, ReservedClaimKey>) -> &ClaimKey {
    claim_key.as_ref().unwrap_or_else(ReservedClaimKey::look_up)
}

/// The answer to an Idempotency-Key that can't be claimed.
fn reserved_key() -> Problem {
    Problem::new(&kinds::IDEMPOTENCY_KEY_MISSING).because(
        "for a shop of this name an Idempotency-Key of this form is not free: it is kept for payfold's own claims; nothing \
         was sent to the partner: send the request with another key, such as order-17",
    )
}

/// One create request whose shape is right.
pub(crate) struct Job {
    pub(crate) checkout: Arc<Checkout>,
    pub(crate) shop: ShopEntry,
    /// An error where the Idempotency-Key can't be claimed.
    pub(crate) claim_key: Result<ClaimKey, ReservedClaimKey>,
    pub(crate) asked: PaymentRequest,
    pub(crate) receipt: Receipt,
}

impl Job {
    async fn run(self, begun: Begun) -> Result<Answer, Problem> {
        let checkout = &self.checkout;
        // A known key is answered before anything is looked at that may have changed since.
        let claim_key = self.claim_key.clone();
        let known = checkout.parts.store.claimed(look_up_key(&claim_key).clone());
        let known = checkout.in_time(known).await?;
        let claim_key = match (known, claim_key) {
            (Some(record), Ok(_)) => return self.replay(record).await,
            // An earlier version claimed it: the first request may have been paid for.
            (Some(record), Err(_)) if is_create_request(&record) => {
                return self.replay(record).await;
            }
            (_, Err(_)) => return Err(reserved_key()),
            (None, Ok(claim_key)) => claim_key,
        };
        let attempt = plan(checkout, &self.shop, &self.asked, self.receipt).await?;
        let Some(permit) = checkout.calls.enter(&attempt.key.partner) else {
            checkout.parts.metrics.created(&attempt.key.partner, Outcome::Busy);
            return Err(Problem::new(&kinds::PARTNER_BUSY));
        };
        // If the claim's answer is lost, no process may make the call.
        match checkout.claim(claim_key, attempt.record.clone()).await? {
            Claimed::Taken(record) => self.replay(record).await,
            Claimed::Mine => make(&self.checkout, attempt, permit, begun).await,
        }
    }
}

/// What this process alone may do: the attempt's one call, between its C and its outcome.
async fn make(
    checkout: &Arc<Checkout>,
    attempt: Attempt,
    permit: OwnedSemaphorePermit,
    begun: Begun,
) -> Result<Answer, Problem> {
    let Attempt { key, create, account, description, record, receipt, call } = attempt;
    let metrics = &checkout.parts.metrics;
    let outcome = Kept { checkout, key: &key, receipt, begun };
    if let Err(problem) = checkout.facts.append(&key, record.clone(), STORAGE_PATIENCE).await {
        metrics.created(&key.partner, Outcome::StorageUnavailable);
        outcome.not_called(record);
        return Err(problem);
    }
    let (started, goes_out) = (Instant::now(), call.goes_out());
    let created = call.make(|| checkout.now()).await;
    drop(permit);
    if goes_out {
        metrics.call_took(&key.partner, started.elapsed());
    }
    metrics.created(&key.partner, outcome_of(&created));
    checkout.teller.called(&key, &created, checkout.now());
    let mut watcher = checkout.watch(&key).ok();

    let told = Told { key: &key, create: &create, row: None, now: checkout.now() };
    match created {
        Created::Opened(offer) => {
            let grace_ms = account.profile().create_terms().map_or(0, |terms| terms.grace_ms);
            let session = Session {
                provider_ref: offer.provider_ref,
                presentation: offer.presentation,
                expires_at: offer.expires_at,
                deadline: offer.expires_at.plus_ms(grace_ms),
                create: create.digest(),
            };
            if !outcome.keep(Fact::SessionOpened(session.clone())).await {
                return Ok(told.accepted());
            }
            let is_folded = |row: &Row| row.facts.sessions.iter().any(|o| o.content == session);
            let row = folded(&mut watcher, is_folded).await;
            Ok(Told { row: row.as_ref(), now: checkout.now(), ..told }
                .created(&session, description))
        }
        Created::Failed(failure) => {
            let code = failure.code();
            if !outcome.keep(Fact::CreateFailed(CreateFailed { code: code.clone() })).await {
                return Ok(told.accepted());
            }
            Err(Problem::create_failed(&code, key.order_id.clone()))
        }
        Created::Unknown(_) => {
            let row = folded(&mut watcher, |_| true).await;
            Ok(Told { row: row.as_ref(), now: checkout.now(), ..told }.accepted())
        }
    }
}

/// The row once it is wanted, or none within the projector's time.
pub(crate) async fn folded(
    watcher: &mut Option<Watcher>,
    wanted: impl Fn(&Row) -> bool,
) -> Option<Row> {
    let watcher = watcher.as_mut()?;
    tokio::time::timeout(FOLD_PATIENCE, watcher.until(wanted)).await.ok()?.ok()
}

fn outcome_of(created: &Created) -> Outcome {
    match created {
        Created::Opened(_) => Outcome::Opened,
        Created::Failed(Failure::Refused(_) | Failure::Declined(_)) => Outcome::Refused,
        Created::Failed(Failure::Unreachable(_)) => Outcome::Unreachable,
        Created::Failed(Failure::Violation(_)) => Outcome::ContractViolation,
        Created::Unknown(_) => Outcome::Unknown,
    }
}
