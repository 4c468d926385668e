//! Owns the shared state of the role: its parts, its requests in flight, and its drain. Work that
//! must outlive a shop's connection runs on the runtime that the role was started on, not on a
//! listener's worker.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use payfold_engines::EngineError;
use payfold_engines::clock::Clock;
use payfold_engines::log::EventLog;
use payfold_engines::orders::{ClaimKey, Claimed, OrderStore};
use payfold_partners::directory::Directory;
use payfold_partners::remote::PartnerClient;
use payfold_partners::shops::Shops;
use payfold_schemas::ids::{OrderKey, PartnerCode, RequestId};
use payfold_schemas::time::Time;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::call_log::CallLog;
use crate::fact_log::FactLog;
use crate::feed::Feed;
use crate::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::problem::{Problem, kinds};
use crate::rows::{OrderRow, RowReader, RowWatcher};

/// How long the storage may take for one operation: to make a fact durable, to claim a key, or to
/// read a row.
pub(crate) const STORAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// The addresses from the settings.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// The public listener's base address, as partners and browsers reach it.
    pub public_url: String,
    /// Each partner's API address; a partner without one takes no create calls.
    pub api_urls: HashMap<PartnerCode, String>,
    /// The names a payment may give for `returnTo`.
    pub return_to: BTreeSet<String>,
}

/// How much may be in flight at once, and how long a body may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most create calls in flight at one partner.
    pub calls_per_partner_max: usize,
    /// The most streams and long polls open at once.
    pub followers_max: usize,
    /// How long the body of a request may take to arrive.
    pub body_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let body_timeout = Duration::from_secs(10);
        Self { calls_per_partner_max: 256, followers_max: 10_000, body_timeout }
    }
}

/// What the role is built from.
pub struct CheckoutParts {
    /// The log: facts are appended to it, events are read from it.
    pub log: Arc<dyn EventLog>,
    /// The store of claims and order rows.
    pub store: Arc<dyn OrderStore>,
    /// The clock that stamps requests and facts.
    pub clock: Arc<dyn Clock>,
    /// Accounts, profiles and keys in force; swapped whole when the vault changes.
    pub directory: Arc<ArcSwap<Directory>>,
    /// Shops and their tokens in force; swapped whole when the vault changes.
    pub shops: Arc<ArcSwap<Shops>>,
    /// The client that calls partners.
    pub remote: PartnerClient,
    /// The addresses from the settings.
    pub addresses: Addresses,
    /// The role's metrics.
    pub metrics: Metrics,
    /// The role's limits.
    pub limits: Limits,
}

/// The checkout role: one value, which all workers of the listener share.
pub struct Checkout {
    pub(crate) parts: CheckoutParts,
    pub(crate) fact_log: FactLog,
    pub(crate) feed: Feed,
    rows: Arc<RowReader>,
    pub(crate) in_flight: InFlight,
    pub(crate) call_log: CallLog,
    pub(crate) runtime: Handle,
    draining: watch::Sender<bool>,
    open_work: Arc<AtomicUsize>,
}

/// Work that a drain waits for, until dropped.
pub(crate) struct OpenWork(Arc<AtomicUsize>);

impl Drop for OpenWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// When a request was received, and its request id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receipt {
    pub(crate) request_id: RequestId,
    pub(crate) received_at: Time,
}

impl Checkout {
    /// Starts the feed on `runtime`, on which create requests run, too. The runtime has to live
    /// until the drain is over.
    pub fn start(parts: CheckoutParts, runtime: Handle) -> Self {
        let feed = Feed::start(Arc::clone(&parts.log), parts.limits.followers_max, &runtime);
        Self {
            fact_log: FactLog::new(Arc::clone(&parts.log), Arc::clone(&parts.clock)),
            feed,
            rows: Arc::new(RowReader::new(Arc::clone(&parts.store))),
            in_flight: InFlight::new(parts.limits.calls_per_partner_max),
            call_log: CallLog::default(),
            runtime,
            draining: watch::Sender::new(false),
            open_work: Arc::default(),
            parts,
        }
    }

    /// How much a drain waits for: requests without an answer, and create attempts with an outcome
    /// that is not durable. An attempt that a shop waits for counts as both. Streams are not
    /// counted.
    pub fn open_work_count(&self) -> usize {
        self.open_work.load(Ordering::Relaxed)
    }

    /// Why the role is not ready, so that shops are sent to other processes: storage has failed for
    /// a while. `None` if it is ready.
    pub fn storage_trouble(&self, now: Time) -> Option<String> {
        self.fact_log.storage_trouble(now)
    }

    /// Begins the drain: ends streams and long polls.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Resolves when the drain begins.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut draining = self.draining.subscribe();
        async move {
            // An error means that the role was dropped, which ends streams, too.
            let _ = draining.wait_for(|draining| *draining).await;
        }
    }

    /// Counts work that a drain waits for, until the result is dropped.
    pub(crate) fn open_work(&self) -> OpenWork {
        self.open_work.fetch_add(1, Ordering::Relaxed);
        OpenWork(Arc::clone(&self.open_work))
    }

    /// The receipt of a request that is received now.
    pub(crate) fn receipt(&self) -> Receipt {
        let received_at = self.now();
        let request_id = payfold_engines::clock::request_id(received_at);
        Receipt { request_id, received_at }
    }

    pub(crate) fn now(&self) -> Time {
        self.parts.clock.now()
    }

    /// Awaits a read of the store, up to the storage timeout: a disk that hangs must not hold a
    /// request, a key or a permit. Errors: `storage_unavailable`.
    pub(crate) async fn read_store<T>(
        &self,
        call: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, Problem> {
        let read = with_timeout(call).await;
        let read = read.map_err(|error| self.fact_log.note_read_failure(&error))?;
        self.fact_log.note_read();
        Ok(read)
    }

    /// Claims a key, within the storage timeout. Errors: `storage_unavailable`; the claim may be
    /// durable all the same, and no process acts on it.
    pub(crate) async fn claim(&self, key: ClaimKey, record: Vec<u8>) -> Result<Claimed, Problem> {
        let claimed = with_timeout(self.parts.store.claim(key, record)).await;
        let claimed = claimed.map_err(|error| self.fact_log.note_claim_failure(&error))?;
        self.fact_log.note_claim();
        Ok(claimed)
    }

    /// The row of an order; `None` if there is none. Errors: `storage_unavailable`.
    pub(crate) async fn load_row(&self, key: &OrderKey) -> Result<Option<OrderRow>, Problem> {
        self.read_store(self.rows.load(key)).await
    }

    /// The rows of these keys, in the same order. Errors: `storage_unavailable`.
    pub(crate) async fn load_rows(
        &self,
        keys: Vec<OrderKey>,
    ) -> Result<Vec<Option<OrderRow>>, Problem> {
        self.read_store(self.rows.load_all(keys)).await
    }

    /// Watches the row of an order. Errors: `too_many_followers`.
    pub(crate) fn watch_row(&self, key: &OrderKey) -> Result<RowWatcher, Problem> {
        let follower = self.feed.follow(key);
        let follower = follower.ok_or_else(|| Problem::new(&kinds::TOO_MANY_FOLLOWERS))?;
        Ok(RowWatcher::new(Arc::clone(&self.rows), key.clone(), follower))
    }
}

/// Awaits a call of an engine, up to the storage timeout. Errors: the engine's, or `Unavailable` if
/// it does not answer in time.
async fn with_timeout<T>(
    call: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    tokio::time::timeout(STORAGE_TIMEOUT, call).await.unwrap_or_else(|_| {
        let waited = STORAGE_TIMEOUT.as_millis();
        Err(EngineError::Unavailable(format!("the store did not answer within {waited} ms")))
    })
}
