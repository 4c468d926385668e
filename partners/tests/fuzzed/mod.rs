//! Owns what must hold for any bytes: one function for each fuzz target. The targets in `fuzz/`
//! call them with bytes that a fuzzer makes up, `tests/it/corpus.rs` with every file of
//! `fuzz/corpus`. They use public items only, and panic if an invariant does not hold.

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

/// How much is done with one input. An explanation tries hundreds of possible mistakes, so a fuzzer
/// asks for it for a few inputs only. They are chosen by their bytes, so that a failure repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The input is judged.
    Judged,
    /// The input is judged and explained.
    Explained,
}

impl Depth {
    /// The depth for these bytes: one input of 64 is explained.
    pub fn of(bytes: &[u8]) -> Self {
        let mixed = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        if (mixed ^ (mixed >> 32)) % 64 == 0 { Self::Explained } else { Self::Judged }
    }
}

/// The time of every check.
const NOW: Time = Time::from_unix_ms(1_769_853_600_000);

/// A key of the accounts of these checks.
const SECRET: &str = "a published test key, worth no more than the next one";

/// A key that signs none of their notices.
const OTHER_SECRET: &str = "another published test key, which has signed nothing here";
