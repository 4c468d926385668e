//! The checkout role, which shops call: it creates payments, reads them and follows them live. It
//! appends facts and reads rows and topics. It never folds.
//!
//! Read the way of one create request in this order: `http` (the route) → `shop_request` (the shop)
//! → `payment_request` (the fields) → `create` (known key, claim, `CreateRequested`, the call,
//! `SessionOpened` or `CreateFailed`) → `answer`. `create` uses `attempt` (what is claimed and
//! sent), `fact_log` (durable appends), `outcome_writer` (appends that go on in the background),
//! `call_log` (log lines), `in_flight` (limits) and `replay` (a known key). The readers are `read`,
//! `stream` and `topics`; they wait for changes with `rows` and `feed`.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod accounts;
mod answer;
mod attempt;
mod body;
mod call_log;
mod checkout;
mod create;
mod docs;
mod fact_log;
mod feed;
mod fields;
pub mod http;
mod in_flight;
mod metrics;
mod openapi;
mod outcome_writer;
pub mod paired_claims;
pub mod paths;
mod payment;
mod payment_request;
mod problem;
mod read;
mod replay;
mod rows;
mod shop_request;
mod stream;
mod topics;
mod version;

pub use checkout::{Addresses, Checkout, CheckoutParts, Limits};
pub use http::routes;
pub use metrics::Metrics;
pub use openapi::document;
