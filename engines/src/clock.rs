//! Owns the clock and the source of randomness: no other code reads either.

use std::sync::atomic::{AtomicI64, Ordering};

use payfold_schemas::ids::RequestId;
use payfold_schemas::time::Time;

/// Reads the time. Pure code takes `now` as a parameter instead of a clock.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Time;

    /// Makes a request id of the present instant.
    fn request_id(&self) -> RequestId {
        request_id(self.now())
    }
}

/// Makes a request id, a UUIDv7 with `now` as its time part.
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

/// A clock that shows a set time, for tests and for verifying stored notices again.
#[derive(Debug)]
pub struct FixedClock(AtomicI64);

impl FixedClock {
    /// A clock that shows `now`.
    pub fn at(now: Time) -> Self {
        Self(AtomicI64::new(now.unix_nanos()))
    }

    /// Sets the clock to `now`.
    pub fn set(&self, now: Time) {
        self.0.store(now.unix_nanos(), Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Time {
        Time::from_unix_nanos(self.0.load(Ordering::SeqCst))
    }
}
