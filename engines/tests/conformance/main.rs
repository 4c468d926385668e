//! The conformance suite. Every guarantee in the docs of the storage traits is tested by one
//! function here, over `dyn`. Each engine lists these functions and provides a bed to run them in
//! (`sqlite.rs`, `kafka.rs`, `cql.rs`).

mod assigned_reader;
mod authenticated;
mod bed;
mod builds;
mod cql;
mod cql_datacenters;
mod cql_faults;
mod cql_figures;
mod cql_writers;
mod kafka;
mod log;
mod orders;
mod pairing;
mod scans;
mod sqlite;
mod sqlite_faults;

use payfold_testing::{knobs, stack};
