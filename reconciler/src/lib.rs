//! The role that finds what nobody tells: deadlines that passed (X), refs that two orders share (K), and what a
//! partner answers when it is asked for a payment (P). It reads intake and the order store and appends facts to
//! intake; it never edits an order and never folds.
//!
//! `run` holds its ways together: `deadlines` walks the deadline view, `follow` reads intake, `queries` asks partners.
//! What they decide with is pure: `due` (is X due for this order?), `refs` (which K are missing?), `stuck` (would a
//! partner's word help?), `schedule` (when?) and `line` (how hard may this partner be asked?). `windows` and
//! `unconfirmed` find who is to be asked about; `partners` is who can be asked.
#![warn(missing_docs)]

pub mod books;
mod deadlines;
mod due;
mod expiry;
mod follow;
mod line;
pub mod metrics;
mod outage;
mod partners;
mod queries;
mod reading;
mod refs;
mod run;
pub mod schedule;
pub mod stuck;
mod unconfirmed;
mod watermark;
mod windows;

pub use metrics::Metrics;
pub use partners::{Confirms, Partners};
pub use run::{Reconciler, RunError, Settings};
