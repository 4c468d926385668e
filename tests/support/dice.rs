//! Owns the dice every random choice of the load and of the kills is made with.

use payfold_engines::clock::{Clock, SystemClock};

/// Random numbers from a seed (splitmix64): the same seed, the same choices.
pub struct Dice(u64);

impl Dice {
    /// Dice of this seed; different `salt`s give different dice of one seed.
    pub fn new(seed: u64, salt: u64) -> Self {
        Self(seed ^ salt.wrapping_mul(0xA076_1D64_78BD_642F))
    }

    /// A seed from clock and process id.
    pub fn any_seed() -> u64 {
        SystemClock.now().unix_nanos().unsigned_abs() ^ u64::from(std::process::id()) << 40
    }

    /// Below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let count = u64::try_from(from.len()).expect("a count fits 64 bits");
        &from[usize::try_from(self.roll(count)).expect("it is below a usize")]
    }
}
