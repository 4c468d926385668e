//! Owns how a mutex of this crate is taken.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a mutex whatever happened to its last holder: what our mutexes guard is whole between
/// statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
