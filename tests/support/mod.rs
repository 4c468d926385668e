//! Owns what the test binaries share: the oracle, the generated worlds, the number of worlds to try.

pub mod oracle;
pub mod worlds;
