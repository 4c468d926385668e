//! The root package's tests in one binary: the fold's laws over generated worlds, tests that boot
//! the program, and the program under faults. In one binary, tests that wait run beside tests that
//! compute.

#[path = "../support/mod.rs"]
mod support;

mod admin_api;
mod alerts;
mod attacks;
mod backups;
mod browser;
mod certify;
mod chain;
mod console;
mod corpus;
mod faults;
mod first_light;
mod floods;
mod grown_intake;
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
mod partner_records;
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
mod stored;
mod tour;
mod verified;
mod yesterday;
