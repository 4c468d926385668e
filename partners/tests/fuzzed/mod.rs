//! Owns what must hold for any bytes: one function for each fuzz target. The targets in `fuzz/` call them with bytes
//! that a fuzzer makes up, the unit tests with every file of `fuzz/corpus`. They use public doors only and panic where
//! an invariant does not hold.

mod contract;
mod known;
mod notice;
mod profile;
mod records;
mod wire;

pub use contract::contract;
pub use notice::{notice, verdict};
pub use profile::profile;
pub use records::{fate, records};

use payfold_schemas::time::Time;

/// The instant every check judges at.
const NOW: Time = Time::from_unix_ms(1_769_853_600_000);

/// A key of the accounts of these checks.
const SECRET: &str = "a published test key, worth no more than the next one";

/// A key that signs none of their notices.
const OTHER_SECRET: &str = "another published test key, which has signed nothing here";
