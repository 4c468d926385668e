//! Owns what the test binaries share: the oracle, the generated worlds, a booted system on either
//! pair of engines, notices signed by others, random choices that can be repeated.

pub use payfold_testing::{knobs, needs, stack};

pub mod dice;
pub mod notice;
pub mod oracle;
pub mod pair;
pub mod system;
pub mod waits;
pub mod wire;
pub mod worlds;
