//! Owns the proof that bad input gets the answer in the table of refusals. The cases of two text
//! tables are sent byte by byte to one booted system. Afterwards the log holds the accepted
//! notices, quarantine the signed ones, and no more.

pub mod accounts;
mod expected;
mod ledger;
mod macros;
mod notices;
mod pipelines;
mod requests;
mod slow;
mod verdicts;

use accounts::Accounts;
use ledger::Ledger;

use crate::support::pair::Pair;

pub fn every_case_of_the_tables_gets_its_answer_and_its_place(pair: Pair) {
    let Some(accounts) = Accounts::on(pair) else { return };
    let mut ledger = Ledger::default();
    let public = accounts.system.public();
    let mut failures = ledger.take(notices::run(public));
    failures.extend(ledger.take(requests::run(public)));
    assert!(failures.is_empty(), "{} cases:\n{}", failures.len(), failures.join("\n"));
    ledger.compare(&accounts);
}
