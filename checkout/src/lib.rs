//! The shop-facing role: creates payments, reads them, follows them live. It appends facts and reads rows and topics;
//! it never folds.
//!
//! The way of one create request reads in this order: `http` (route) → `call` (whose) → `request` (its shape) →
//! `create` (known key, claim, C, one call, O or CF) with `attempt` (what is claimed and sent), `facts` (durable),
//! `outcome` (kept while the process lives), `tell` (logged) and `replay` (a known key) → `answer`. Readers: `read`,
//! `stream`, `topics`; they wait through `rows` and `feed`.
#![warn(missing_docs)]

mod accounts;
mod answer;
mod attempt;
mod body;
mod call;
mod calls;
mod checkout;
mod create;
mod facts;
mod feed;
mod fields;
pub mod http;
mod metrics;
mod openapi;
mod outcome;
mod payment;
mod problem;
mod read;
mod replay;
mod request;
mod rows;
mod stream;
mod tell;
mod topics;
mod version;

pub use checkout::{Addresses, Checkout, Limits, Parts};
pub use http::routes;
pub use metrics::Metrics;
pub use openapi::document;
