//! The reconciler role. It finds facts that no partner and no shop sends: deadlines that passed
//! (`DeadlinePassed`), provider refs that two orders share (`RefShared`), and what a partner
//! answers to a query about a payment (`QueryAnswered`). It reads intake and the order store and
//! appends facts to intake. It never edits an order and never folds.
//!
//! `run` runs the tasks side by side: `deadlines` scans the deadline view, `intake_reader` reads
//! intake, and `queries` queries partners. Their decisions are pure functions: `due` (is
//! `DeadlinePassed` due for this order?), `shared_refs` (which `RefShared` are missing?), `stuck`
//! (would a partner's answer help this order?), `schedule` (when is it asked about?) and
//! `query_queue` (may this partner be queried now?). `windows` and `unconfirmed` find the orders to
//! ask about. `partners` knows which partners can be queried.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod context;
mod deadlines;
mod decode;
mod due;
mod expiry;
mod intake_reader;
pub mod metrics;
mod partners;
mod queries;
mod query_queue;
mod run;
pub mod schedule;
mod settings;
mod shared_refs;
pub mod stuck;
mod unconfirmed;
mod windows;

pub use metrics::Metrics;
pub use partners::{Partners, UnconfirmedNotices};
pub use payfold_kit::RunError;
pub use run::Reconciler;
pub use settings::Settings;
