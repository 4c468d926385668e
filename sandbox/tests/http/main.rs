//! The simulated partner over HTTP: it runs on port 0, create calls are made by the code that calls
//! partners in service, and a real server receives its notices.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as the tests may")]

mod deliveries;
mod endpoints;
mod keywords;
mod pages;
mod retries;
mod sink;
mod world;
