//! The folding role: reads facts from the log, folds them into orders, tells other teams what changed.
//! Pure: `fold` (facts → state), `event`, `batch`. With I/O: `run` and its pipeline.
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::wildcard_enum_match_arm)
)]

pub mod fold;
