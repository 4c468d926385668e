//! The root package's tests in one binary: the fold's laws over generated worlds, and what boots the program.

#[path = "../support/mod.rs"]
mod support;

mod alerts;
mod backups;
mod books;
mod browser;
mod certify;
mod chain;
mod first_light;
mod floods;
mod keys;
mod latest;
mod laws;
mod lost_files;
mod on_kafka_and_cql;
mod on_sqlite;
mod oracle_laws;
mod own_clock;
mod own_creates;
mod own_schemes;
mod parked;
mod payments;
mod quarantine;
mod queries;
mod readers;
mod rebuild;
mod reconcile;
mod refusals;
mod replays;
mod retention;
mod return_keys;
mod same_input;
mod slow_heads;
mod start_up;
mod state_table;
mod verified;
mod yesterday;
