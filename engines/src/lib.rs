//! The storage seams and their engines. A trait exists only where two real implementations do; its docs
//! are the specification every engine is held to by one conformance suite over `dyn`.
#![warn(missing_docs)]

mod blocking;
pub mod clock;
pub mod copy;
pub mod generations;
pub mod health;
pub mod log;
pub mod orders;
pub mod pairing;
mod sqlite;

use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::sqlite::{file_exists, follow_links};

/// What a seam's method returns: boxed, so that the seams stay object-safe.
pub type SeamFuture<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// Why an engine could not do what was asked, split by what the caller does about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Retry later: full queue, full disk, lock, broker away. What was asked may or may not have happened.
    #[error("storage unavailable: {0}")]
    Unavailable(String),
    /// Never retry: what was asked can't be done whatever the storage does.
    #[error("invalid use of storage: {0}")]
    Invalid(String),
    /// Stop loudly: what is stored contradicts itself.
    #[error("storage corrupt: {0}")]
    Corrupt(String),
}

/// Takes a mutex whatever happened to its last holder: what our mutexes guard is whole between statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
