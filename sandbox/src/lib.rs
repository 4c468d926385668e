//! A whole simulated payment gateway partner, in one role: it takes signed create calls, shows the hosted page or a
//! QR code, sends signed notices with retries, keeps books that can be queried, and makes trouble by name.
//! It shares no state with the system it talks to: everything goes over HTTP, as with a real partner.
//!
//! Trouble reads in this order: `trouble` (the words) → `plan` (what the partner does) → `expected` (what must
//! come of it).
#![warn(missing_docs)]

pub mod expected;
pub mod plan;
pub mod trouble;
