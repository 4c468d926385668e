//! Owns what may be in flight at once in this process: create calls at one partner, so that a slow
//! partner does not hold up the others; requests with one Idempotency-Key; and claims that wait for
//! the log to store that no call was made. Nothing waits here: a request over a limit is refused.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use payfold_schemas::ids::PartnerCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most claims that wait for the log at once; each holds its request in memory.
const UNCALLED_MAX: usize = 4_096;

/// The calls, keys and claims in flight in one process.
pub(crate) struct InFlight {
    per_partner_max: usize,
    uncalled: Arc<Semaphore>,
    partners: Mutex<HashMap<PartnerCode, Arc<Semaphore>>>,
    keys: Arc<Mutex<HashSet<String>>>,
}

/// An Idempotency-Key that is in flight, until dropped.
pub(crate) struct KeyInFlight {
    key: String,
    keys: Arc<Mutex<HashSet<String>>>,
}

impl InFlight {
    /// Nothing is in flight; at most `per_partner_max` calls may be at one partner.
    pub(crate) fn new(per_partner_max: usize) -> Self {
        let per_partner_max = per_partner_max.min(Semaphore::MAX_PERMITS);
        let uncalled = Arc::new(Semaphore::new(UNCALLED_MAX));
        Self { per_partner_max, uncalled, partners: Mutex::default(), keys: Arc::default() }
    }

    /// A permit for one call at a partner, until dropped; `None` if the partner has too many calls.
    pub(crate) fn acquire_call(&self, partner: &PartnerCode) -> Option<OwnedSemaphorePermit> {
        let mut partners = lock(&self.partners);
        let calls = partners
            .entry(partner.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(self.per_partner_max)));
        Arc::clone(calls).try_acquire_owned().ok()
    }

    /// A permit for one claim that waits for the log and is not called, until dropped; `None` if
    /// there are too many.
    pub(crate) fn acquire_uncalled(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.uncalled).try_acquire_owned().ok()
    }

    /// Marks an Idempotency-Key as in flight; `None` if it is in flight already.
    pub(crate) fn begin_key(&self, key: &str) -> Option<KeyInFlight> {
        let is_new = lock(&self.keys).insert(key.to_owned());
        is_new.then(|| KeyInFlight { key: key.to_owned(), keys: Arc::clone(&self.keys) })
    }
}

impl Drop for KeyInFlight {
    fn drop(&mut self) {
        lock(&self.keys).remove(&self.key);
    }
}

/// Locks a mutex, also after its last holder has panicked: the data behind this crate's mutexes is
/// consistent between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_partner_does_not_block_the_others() {
        let in_flight = InFlight::new(2);
        let [slow, quick] = ["slow", "quick"].map(|code| PartnerCode::parse(code).unwrap());
        let held: Vec<_> = (0..3).filter_map(|_| in_flight.acquire_call(&slow)).collect();
        assert_eq!(held.len(), 2);
        assert!(in_flight.acquire_call(&quick).is_some());
        drop(held);
        assert!(in_flight.acquire_call(&slow).is_some());
    }

    #[test]
    fn a_key_is_in_flight_once() {
        let in_flight = InFlight::new(1);
        let first = in_flight.begin_key("shop/k");
        assert!(first.is_some() && in_flight.begin_key("shop/k").is_none());
        assert!(in_flight.begin_key("shop/K").is_some());
        drop(first);
        assert!(in_flight.begin_key("shop/k").is_some());
    }
}
