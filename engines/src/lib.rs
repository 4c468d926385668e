//! Owns the storage traits (the seams) and their engines. A trait exists only where it has two real
//! implementations. Its docs are the specification; one conformance suite checks every engine
//! against it.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod blocking;
pub mod clock;
pub mod copy;
pub mod health;
pub mod log;
pub mod orders;
pub mod pairing;
mod sqlite;

use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::sqlite::{file_exists, follow_links};

/// The future a storage trait's method returns; boxed to keep the traits object-safe.
pub type SeamFuture<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// A call that has failed already.
pub(crate) fn failed<'a, T: Send + 'a>(error: EngineError) -> SeamFuture<'a, T, EngineError> {
    Box::pin(std::future::ready(Err(error)))
}

/// Why an engine failed, by what the caller should do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Retry later: the queue or the disk is full, a file is locked, a broker is away. The request
    /// may or may not have taken effect.
    #[error("storage unavailable: {0}")]
    Unavailable(String),
    /// Don't retry: the request can't be fulfilled in any state of the storage.
    #[error("invalid use of storage: {0}")]
    Invalid(String),
    /// Stop and report it: the stored data contradicts itself.
    #[error("storage corrupt: {0}")]
    Corrupt(String),
}

/// Locks a mutex even if a thread panicked while holding it: the data behind the crate's mutexes is
/// consistent after every statement.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
