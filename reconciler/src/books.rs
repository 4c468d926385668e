//! The comparison of orders with a partner's own records. `lines` reads the records and `orders` our side, both sorted in
//! files by `spool`; `join` brings them together, `matching` sees to all groups and `judge` has each compared. Pure: `ours`
//! (what an order says), `rules` (whose day), `terms` (by what a partner's days are judged), `compare` (what differs),
//! `totals`, `found` (what a difference is called), `flags` (what an order's own flags come to), `flag_days` (of which day), `settle` and `conclude` (what that changes).
//!
//! `decide`, `notices` and `withdraw` take what people decide. `ledger` is what was found before, on a `shelf`, `pile` what a run finds, `day` one run from begin to end, `survey` asks
//! a partner that gives out no files, `desk` where runs and decisions are asked for, `changed` which orders have changed, `recheck` clears what has mended itself.

mod answers;
mod changed;
mod close;
pub mod compare;
mod conclude;
pub mod day;
pub mod decide;
pub mod desk;
mod flag_check;
mod flag_days;
mod flags;
pub mod folder;
pub mod found;
mod gauges;
mod join;
mod judge;
pub mod ledger;
mod lines;
mod matching;
pub(crate) mod nonces;
pub mod notices;
mod orders;
pub mod ours;
mod pile;
mod recheck;
pub mod rules;
pub mod settle;
pub mod shelf;
mod siblings;
mod silence;
mod spool;
pub mod survey;
mod terms;
#[cfg(test)]
mod tests;
mod totals;
pub mod withdraw;

use payfold_schemas::ids::PartnerCode;

use crate::run::Halt;

/// Why a run did not come to its end.
#[derive(Debug)]
pub(crate) enum BooksError {
    /// It can't be done as it is asked for; says what to do.
    Refused(String),
    /// The role is to end.
    Halt(Halt),
}

impl BooksError {
    fn scratch(error: std::io::Error) -> Self {
        Self::Refused(format!(
            "can't sort the orders in the data folder: {error}; make room there and run it again"
        ))
    }
}

impl From<shelf::ShelfError> for BooksError {
    fn from(error: shelf::ShelfError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<Halt> for BooksError {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

/// A partner's terms for what stands already; none if its books can't be compared any more.
fn terms(books: &desk::Books, partner: &PartnerCode) -> Option<terms::Terms> {
    let directory = books.directory.load();
    let profile = directory.profile_of(partner)?;
    let zone = books.zones.get(partner).copied().unwrap_or(chrono_tz::Tz::UTC);
    let by_answers =
        || profile.query_pace().map(|_| terms::Terms::of_answers(profile.records(), zone));
    profile.records().map(terms::Terms::of_records).or_else(by_answers)
}

/// Runs what blocks on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
