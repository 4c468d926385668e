//! What people read: rows that the command line, the admin listener and the console show. Each row
//! is read from the engines in one way, so that all of them show the same.

pub mod actions;
pub mod decisions;
pub mod error;
pub mod facts;
pub mod findings;
pub mod listing;
pub mod messages;
mod order_name;
pub mod orders;
pub mod periods;
pub mod quarantine;
pub mod queries;
pub mod reader;
pub mod search;
pub mod stuck;
#[cfg(test)]
mod testbed;
pub mod tokens;
pub mod trace;
