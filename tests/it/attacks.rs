//! Owns the attacks: each is tried against the whole program as somebody would, and asserts what it
//! may not achieve.

pub mod forged_records;
mod principals;
