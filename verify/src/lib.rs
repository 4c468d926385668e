//! Owns verifying the stored data. Nothing is written; the differences are returned, and a command
//! prints them.
//!
//! `orders` folds the log again and compares orders and events with the result; `chain` compares
//! the log with the heads that were stored when it was folded; `signatures` verifies every notice
//! again; `state` computes one digest of all orders; `damage` reads the embedded log in the
//! background.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod chain;
pub mod damage;
mod events;
mod every_order;
pub mod orders;
pub mod signatures;
pub mod state;
mod subject;
pub mod through;
mod verification;

pub use self::events::FIRST_EPOCH;
pub use self::subject::Subject;
pub use self::verification::{StoredDifference, Verification};
