//! The conformance suite: every promise in the docs of the storage seams is one function here, over `dyn`;
//! each engine lists the functions and brings a bed to run them in (`sqlite.rs`, `kafka.rs`, `cql.rs`).

mod bed;
mod cql;
mod cql_datacenters;
mod cql_faults;
mod cql_figures;
mod cql_writers;
mod generations;
mod kafka;
mod log;
mod orders;
mod pairing;
mod scans;
mod shares;
mod sqlite;
mod sqlite_faults;

use payfold_testing::{knobs, stack};
