//! Owns the feed: one task per process that reads the `orders` topic from its end and wakes the
//! followers of an order that has changed. It remembers only followed orders, with the newest
//! version that an event named. It acknowledges nothing, because each process has to read all
//! events. An event may be read before its row is committed, or before its order is followed. So a
//! follower reads the row first, and reads it again after a pause (see `rows`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, EventLog, Extent, Start, Topic};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::position::Position;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;

use crate::in_flight::lock;
use crate::version::Version;

/// The consumer group of the feed, which acknowledges nothing.
const GROUP: &str = "checkout-feed";
/// The most events of one batch.
const BATCH: usize = 256;
/// The pause before a failed subscription is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// The feed, and the permits of the followers.
pub(crate) struct Feed {
    followed: Arc<FollowedOrders>,
    permits: Arc<Semaphore>,
    task: AbortHandle,
}

/// A permit to wait for changes, until dropped.
pub(crate) type FollowerPermit = OwnedSemaphorePermit;

/// The newest version in the feed of each followed order, by order key. An order is in the map as
/// long as it has a follower.
#[derive(Default)]
struct FollowedOrders(Mutex<HashMap<String, watch::Sender<Version>>>);

impl Feed {
    /// Starts to read at the end of the topic, on `runtime`.
    pub(crate) fn start(log: Arc<dyn EventLog>, followers_max: usize, runtime: &Handle) -> Self {
        let followed = Arc::new(FollowedOrders::default());
        let task = runtime.spawn(follow_topic(log, Arc::clone(&followed))).abort_handle();
        let permits = Arc::new(Semaphore::new(followers_max.min(Semaphore::MAX_PERMITS)));
        Self { followed, permits, task }
    }

    /// A permit to wait; `None` if there are too many followers.
    pub(crate) fn acquire_permit(&self) -> Option<FollowerPermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Follows an order; `None` if there are too many followers.
    pub(crate) fn follow(&self, order: &OrderKey) -> Option<Follower> {
        let permit = self.acquire_permit()?;
        let key = order.to_message_key();
        let mut followed = self.followed.lock();
        let newest =
            followed.entry(key.clone()).or_insert_with(|| watch::Sender::new(Version::default()));
        let newest = newest.subscribe();
        drop(followed);
        Some(Follower { newest, key, followed: Arc::clone(&self.followed), _permit: permit })
    }

    /// How many orders are followed.
    #[cfg(test)]
    pub(crate) fn followed_count(&self) -> usize {
        self.followed.lock().len()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A follower of one order.
pub(crate) struct Follower {
    newest: watch::Receiver<Version>,
    key: String,
    followed: Arc<FollowedOrders>,
    _permit: FollowerPermit,
}

impl Follower {
    /// The newest version in the feed since the order has a follower; the smallest version if there
    /// was no event yet.
    pub(crate) fn newest_version(&self) -> Version {
        *self.newest.borrow()
    }

    /// Resolves when there was an event that this follower has not waited for yet. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        if self.newest.changed().await.is_err() {
            // Unreachable: the sender is dropped together with the last follower.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut followed = self.followed.lock();
        // The receiver of this follower is not dropped yet, so the last follower counts one.
        if followed.get(&self.key).is_some_and(|newest| newest.receiver_count() <= 1) {
            followed.remove(&self.key);
        }
    }
}

impl FollowedOrders {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Version>>> {
        lock(&self.0)
    }

    /// Wakes the followers of an event's order.
    fn notify(&self, event: &Delivered) {
        let followed = self.lock();
        let Some(newest) = followed.get(&event.key) else { return };
        if let Some(version) = version_of(event) {
            newest.send_modify(|newest| *newest = version.max(*newest));
        }
    }

    /// Wakes all followers: the feed may have missed events.
    fn notify_all(&self) {
        self.lock().values().for_each(|newest| newest.send_modify(|_| {}));
    }
}

/// The version that an event announces, from its id `key/epoch/version`: its data need not be
/// parsed.
fn version_of(event: &Delivered) -> Option<Version> {
    let mut parts = event.event.as_ref()?.id.rsplit('/');
    let (version, epoch) = (parts.next()?, parts.next()?);
    Some(Version { epoch: epoch.parse().ok()?, version: version.parse().ok()? })
}

/// Reads the topic for ever. A subscription that fails is opened again at the same positions; the
/// trouble is logged once.
async fn follow_topic(log: Arc<dyn EventLog>, followed: Arc<FollowedOrders>) {
    let mut positions = None;
    let mut failing = false;
    loop {
        let mut on_batch = || {
            if std::mem::take(&mut failing) {
                tracing::info!("the feed of order changes can be read again");
            }
        };
        let Err(error) = read_events(&*log, &followed, &mut positions, &mut on_batch).await;
        if !failing {
            tracing::error!(
                %error,
                "the feed of order changes can't be read: streams and long polls lag until it can; \
                 check the log"
            );
            failing = true;
        }
        if matches!(error, EngineError::Invalid(_)) {
            // The log no longer has these positions. The feed begins at the end again, and the
            // followers read their rows again, because events may be missed.
            positions = None;
            followed.notify_all();
        }
        tokio::time::sleep(REOPEN_PAUSE).await;
    }
}

/// Reads from `positions`, or from the end of the topic if there are none, and moves them along.
/// Returns only with an error.
async fn read_events(
    log: &dyn EventLog,
    followed: &FollowedOrders,
    positions: &mut Option<Vec<Position>>,
    on_batch: &mut (dyn FnMut() + Send),
) -> Result<std::convert::Infallible, EngineError> {
    if positions.is_none() {
        *positions = Some(log.extent(Topic::Orders).await?.iter().map(Extent::end).collect());
    }
    let positions = positions.as_mut().expect("they were set above");
    let mut events = log.subscribe(Topic::Orders, GROUP, Start::After(positions.clone())).await?;
    loop {
        let batch = events.next_batch(BATCH).await?;
        on_batch();
        for event in &batch {
            followed.notify(event);
            let read = event.position;
            match positions.iter_mut().find(|position| position.partition == read.partition) {
                Some(position) => *position = read,
                None => positions.push(read),
            }
        }
    }
}

#[cfg(test)]
mod tests;
