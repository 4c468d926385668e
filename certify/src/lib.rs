//! The certification of a partner's sandbox against its profile and the contract: a run makes real
//! payments there, checks them rule by rule, and writes a signed report.
//!
//! A run passes these files in order: `run` (all payments at the same time) → the create call, as
//! in service → `browser` (the hosted page, with `markup` and `frames`) and `receiver` (IPNs and
//! returns, read by `reading` as in service) → `timeouts` (when a payment is finished) →
//! `observations` (the data of the run) → `judge` (the results of all `rule`s; pure) → `report`
//! (canonical JSON, digest, signature) and `report_page` (the same as HTML). `target` decides which
//! sandbox a run may use. This crate stores nothing and changes no order. Observations and reports
//! contain no secret and no signature of a partner.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod browser;
mod frames;
pub mod judge;
mod markup;
pub mod observations;
mod reading;
mod receiver;
pub mod report;
mod report_page;
pub mod rule;
mod run;
pub mod target;
mod timeouts;

pub use report_page::{render_report_page, summarize_results};
pub use run::{CertifyError, CertifySettings, PageOperator, RunEvent, certify};
pub use timeouts::RunTimeouts;
