//! Owns the public listener's routes and the way of one IPN through them.
//! A 200 is written in one place only, behind `Intake::append`, which returns when the record is durable.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use actix_web::web::{self, Data, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, guard};
use arc_swap::ArcSwap;
use bytes::Bytes;
use payfold_engines::clock::{self, Clock};
use payfold_partners::directory::{Account, Directory};
use payfold_partners::verify::{RejectCode, Rejection};
use payfold_schemas::record::NoticeRequest;

use crate::admit::Judged;
use crate::genuine::{Genuine, Signer, Taken, Taking, Verdict};
use crate::health::ClockHealth;
use crate::intake::{Intake, Receipt};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::quarantine::{self, Budget, BudgetShare, Keeping, Kept, Refused};
use crate::refusal::Refusal;
use crate::replays::{NoticeIdentity, Replays, SignedPart};
use crate::sampler::Sampler;
use crate::{admit, body, elsewhere, own_scheme, transport};

/// What the role works with. One value, shared by all workers.
pub struct Ingest {
    /// Where notices go.
    pub intake: Intake,
    /// The receiver's clock.
    pub clock: Arc<dyn Clock>,
    /// Accounts, profiles and keys as they are now; swapped whole when the vault changes.
    pub directory: Arc<ArcSwap<Directory>>,
    /// Our address as partners know it, up to the path; empty = as the request says.
    pub public_url: String,
    /// Counters.
    pub metrics: Metrics,
    /// Rates and trusted proxies.
    pub limits: Limits,
    /// Quarantine bytes per account.
    pub quarantine: Budget,
    /// What is known to be durable.
    pub replays: Replays,
    /// What partners' times say of our clock.
    pub clock_health: Arc<ClockHealth>,
    /// Time for a body.
    pub body_timeout: Duration,
    /// One log line per second and code for refusals.
    pub sampler: Sampler,
    /// Requests that have begun and not been answered.
    pub in_flight: AtomicUsize,
}

/// The routes of the public listener that partners use. Every other path is a 404 problem.
pub fn routes(config: &mut ServiceConfig) {
    for path in ["/api/payment/ipn", "/api/payment/ipn/{partner}"] {
        config.service(
            web::resource(path)
                .guard(guard::fn_guard(elsewhere::is_plain_path))
                .route(web::post().to(ipn))
                .route(web::get().guard(guard::fn_guard(own_scheme::takes_get)).to(ipn))
                .default_service(web::to(method_not_allowed)),
        );
    }
    config.default_service(web::to(elsewhere::not_found));
}

async fn method_not_allowed(request: HttpRequest, unread: Payload) -> HttpResponse {
    elsewhere::method_not_allowed(&request, unread, "POST")
}

/// `POST /api/payment/ipn` and `/api/payment/ipn/{partner}` (contract 4.2): 200 with an empty body once the
/// notice is durable, else a problem document.
async fn ipn(request: HttpRequest, mut payload: Payload, ingest: Data<Ingest>) -> HttpResponse {
    let started = Instant::now();
    let _open = ingest.open_request();
    let receipt = ingest.receipt();
    // Boxed, so that the contract's way carries nothing of it.
    if request.match_info().get("partner").is_some()
        && let Some(response) = Box::pin(ingest.receive_own(&request, &mut payload, &receipt)).await
    {
        ingest.metrics.request_took(started.elapsed());
        return match response {
            Ok(answer) => answer,
            Err(refused) => body::hold(payload, refused),
        };
    }
    let response = match ingest.read(&request, &mut payload, &receipt).await {
        Ok(raw) => match ingest.receive(&request, &raw, receipt).await {
            Ok(()) => HttpResponse::Ok().finish(),
            Err(refused) => refused,
        },
        Err(refused) => body::hold(payload, refused),
    };
    ingest.metrics.request_took(started.elapsed());
    response
}

/// Counts a request as open until it is dropped, answered or not.
struct OpenRequest<'a>(&'a AtomicUsize);

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ingest {
    /// How many requests are open.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    fn open_request(&self) -> OpenRequest<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        OpenRequest(&self.in_flight)
    }

    pub(crate) fn receipt(&self) -> Receipt {
        let received_at = self.clock.now();
        Receipt { request_id: clock::request_id(received_at), received_at }
    }

    /// Reads one notice's bytes, if its sender and its head may. Errors: the response of its refusal.
    async fn read(
        &self,
        request: &HttpRequest,
        payload: &mut Payload,
        receipt: &Receipt,
    ) -> Result<Bytes, HttpResponse> {
        let refuse = |refusal: Refusal| self.refuse(receipt, None, &refusal);
        self.limits.pass_address(self.source(request)).map_err(refuse)?;
        let bytes_max =
            self.directory.load().limits(request.match_info().get("partner")).body_bytes;
        transport::check(request.head(), bytes_max, &transport::is_json).map_err(refuse)?;
        body::read(payload, bytes_max, self.body_timeout).await.map_err(refuse)
    }

    /// Takes one notice from its bytes to its durable record. Errors: another response, its refusal or, where a partner's
    /// own scheme took it, that partner's acknowledgement.
    async fn receive(
        &self,
        request: &HttpRequest,
        raw: &[u8],
        receipt: Receipt,
    ) -> Result<(), HttpResponse> {
        let rejection = match self.take_signed(request, raw, receipt) {
            Ok((taking, unknown_fields)) => {
                let taken = self.taken(taking).await;
                let taken = taken.map_err(|refusal| refusal.respond(receipt.request_id))?;
                if taken == Taken::Stored {
                    self.metrics.unknown_fields_seen(u64::from(unknown_fields));
                }
                return Ok(());
            }
            Err(rejection) => rejection,
        };
        let is_shared = request.match_info().get("partner").is_none();
        if is_shared && rejection.code() == RejectCode::Unauthenticated {
            // Boxed, so that the contract's way carries nothing of it.
            let own = Box::pin(self.receive_by_merchant(request, raw, receipt)).await;
            if let Some(answer) = own {
                return Err(answer);
            }
        }
        Err(self.refuse(&receipt, Some(raw), &rejection.into()))
    }

    /// What happens to a notice whose signer is known, up to its durability: limits of its account, admission. With it how
    /// many fields it has that nobody knows. Errors: nobody known has signed it.
    fn take_signed<'a>(
        &self,
        request: &HttpRequest,
        raw: &'a [u8],
        receipt: Receipt,
    ) -> Result<(Taking<'a>, u32), Rejection> {
        let route = request.match_info().get("partner");
        let verified = self.directory.load().verify(route, raw, receipt.received_at)?;
        let target = request.uri().path_and_query().map_or("", |target| target.as_str());
        let notice_request =
            NoticeRequest { target: target.to_owned(), ..NoticeRequest::default() };
        let source = admit::source(&verified, notice_request);
        let signer =
            Signer { account: Arc::clone(verified.account()), key_id: verified.key_id().clone() };
        let verdict = Verdict::of(self.admits(request, &signer.account), || {
            admit::admit(&verified, receipt.received_at).map(Judged::Admitted)
        });
        let signed = SignedPart { text: *verified.signature(), covers_all: true, item: None };
        let taking = self.take(Genuine { signer, signed, source, receipt, raw }, verdict);
        Ok((taking, verified.unknown_fields()))
    }

    /// Hands a signed notice that is no fact to the log, as far as this share of its account's budget goes and unless it
    /// is kept already.
    pub(crate) fn keep(
        &self,
        receipt: Receipt,
        refused: Refused<'_>,
        identity: NoticeIdentity,
        share: BudgetShare,
    ) -> Kept {
        if self.is_kept(identity, &receipt) {
            return Kept::Before;
        }
        let (name, bytes) = (refused.account.name(), refused.raw.len());
        let code = refused.refusal.code;
        if !self.quarantine.take(&name, bytes, share, receipt.received_at) {
            self.metrics.quarantine_over_budget();
            if share == BudgetShare::Whole {
                self.sampler.not_kept(&receipt, refused.raw, &name);
            }
            return Kept::OverBudget;
        }
        let appending = quarantine::append(&self.intake, receipt, (name, refused));
        Kept::Appending { appending, code, bytes, identity }
    }

    /// Whether this notice is in quarantine, as far as this process remembers. While the log takes no appends nothing is
    /// answered from memory.
    pub(crate) fn is_kept(&self, identity: NoticeIdentity, receipt: &Receipt) -> bool {
        self.intake.takes_appends()
            && self.replays.quarantined().holds(identity, receipt.received_at)
    }

    /// Waits until a notice that is kept is durable. Errors: `storage_unavailable`.
    pub(crate) async fn kept(
        &self,
        account: &Account,
        kept: Kept,
        receipt: &Receipt,
    ) -> Result<Keeping, Refusal> {
        let (appending, code, bytes, identity) = match kept {
            Kept::Before => return self.intake.still_durable().await.map(|()| Keeping::Whole),
            Kept::OverBudget => return Ok(Keeping::OverBudget),
            Kept::Appending { appending, code, bytes, identity } => {
                (appending, code, bytes, identity)
            }
        };
        if let Err(unavailable) = self.intake.durable(appending).await {
            self.quarantine.give_back(&account.name(), bytes);
            return Err(unavailable);
        }
        self.replays.quarantined().remember(identity, receipt.received_at);
        self.metrics.notice_quarantined(code);
        Ok(Keeping::Whole)
    }

    /// Refuses a request nobody is known to have signed: counted, and sampled into the log.
    pub(crate) fn refuse(
        &self,
        receipt: &Receipt,
        body: Option<&[u8]>,
        refusal: &Refusal,
    ) -> HttpResponse {
        self.metrics.notice_refused(None, refusal.code);
        self.sampler.refused(receipt, body, refusal.code);
        refusal.respond(receipt.request_id)
    }

    pub(crate) fn source(&self, request: &HttpRequest) -> Option<IpAddr> {
        let peer = request.peer_addr().map(|address| address.ip());
        if !self.limits.has_trusted_proxies() {
            return peer;
        }
        // A proxy may add a line of its own under the client's: all lines are one list, in order.
        // A byte that is no text spoils its own hop only, never what the proxy wrote behind it.
        let lines = request.headers().get_all("x-forwarded-for");
        let forwarded: Vec<_> =
            lines.map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
        self.limits.source(peer, &forwarded.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much of memory a request holds from its arrival to its answer, beside its bytes.
    fn bytes_of<F>(_: impl Fn(HttpRequest, Payload, Data<Ingest>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_notice_that_waits_for_its_durability_is_small() {
        let bytes = bytes_of(ipn);
        assert!(bytes <= 1_536, "{bytes} bytes: thousands of them wait at once");
    }
}
