//! The partner-facing role: takes a notice over HTTP and answers 200 only when its bytes are durable.
//! It knows the log and the partners' profiles and keys, and nothing of stores, folds or states.
//!
//! The way of one IPN reads in this order: `http` (route) → `transport` (headers) → `body` (bytes) →
//! `partners::verify` (who signed it) → `admit` (is it what the contract says) → `intake` (durable) → 200.
//! Payers' browsers come back through `browser_return`, which settles nothing; a partner that takes a form gets it by
//! `payment_form`.
#![warn(missing_docs)]

pub mod admit;
mod again;
pub mod audit;
pub mod body;
pub mod browser_return;
pub mod clock_agreement;
mod elsewhere;
mod genuine;
pub mod health;
pub mod http;
pub mod intake;
pub mod limits;
pub mod metrics;
mod own_scheme;
pub mod payment_form;
pub mod quarantine;
pub mod refusal;
pub mod release;
pub mod replays;
pub mod sampler;
pub mod transport;
