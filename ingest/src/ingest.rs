//! Owns the state of the ingest role, which all workers share: the log, the clock, accounts and
//! keys, limits, remembered notices and metrics. Also owns the helpers that several steps of a
//! request use: its receipt, its source address, anonymous refusals, and writing to quarantine.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse};
use arc_swap::ArcSwap;
use payfold_engines::clock::{self, Clock};
use payfold_partners::directory::Directory;

use crate::health::ClockHealth;
use crate::intake::{Intake, Receipt};
use crate::limits::Limits;
use crate::metrics::IngestMetrics;
use crate::quarantine::QuarantineBudget;
use crate::refusal::Refusal;
use crate::replays::{NoticeIdentity, RememberedNotices, Replays};
use crate::sampler::Sampler;

/// The state of the ingest role. One value, shared by all workers.
pub struct Ingest {
    /// Appends records to the log.
    pub intake: Intake,
    /// This host's clock.
    pub clock: Arc<dyn Clock>,
    /// Accounts, profiles and keys. Replaced as a whole when the vault changes.
    pub directory: Arc<ArcSwap<Directory>>,
    /// The setting `public_url`: scheme, host and port that partners call. Empty: taken from each
    /// request's `Host` header.
    pub public_url: String,
    /// Counters and timers.
    pub metrics: IngestMetrics,
    /// Rate limits and trusted proxies.
    pub limits: Limits,
    /// Quarantine bytes per account and hour.
    pub quarantine: QuarantineBudget,
    /// Notices this process remembers, to recognise replays.
    pub replays: Replays,
    /// What signed timestamps show about this host's clock.
    pub clock_health: Arc<ClockHealth>,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
    /// Limits refusals to one log line per second and code.
    pub sampler: Sampler,
    /// Requests that have begun and are not answered yet.
    pub in_flight: AtomicUsize,
}

/// Counts a request as open until it is dropped, answered or not.
pub(crate) struct OpenRequest<'a>(&'a AtomicUsize);

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ingest {
    /// The number of open requests.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn open_request(&self) -> OpenRequest<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        OpenRequest(&self.in_flight)
    }

    pub(crate) fn new_receipt(&self) -> Receipt {
        let received_at = self.clock.now();
        Receipt { request_id: clock::request_id(received_at), received_at }
    }

    /// Whether this process remembers the notice as durable. Returns `false` while the log takes no
    /// appends, so that nothing is answered from memory then.
    pub(crate) fn remembers(
        &self,
        notices: &RememberedNotices,
        identity: NoticeIdentity,
        receipt: &Receipt,
    ) -> bool {
        self.intake.takes_appends() && notices.contains(identity, receipt.received_at)
    }

    /// Refuses a request without a verified signature: counts it under no partner, samples it into
    /// the log, and builds its problem document.
    pub(crate) fn refuse_anonymous(
        &self,
        receipt: &Receipt,
        body: Option<&[u8]>,
        refusal: &Refusal,
    ) -> HttpResponse {
        self.metrics.count_refused(None, refusal.code);
        self.sampler.log_refusal(receipt, body, refusal);
        refusal.respond(receipt.request_id)
    }

    /// The address a request comes from, behind trusted proxies that of the client.
    pub(crate) fn source_address(&self, request: &HttpRequest) -> Option<IpAddr> {
        let peer = request.peer_addr().map(|address| address.ip());
        if !self.limits.has_trusted_proxies() {
            return peer;
        }
        // A proxy may add its own header line below the client's. All lines form one list, in
        // their order. A byte that is not text makes only its own hop unreadable, not the hops that
        // proxies added after it.
        let lines = request.headers().get_all("x-forwarded-for");
        let forwarded: Vec<_> =
            lines.map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
        self.limits.source_address(peer, &forwarded.join(","))
    }
}
