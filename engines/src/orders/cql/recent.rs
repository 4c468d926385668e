//! Owns a bounded memory of recent writes that need not be repeated, such as an entry of a
//! listing. Its caller adds a write once it is acknowledged. Invariant: it never exceeds its limit.
//! Forgetting a write costs one more write that changes nothing.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A bounded set, cleared when it is full.
pub(super) struct RecentWrites<T> {
    max: usize,
    set: Mutex<HashSet<T>>,
}

impl<T: Copy + Eq + Hash> RecentWrites<T> {
    pub(super) fn new(max: usize) -> Self {
        Self { max, set: Mutex::default() }
    }

    /// The members of `all` that are not remembered, without duplicates.
    pub(super) fn unknown(&self, all: impl Iterator<Item = T>) -> HashSet<T> {
        let set = self.lock();
        all.filter(|one| !set.contains(one)).collect()
    }

    /// Remembers acknowledged writes.
    pub(super) fn add(&self, written: HashSet<T>) {
        let mut set = self.lock();
        if set.len() + written.len() > self.max {
            set.clear();
        }
        set.extend(written.into_iter().take(self.max));
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<T>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_set_forgets_rather_than_grows() {
        let recent = RecentWrites::new(3);
        recent.add(HashSet::from([1, 2]));
        assert_eq!(recent.unknown([1, 2, 3, 3].into_iter()), HashSet::from([3]));
        recent.add(HashSet::from([3]));
        assert!(recent.unknown(1..=3).is_empty());
        recent.add(HashSet::from([4]));
        assert_eq!(recent.unknown(1..=4), HashSet::from([1, 2, 3]));
        recent.add((10..20).collect());
        assert_eq!(recent.unknown(10..20).len(), 7);
    }
}
