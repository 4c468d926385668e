//! Owns the role's one value: what it works with, how much of it goes on, and its end.
//! Work that must outlive a shop's connection runs on the runtime the role was started on, not on a listener's worker.

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
use payfold_partners::remote::Remote;
use payfold_partners::shops::Shops;
use payfold_schemas::ids::{OrderKey, PartnerCode, RequestId};
use payfold_schemas::time::Time;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::calls::Calls;
use crate::facts::Facts;
use crate::feed::Feed;
use crate::metrics::Metrics;
use crate::problem::{Problem, kinds};
use crate::rows::{Row, Rows, Watcher};
use crate::tell::Teller;

/// How long the storage may take with one thing: a fact to become durable, a claim, a row to be read.
pub(crate) const STORAGE_PATIENCE: Duration = Duration::from_secs(5);

/// Addresses of the settings.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// Base address of the public listener, as partners and browsers reach it.
    pub public_url: String,
    /// Each partner's API address; a partner without one takes no create calls.
    pub api_urls: HashMap<PartnerCode, String>,
    /// The names a payment may give for `returnTo`.
    pub return_to: BTreeSet<String>,
}

/// How much may go on at once, and how long a body may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Create calls in flight at one partner.
    pub calls_per_partner_max: usize,
    /// Streams and long polls open at once.
    pub followers_max: usize,
    /// Time for a body.
    pub body_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let body_timeout = Duration::from_secs(10);
        Self { calls_per_partner_max: 256, followers_max: 10_000, body_timeout }
    }
}

/// What the role is made of.
pub struct Parts {
    /// Where facts go and events come from.
    pub log: Arc<dyn EventLog>,
    /// Claims and order rows.
    pub store: Arc<dyn OrderStore>,
    /// The receiver's clock.
    pub clock: Arc<dyn Clock>,
    /// Accounts, profiles and keys as they are now; swapped whole when the vault changes.
    pub directory: Arc<ArcSwap<Directory>>,
    /// Shops and their tokens as they are now.
    pub shops: Arc<ArcSwap<Shops>>,
    /// How partners are called.
    pub remote: Remote,
    /// Addresses of the settings.
    pub addresses: Addresses,
    /// Counters.
    pub metrics: Metrics,
    /// Bounds.
    pub limits: Limits,
}

/// What the role works with. One value, shared by all workers.
pub struct Checkout {
    pub(crate) parts: Parts,
    pub(crate) facts: Facts,
    pub(crate) feed: Feed,
    rows: Arc<Rows>,
    pub(crate) calls: Calls,
    pub(crate) teller: Teller,
    pub(crate) runtime: Handle,
    draining: watch::Sender<bool>,
    in_flight: Arc<AtomicUsize>,
}

/// Work that has begun and not ended, until dropped.
pub(crate) struct OpenWork(Arc<AtomicUsize>);

impl Drop for OpenWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// When a request came and how it is named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receipt {
    pub(crate) request_id: RequestId,
    pub(crate) received_at: Time,
}

impl Checkout {
    /// Starts the feed; create calls run on `runtime` too. It must live as long as the process does its work.
    pub fn start(parts: Parts, runtime: Handle) -> Self {
        let feed = Feed::start(Arc::clone(&parts.log), parts.limits.followers_max, &runtime);
        Self {
            facts: Facts::new(Arc::clone(&parts.log), Arc::clone(&parts.clock)),
            feed,
            rows: Arc::new(Rows::new(Arc::clone(&parts.store))),
            calls: Calls::new(parts.limits.calls_per_partner_max),
            teller: Teller::default(),
            runtime,
            draining: watch::Sender::new(false),
            in_flight: Arc::default(),
            parts,
        }
    }

    /// What a drain waits for: requests that have no answer yet, and create calls whose outcome is not durable yet
    /// (one that a shop waits for counts as both). Streams are not counted.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Why shops should be sent elsewhere: nothing could be stored or read for a while. None while they should not.
    pub fn storage_trouble(&self, now: Time) -> Option<String> {
        self.facts.trouble(now)
    }

    /// Ends streams and long polls.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Resolves when the role is told to end.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut draining = self.draining.subscribe();
        async move {
            // The sender is gone when the role is: that is an end too.
            let _ = draining.wait_for(|draining| *draining).await;
        }
    }

    pub(crate) fn open_work(&self) -> OpenWork {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        OpenWork(Arc::clone(&self.in_flight))
    }

    pub(crate) fn receipt(&self) -> Receipt {
        let received_at = self.now();
        let request_id = payfold_engines::clock::request_id(received_at);
        Receipt { request_id, received_at }
    }

    pub(crate) fn now(&self) -> Time {
        self.parts.clock.now()
    }

    /// What a read of the store gives, if it ends in time: a disk that hangs must hold no request, key or permit.
    /// Errors: `storage_unavailable`.
    pub(crate) async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, Problem> {
        let read = timed(call).await.map_err(|error| self.facts.failed(&error))?;
        self.facts.read();
        Ok(read)
    }

    /// Claims a key, if that ends in time. Errors: `storage_unavailable`; the claim may still be made, and nobody acts
    /// on it.
    pub(crate) async fn claim(&self, key: ClaimKey, record: Vec<u8>) -> Result<Claimed, Problem> {
        let claimed = timed(self.parts.store.claim(key, record)).await;
        let claimed = claimed.map_err(|error| self.facts.store_failed(&error))?;
        self.facts.stored();
        Ok(claimed)
    }

    /// One row. Errors: `storage_unavailable`.
    pub(crate) async fn row(&self, key: &OrderKey) -> Result<Option<Row>, Problem> {
        self.in_time(self.rows.load(key)).await
    }

    /// The rows of these keys, in the same order. Errors: `storage_unavailable`.
    pub(crate) async fn rows(&self, keys: Vec<OrderKey>) -> Result<Vec<Option<Row>>, Problem> {
        self.in_time(self.rows.load_all(keys)).await
    }

    /// Follows an order. Errors: `too_many_followers`.
    pub(crate) fn watch(&self, key: &OrderKey) -> Result<Watcher, Problem> {
        let follower = self.feed.follow(key);
        let follower = follower.ok_or_else(|| Problem::new(&kinds::TOO_MANY_FOLLOWERS))?;
        Ok(Watcher::new(Arc::clone(&self.rows), key.clone(), follower))
    }
}

/// What a call of an engine gives. Errors: the engine's, and `Unavailable` if it does not answer in time.
async fn timed<T>(call: impl Future<Output = Result<T, EngineError>>) -> Result<T, EngineError> {
    tokio::time::timeout(STORAGE_PATIENCE, call).await.unwrap_or_else(|_| {
        let waited = STORAGE_PATIENCE.as_millis();
        Err(EngineError::Unavailable(format!("the store did not answer within {waited} ms")))
    })
}
