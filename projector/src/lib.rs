//! The projector role: reads facts from the log, folds them into orders, and publishes the changes.
//!
//! Pure: `fold` (facts → state), `event`, `batch`, `refold`. With I/O: `run`, a pipeline of read →
//! fold → publish → commit; `journal`, the decisions about builds of the order store; `rebuild`,
//! which carries them out; `live`, the build that readers see; `copier`, the compacted copy of
//! `orders`.
#![cfg_attr(not(test), warn(unreachable_pub))]
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::wildcard_enum_match_arm)
)]

pub mod batch;
#[cfg(feature = "cluster")]
pub mod copier;
mod event;
pub mod fold;
pub mod journal;
pub mod live;
mod lock;
mod metrics;
pub mod rebuild;
pub mod refold;
mod run;
mod status;

pub use event::occurred_at;
pub use metrics::ProjectorMetrics;
pub use payfold_kit::RunError;
pub use run::{Projector, ProjectorSettings, Speed};
pub use status::{Lag, ProjectorStatus};
