//! A whole simulated payment gateway partner, in one role: it takes signed create calls, shows the hosted page or a
//! QR code, sends signed notices with retries, keeps books that can be queried, and makes trouble by name.
//! It shares no state with the system it talks to: everything goes over HTTP, as with a real partner.
//!
//! `sandbox` is the handle on it. The way of one payment: `http` (routes) → `create` (who signed it, is it what the contract says) → `partner` (its
//! way as a whole) → `answer` → `sender` and `notice` → the other side. `payment` and `payments` hold what is known,
//! `records` what is kept, `query` tells it. `page`, `qr`, `shop` and `guide` are what people see, in one `look`.
//! `hosting` is what can be wrong with a page. Trouble reads in this order: `trouble` (the words) → `plan` (what the partner does) → `expected` (what must come
//! of it); these three are pure.
//! `certify` is the other side: it tries a partner, this one or a real one, against the contract.
#![warn(missing_docs)]

mod answer;
pub mod certify;
mod create;
pub mod expected;
mod guide;
mod hosting;
mod http;
mod look;
mod notice;
mod observe;
mod page;
mod partner;
mod payment;
mod payments;
pub mod plan;
mod problem;
mod qr;
mod query;
mod records;
mod sandbox;
mod sender;
pub mod settings;
mod shop;
pub mod trouble;

pub use sandbox::{Sandbox, SandboxError};
pub use settings::{RetrySchedule, SandboxAccount, SandboxSettings};
