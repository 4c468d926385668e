//! Owns what the tests of all crates share: what the environment tells them, the real servers they run against, and what
//! a machine lacks for some of them.

pub mod knobs;
pub mod needs;
pub mod stack;
