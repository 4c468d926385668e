//! Owns the main story on the real binary: what operators, partners and downstream teams see of it,
//! from the first notice to the last signal.

pub mod commands;
pub mod drain;
pub mod listeners;
pub mod rotation;
pub mod story;
