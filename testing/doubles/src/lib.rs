//! Owns test doubles of engines: a double overrides some calls and forwards all others to a real
//! engine. It is a separate crate above the engines, because the engines' own tests use
//! `payfold-testing`.
//!
//! A double is a type that implements [`StoreDouble`] or [`LogDouble`], or both. [`Double`] makes
//! an engine of it. Each call passes the double's hook first. The hook can fail the call, and can
//! delay a call of a store.

mod log;
mod store;

use std::ops::Deref;

pub use self::log::{LogCall, LogDouble};
pub use self::store::{StoreCall, StoreDouble};

/// A double as an engine: an `OrderStore` if it is a [`StoreDouble`], an `EventLog` if it is a
/// [`LogDouble`].
#[derive(Debug)]
pub struct Double<T>(pub T);

impl<T> Deref for Double<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
