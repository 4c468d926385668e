//! The folding role: reads facts from the log, folds them into orders, tells other teams what changed.
//! Pure: `fold` (facts → state), `event`, `batch`. With I/O: `run`, a pipeline of read → fold → publish → commit.
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::wildcard_enum_match_arm)
)]

pub mod batch;
mod event;
pub mod fold;
mod metrics;
pub mod rebuild;
pub mod refold;
mod run;
mod status;

pub use event::{occurred_at, told};
pub use metrics::Metrics;
pub use run::{Projector, RunError, Settings, Speed};
pub use status::{Lag, Status};
