//! Arguments, settings, wiring, telemetry and one file per command. No business rule lives here:
//! what Payfold decides stands in the roles, and this crate gives them engines and addresses.

pub mod accounts;
pub mod admin;
pub mod args;
pub mod asking;
mod assembly;
pub mod command;
pub mod data_dir;
pub mod demo;
pub mod error;
pub mod frozen;
pub mod gauges;
pub mod key_metrics;
pub mod keys;
pub mod listener;
pub mod money;
pub mod output;
pub mod patience;
pub mod privacy;
pub mod readiness;
pub mod report;
pub mod roles;
pub mod running;
pub mod search;
pub mod server;
pub mod settings;
pub mod telemetry;
pub mod vault;
mod verification;
mod walk;
pub mod wiring;
