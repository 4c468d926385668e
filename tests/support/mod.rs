//! Owns what the tests share: the oracle, the generated worlds, a booted system on either pair of
//! engines, partners and notices signed by others, random choices that can be repeated.

pub use payfold_testing::{knobs, needs, stack};

pub mod demo;
pub mod dice;
pub mod fetched;
pub mod home;
pub mod macs;
pub mod notice;
pub mod oracle;
pub mod pair;
pub mod sandbox;
pub mod stub;
pub mod system;
pub mod tls;
pub mod waits;
pub mod wire;
pub mod worlds;
