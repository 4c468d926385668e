//! The role that finds what nobody tells: deadlines that passed (X) and refs that two orders share (K). It reads
//! intake and the order store and appends facts to intake; it never edits an order and never folds.
//!
//! `run` holds both ways together: `deadlines` walks the deadline view, `follow` reads intake. What they decide
//! with is pure: `due` (is X due for this order?) and `refs` (which K are missing?).
#![warn(missing_docs)]

mod deadlines;
mod due;
mod expiry;
mod follow;
pub mod metrics;
mod outage;
mod refs;
mod run;
mod watermark;

pub use metrics::Metrics;
pub use run::{Reconciler, RunError, Settings};
