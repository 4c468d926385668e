//! Owns what the test binaries share: the oracle, the generated worlds, a booted system, notices signed by others.

pub mod knobs;
pub mod notice;
pub mod oracle;
pub mod system;
pub mod wire;
pub mod worlds;
