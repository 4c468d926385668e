//! Owns the reading of clock and randomness: the one place where either is read.

use std::sync::atomic::{AtomicI64, Ordering};

use payfold_schemas::ids::RequestId;
use payfold_schemas::time::Time;

/// Tells the time. Pure code never holds one; it takes `now`.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Time;

    /// A new request id of the present instant.
    fn request_id(&self) -> RequestId {
        request_id(self.now())
    }
}

/// A new request id, a UUIDv7 whose time part is `now`.
pub fn request_id(now: Time) -> RequestId {
    let seconds = u64::try_from(now.unix_ms().div_euclid(1_000)).unwrap_or(0);
    let nanos = u32::try_from(now.unix_nanos().rem_euclid(1_000_000_000)).unwrap_or(0);
    let timestamp = uuid::Timestamp::from_unix(uuid::NoContext, seconds, nanos);
    RequestId::new(uuid::Uuid::new_v7(timestamp))
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn now(&self) -> Time {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let nanos = since.map_or(0, |duration| duration.as_nanos());
        Time::from_unix_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }
}

/// A clock that stands where it is put, for tests and for judging stored notices.
#[derive(Debug)]
pub struct FixedClock(AtomicI64);

impl FixedClock {
    /// A clock that shows `now`.
    pub fn at(now: Time) -> Self {
        Self(AtomicI64::new(now.unix_nanos()))
    }

    /// Puts the clock to `now`.
    pub fn set(&self, now: Time) {
        self.0.store(now.unix_nanos(), Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Time {
        Time::from_unix_nanos(self.0.load(Ordering::SeqCst))
    }
}
