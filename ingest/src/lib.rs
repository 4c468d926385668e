//! The partner-facing role: receives notices over HTTP and answers 200 only when a notice's bytes
//! are durable. The crate uses the log and the partners' profiles and keys. It has no access to
//! order stores, folds or order states.
//!
//! An IPN passes these files in order: `http` (route) → `limits` (address rate) → `endpoint`
//! (head) → `body` (bytes) → `partners::authenticate` (signature and fields) → `authenticated`
//! (allowed addresses) → `admit` (faults and time) → `replays` (known as durable) →
//! `limits` (account rate) → `intake` (durable) → `answer` (200).
//! `browser_return` receives returning payers and never changes an order. `posting_page` serves
//! the page that posts a payer's form to the partner.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod admit;
mod answer;
pub mod audit;
mod authenticated;
pub mod body;
pub mod browser_return;
pub mod clock_agreement;
mod endpoint;
pub mod health;
pub mod http;
mod incoming;
pub mod ingest;
pub mod intake;
pub mod limits;
pub mod metrics;
mod not_found;
pub mod posting_page;
pub mod quarantine;
mod quarantined_notice;
pub mod refusal;
pub mod release;
pub mod replays;
mod reverify;
pub mod sampler;
