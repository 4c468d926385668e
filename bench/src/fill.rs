//! Owns the filling of a log with generated facts.

use payfold_engines::EngineError;
use payfold_engines::log::{EventLog, Topic};
use payfold_schemas::record_keys::RecordKeys;

use crate::world::FactGenerator;

/// Records per append.
const FILL_BATCH: u64 = 5_000;

/// Appends all generated records to a log that makes no MACs itself. Calls `progress` after each
/// append with the number of records so far. Errors: those of the log.
pub async fn fill_log(
    log: &dyn EventLog,
    facts: &FactGenerator,
    keys: &RecordKeys,
    progress: impl Fn(u64),
) -> Result<(), EngineError> {
    let mut index = 0;
    while index < facts.records() {
        let until = (index + FILL_BATCH).min(facts.records());
        let messages = (index..until).map(|index| facts.message(index, keys)).collect();
        log.append_all(Topic::Intake, messages).await?;
        index = until;
        progress(index);
    }
    Ok(())
}
