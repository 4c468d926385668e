//! Owns the feed: one task per process that reads on along the `orders` topic and wakes whoever follows an order.
//! It remembers followed orders only, by the version last told, and acks nothing: each process reads it all.
//! An event may be told before its row is committed, and before somebody began to follow: a follower reads the
//! row, and reads it again after a while (see `rows`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, EventLog, Extent, Start, Topic};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::record::Position;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;

use crate::version::Version;

/// The reader's name in the log; it acks nothing.
const GROUP: &str = "checkout-feed";
/// Events taken at once.
const BATCH: usize = 256;
/// How long a failed subscription is left alone.
const REOPEN: Duration = Duration::from_secs(1);

/// The feed, and the seats of those who wait.
pub struct Feed {
    followed: Arc<Followed>,
    seats: Arc<Semaphore>,
    task: AbortHandle,
}

/// A place among those who may wait at once; given back when dropped.
pub type Seat = OwnedSemaphorePermit;

/// Whom to wake, by order key. A sender is there as long as somebody follows.
#[derive(Default)]
struct Followed(Mutex<HashMap<String, watch::Sender<Version>>>);

impl Feed {
    /// Starts to read at the topic's head, on `runtime`.
    pub fn start(log: Arc<dyn EventLog>, followers_max: usize, runtime: &Handle) -> Self {
        let followed = Arc::new(Followed::default());
        let task = runtime.spawn(tail(log, Arc::clone(&followed))).abort_handle();
        let seats = Arc::new(Semaphore::new(followers_max.min(Semaphore::MAX_PERMITS)));
        Self { followed, seats, task }
    }

    /// A seat; none while all are taken.
    pub fn seat(&self) -> Option<Seat> {
        Arc::clone(&self.seats).try_acquire_owned().ok()
    }

    /// Follows an order; none while all seats are taken.
    pub fn follow(&self, order: &OrderKey) -> Option<Follower> {
        let seat = self.seat()?;
        let key = order.to_message_key();
        let mut followed = self.followed.lock();
        let told =
            followed.entry(key.clone()).or_insert_with(|| watch::Sender::new(Version::default()));
        let told = told.subscribe();
        drop(followed);
        Some(Follower { told, key, followed: Arc::clone(&self.followed), _seat: seat })
    }

    /// How many orders are followed.
    #[cfg(test)]
    pub fn followed(&self) -> usize {
        self.followed.lock().len()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Who follows one order.
pub struct Follower {
    told: watch::Receiver<Version>,
    key: String,
    followed: Arc<Followed>,
    _seat: Seat,
}

impl Follower {
    /// The last version told since somebody follows; the smallest one before any was.
    pub fn told(&self) -> Version {
        *self.told.borrow()
    }

    /// Resolves when something was told that this follower has not waited for yet. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.told.changed().await.is_err() {
            // The sender is dropped with its last follower only.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut followed = self.followed.lock();
        // This follower's own receiver is still there.
        if followed.get(&self.key).is_some_and(|told| told.receiver_count() <= 1) {
            followed.remove(&self.key);
        }
    }
}

impl Followed {
    /// What the mutex guards is whole between statements, whatever happened to its last holder.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Version>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: &Delivered) {
        let followed = self.lock();
        let Some(told) = followed.get(&event.key) else { return };
        if let Some(version) = version_of(event) {
            told.send_modify(|last| *last = version.max(*last));
        }
    }

    /// Wakes all: something may have been missed.
    fn wake_all(&self) {
        self.lock().values().for_each(|told| told.send_modify(|_| {}));
    }
}

/// The version an event tells, from its id `key/generation/version`: its data need not be parsed.
fn version_of(event: &Delivered) -> Option<Version> {
    let mut parts = event.event.as_ref()?.id.rsplit('/');
    let (version, generation) = (parts.next()?, parts.next()?);
    Some(Version { generation: generation.parse().ok()?, version: version.parse().ok()? })
}

/// Reads on for ever; a subscription that fails is told once and opened again where it stood.
async fn tail(log: Arc<dyn EventLog>, followed: Arc<Followed>) {
    let mut places = None;
    let mut failing = false;
    loop {
        let mut read_one = || {
            if std::mem::take(&mut failing) {
                tracing::info!("the feed of order changes can be read again");
            }
        };
        let Err(error) = read(&*log, &followed, &mut places, &mut read_one).await;
        if !failing {
            tracing::error!(%error, "the feed of order changes can't be read: streams lag until it can");
            failing = true;
        }
        if matches!(error, EngineError::Invalid(_)) {
            // The place is none of this topic any more; followers read their rows again.
            places = None;
            followed.wake_all();
        }
        tokio::time::sleep(REOPEN).await;
    }
}

/// Reads from `places` (the head without them) and moves them along.
async fn read(
    log: &dyn EventLog,
    followed: &Followed,
    places: &mut Option<Vec<Position>>,
    read_one: &mut (dyn FnMut() + Send),
) -> Result<std::convert::Infallible, EngineError> {
    if places.is_none() {
        *places = Some(log.extent(Topic::Orders).await?.iter().map(Extent::end).collect());
    }
    let places = places.as_mut().expect("they were looked up above");
    let mut events = log.subscribe(Topic::Orders, GROUP, Start::After(places.clone())).await?;
    loop {
        let batch = events.next_batch(BATCH).await?;
        read_one();
        for event in &batch {
            followed.tell(event);
            let read = event.position;
            match places.iter_mut().find(|place| place.partition == read.partition) {
                Some(place) => *place = read,
                None => places.push(read),
            }
        }
    }
}

#[cfg(test)]
mod tests;
