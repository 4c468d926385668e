//! Reconciliation: the comparison of orders with a partner's own records.
//!
//! A run, in the order of the data: `record_lines` reads the partner's records and `orders` reads
//! our orders, both into an `external_sort`. `join` pairs the two sorted streams by key. `matching`
//! looks up the orders that a line names and the window does not hold. `comparer` compares each
//! group, and `conclusion` turns what a run detected into changes of findings.
//!
//! These modules are pure: `ours` (what is known here of an order), `day_rules` (which time is of
//! which day), `other_days` (what other days' records list), `terms` (the rules for a partner's
//! days), `compare` (which line is about what) and `difference` (what differs), `totals` (control
//! totals), `detected_finding` (a finding's identity and evidence), `action` (what a person should
//! do about it), `flags` (findings from an order's own flags), `flag_days` (the day of such a
//! finding) and `transition` (how a finding changes).
//!
//! `setup` holds the configuration, and `request` holds the requests for runs. `day_run` is one run
//! from begin to end. `survey` queries a partner without record files, and `records_folder` watches
//! for files. `partner_accounts` are those a file may list, and a `preview` reads a file without a
//! run. `service` takes requests and works on one `task` after the other. `decide`, `notices`
//! and `withdraw` take people's decisions (`decided` is the answer), and `close` closes a day.
//! `ledger` holds the findings known so far, in a `findings_store` with each `person_action`; a
//! `spill_file` holds what a run detects; `publish` appends changes to the `findings` topic.
//! `changed_orders` reads which orders have changed, and `recheck` clears findings that no longer
//! have a cause.
#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod action;
mod blocking;
mod changed_orders;
pub mod close;
pub mod compare;
mod comparer;
mod conclusion;
pub mod day_rules;
mod day_run;
pub mod decide;
pub mod decided;
pub mod detected_finding;
pub mod difference;
mod doubles;
mod error;
mod external_sort;
pub mod findings_store;
mod flag_check;
mod flag_days;
mod flags;
mod gauges;
mod join;
pub mod ledger;
mod matching;
mod metrics;
pub mod nonces;
pub mod notices;
mod orders;
mod other_days;
pub mod ours;
mod paid_twice;
mod partner_accounts;
pub mod people;
pub mod person_action;
pub mod preview;
mod publish;
pub mod question;
mod recheck;
mod record_lines;
mod records_folder;
pub mod request;
mod run;
pub mod service;
pub mod setup;
mod shared;
mod silent_partner;
mod spill_file;
mod survey;
mod survey_answers;
mod task;
mod terms;
#[cfg(test)]
mod tests;
mod tokens;
mod totals;
pub mod transition;
mod unproved;
pub mod withdraw;

pub use self::metrics::ReconcileMetrics;
pub use self::run::run;
pub use self::shared::{ReconcileLimits, SharedContext};
