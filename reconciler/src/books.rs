//! The comparison of orders with a partner's own records. `lines` reads the records and `orders` our side, both sorted in
//! files by `spool`; `join` brings them together and `judge` has each pair compared. Pure: `ours` (what an order says),
//! `rules` (whose day), `compare` (what differs), `totals`, `found` (what a difference is called), `settle` and `conclude`
//! (what that changes). `ledger` is what was found before, `day` one run from begin to end, `desk` where runs and
//! decisions are asked for, `recheck` clears what has mended itself.

mod close;
pub mod compare;
mod conclude;
pub mod day;
pub mod decide;
pub mod desk;
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
mod recheck;
pub mod rules;
pub mod settle;
mod siblings;
mod silence;
mod spool;
#[cfg(test)]
mod tests;
mod totals;

use std::path::Path;

use payfold_schemas::digest::Digest;
use sha2::{Digest as _, Sha256};

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

impl From<Halt> for BooksError {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

/// Runs what blocks on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// The SHA-256 of a file, and how many bytes it has. Blocks. Errors: the file can't be read.
fn sha256_of(path: &Path) -> std::io::Result<(Digest, u64)> {
    let mut hasher = Sha256::new();
    let bytes = std::io::copy(&mut std::fs::File::open(path)?, &mut hasher)?;
    Ok((Digest::from_bytes(hasher.finalize().into()), bytes))
}
