//! Owns what may go on at once: create calls at one partner, so that a slow one never holds the others, requests
//! under one Idempotency-Key, and claims that wait for the log to tell that nothing was sent. Nothing waits here: what is too much is told so.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use payfold_schemas::ids::PartnerCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Claims that wait for the log at once; each holds its request in memory.
const UNCALLED_MAX: usize = 4_096;

/// The calls and keys of one process.
pub struct Calls {
    per_partner_max: usize,
    uncalled: Arc<Semaphore>,
    partners: Mutex<HashMap<PartnerCode, Arc<Semaphore>>>,
    keys: Arc<Mutex<HashSet<String>>>,
}

/// A key that is being worked on, until dropped.
pub struct KeyInFlight {
    key: String,
    keys: Arc<Mutex<HashSet<String>>>,
}

impl Calls {
    /// Nothing goes on yet.
    pub fn new(per_partner_max: usize) -> Self {
        let per_partner_max = per_partner_max.min(Semaphore::MAX_PERMITS);
        let uncalled = Arc::new(Semaphore::new(UNCALLED_MAX));
        Self { per_partner_max, uncalled, partners: Mutex::default(), keys: Arc::default() }
    }

    /// A permit for one call at a partner, until dropped; none while there are too many.
    pub fn enter(&self, partner: &PartnerCode) -> Option<OwnedSemaphorePermit> {
        let mut partners = lock(&self.partners);
        let calls = partners
            .entry(partner.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(self.per_partner_max)));
        Arc::clone(calls).try_acquire_owned().ok()
    }

    /// A place for a claim that is not called for, until dropped; none while there are too many.
    pub fn uncalled(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.uncalled).try_acquire_owned().ok()
    }

    /// Marks a key as being worked on; none while it is.
    pub fn begin(&self, key: &str) -> Option<KeyInFlight> {
        let is_new = lock(&self.keys).insert(key.to_owned());
        is_new.then(|| KeyInFlight { key: key.to_owned(), keys: Arc::clone(&self.keys) })
    }
}

impl Drop for KeyInFlight {
    fn drop(&mut self) {
        lock(&self.keys).remove(&self.key);
    }
}

/// What our mutexes guard is whole between statements, whatever happened to the last holder.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_partner_leaves_the_others_alone() {
        let calls = Calls::new(2);
        let [slow, quick] = ["slow", "quick"].map(|code| PartnerCode::parse(code).unwrap());
        let held: Vec<_> = (0..3).filter_map(|_| calls.enter(&slow)).collect();
        assert_eq!(held.len(), 2);
        assert!(calls.enter(&quick).is_some());
        drop(held);
        assert!(calls.enter(&slow).is_some());
    }

    #[test]
    fn a_key_is_worked_on_once() {
        let calls = Calls::new(1);
        let first = calls.begin("shop/k");
        assert!(first.is_some() && calls.begin("shop/k").is_none());
        assert!(calls.begin("shop/K").is_some());
        drop(first);
        assert!(calls.begin("shop/k").is_some());
    }
}
