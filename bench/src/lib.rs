//! The tools of `payfold bench`: generated data, load, an order store in memory, and the resource
//! use of processes. This crate opens no engines and starts no programs; the commands do that with
//! the user's settings.
//!
//! `world` generates facts to fold, and `fill` appends them to a log. `day` generates the two sides
//! of a reconciliation. `notices` builds requests, and `load` sends them. `in_memory` is the order
//! store without storage. `usage` reads CPU time and memory. `figures` has the arithmetic of
//! reports.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod day;
pub mod figures;
pub mod fill;
pub mod in_memory;
pub mod load;
pub mod notices;
pub mod usage;
pub mod world;
