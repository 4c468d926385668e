//! A complete simulated payment gateway partner. It accepts signed create calls, shows the hosted
//! page or a QR code, sends signed notices with retries, answers queries about payments, and makes
//! faults on request. It shares no state with the system it talks to: everything goes over HTTP, as
//! with a real partner.
//!
//! `sandbox` is the public handle. A payment passes these files in order: `http` (routes) →
//! `create` (signature and fields of a call of the contract) or `scheme_call` (a call of any other
//! profile) → `partner` (opening, outcome, notices) → `create_answer` → `sender` and `notice`.
//! `payment` and `payments` hold the state in memory, `records` appends it to a file, and `query`
//! answers from it. `page`, `qr`, `shop` and `guide` are the pages for people, drawn by `layout`;
//! `hosting` owns the defects of the hosted page. For troubles, read `trouble` (the keywords) →
//! `plan` and `planning` (what the partner does) → `expectation` (what the order must become).
//! These are pure.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod create;
mod create_answer;
pub mod demo;
pub mod expectation;
mod guide;
mod hosting;
mod http;
mod layout;
mod notice;
pub mod observe;
mod page;
mod partner;
mod payment;
mod payments;
pub mod plan;
pub mod planning;
mod problem;
mod qr;
mod query;
mod records;
mod sandbox;
mod scheme_call;
mod sender;
pub mod settings;
mod shop;
pub mod trouble;
pub mod troubles;

pub use sandbox::{Sandbox, SandboxError};
pub use settings::{RetrySchedule, SandboxSettings};
