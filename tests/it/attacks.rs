//! Owns the attacks: each is tried against the whole program as somebody would, and asserts what it
//! may not achieve.

mod foreign_messages;
pub mod forged_records;
mod listeners;
mod one_person;
mod principals;
