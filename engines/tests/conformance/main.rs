//! The conformance suite: every promise in the docs of the storage seams is one function here, over `dyn`;
//! each engine lists the functions and brings a bed to run them in (`sqlite.rs`).

mod bed;
mod log;
mod orders;
mod pairing;
mod scans;
mod sqlite;
mod sqlite_faults;
