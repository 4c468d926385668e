//! The partner over HTTP: booted whole on port 0, its create call made by the code that calls partners, its notices
//! taken by a real server.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as the tests may")]

mod deliveries;
mod endpoints;
mod pages;
mod retries;
mod sink;
mod words;
mod world;
