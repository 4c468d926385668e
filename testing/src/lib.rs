//! Owns what the tests of all crates share: test settings from the environment, the real servers
//! that tests run against, waits, and the list of tests that a machine can't run.

pub mod knobs;
pub mod needs;
pub mod stack;
pub mod waits;
