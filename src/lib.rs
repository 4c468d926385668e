//! The program `payfold`: arguments, settings, wiring, telemetry and one file for each command. It
//! holds no business rule: the crates of the roles decide, and this crate gives them engines and
//! addresses.
#![cfg_attr(not(test), warn(unreachable_pub))]

mod accounts;
mod admin;
mod admin_client;
mod args;
mod assembly;
mod body;
mod command;
mod data_dir;
mod demo;
mod error;
mod frozen;
mod gauges;
mod key_metrics;
mod keys;
mod listener;
mod listing;
mod opened;
mod output;
mod privacy;
mod queries;
mod readiness;
mod reads;
mod roles;
mod run_file;
mod server;
mod settings;
mod telemetry;
mod timed_connection;
mod traffic;
mod two_people;
mod urls;
mod vault;
mod wiring;

// The entry point of the program, and what tests need to start a system in their own process.
pub use self::command::main;
pub use self::data_dir::DataDir;
pub use self::opened::OpenedSystem;
pub use self::roles::Roles;
pub use self::run_file::RunFile;
pub use self::server::RunningSystem;
pub use self::settings::{Loaded, Settings};
pub use self::telemetry::registry;
pub use self::wiring::{Engines, Need, open};
