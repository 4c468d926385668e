//! Owns the pairing of an order store with its log at start-up.
//! Invariant: a store is only ever folded on from the very log it was folded from, and from a record that
//! log really holds; anything else is `Corrupt` before a single record is read.

use payfold_schemas::digest::Digest;
use payfold_schemas::record::Position;

use crate::EngineError;
use crate::log::{EventLog, Topic};
use crate::orders::{Folded, OrderStore};

/// What to do about every mismatch: the store is made from the log and can be made again.
const REMEDY: &str = "move the order store away and it will be rebuilt from the log";

/// Checks that `store` was folded from `log`, up to records it holds. A new store fits any log.
/// Errors: `Corrupt` with what is wrong and what to do; `Unavailable` if either can't be read.
pub async fn check(log: &dyn EventLog, store: &dyn OrderStore) -> Result<(), EngineError> {
    let Some(progress) = store.progress().await? else { return Ok(()) };
    if progress.log_id != log.id() {
        return Err(corrupt("the order store was folded from another log than this one"));
    }
    let extents = log.extent(Topic::Intake).await?;
    for folded in progress.folded {
        let position = folded.position;
        let Some(extent) = extents.iter().find(|extent| extent.partition == position.partition)
        else {
            return Err(corrupt(&format!(
                "the order store names partition {position}, which the log does not have"
            )));
        };
        if position.offset > extent.last {
            let last = extent.end();
            return Err(EngineError::Corrupt(format!(
                "the order store was folded up to {position}, but the log ends at {last}: \
                 the log lost records or is an old copy; restore the log, or {REMEDY}"
            )));
        }
        check_record(log, folded).await?;
    }
    Ok(())
}

async fn check_record(log: &dyn EventLog, folded: Folded) -> Result<(), EngineError> {
    let position = folded.position;
    let before = Position { offset: position.offset.saturating_sub(1), ..position };
    let found = log.read_after(Topic::Intake, before, 1).await?;
    match found.first().filter(|delivered| delivered.position == position) {
        None => Err(corrupt(&format!(
            "the log does not hold the record at {position}, which was folded"
        ))),
        Some(delivered) if Digest::of_bytes(&delivered.value) != folded.digest => {
            Err(corrupt(&format!("the log's record at {position} is not the one that was folded")))
        }
        Some(_) => Ok(()),
    }
}

fn corrupt(what: &str) -> EngineError {
    EngineError::Corrupt(format!("{what}: {REMEDY}"))
}
