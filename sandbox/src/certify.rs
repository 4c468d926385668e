//! The certification of a partner's sandbox against the contract: a run of real payments there, judged rule by rule,
//! with a report that is signed and readable.
//!
//! The way of a run: `run` (its payments side by side) → the create call as in service → `browser` (the hosted page,
//! with `markup` and `frames`) and `receiver` (IPNs and returns, read by `signed`) → `patience` (when a payment is
//! over) → `seen` (what there was) → `judge` (the `rule`s; pure) → `report` (canonical, digested, signed) and `paper`
//! (the same for people). Nothing here stores or settles anything, and no secret or signature gets into what is kept.

mod browser;
mod frames;
pub mod judge;
mod markup;
mod paper;
mod patience;
mod receiver;
pub mod report;
pub mod rule;
mod run;
pub mod seen;
mod signed;

pub use paper::{paper, summary};
pub use patience::Patience;
pub use run::{CertifyError, Hands, News, Settings, certify};
