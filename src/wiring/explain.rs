//! Owns the fixes for errors of engines.

use payfold_engines::EngineError;
use payfold_engines::log::EventLog;
use payfold_kit::search;

use crate::error::{CORRUPT_FIX, Fixable};

/// The fix for a log, order store or claims that don't belong together.
const RESTORE: &str = "change no file yet. Put back what is missing or emptied, with its -wal, or \
    mount its volume. If only the claims are gone, keep the log: put the newest copy of \
    orders.claims.db in place, or see `payfold log accept-lost-claims`. If the log is gone, \
    restore log.db and orders.claims.db as they were used together with `payfold log restore` (at \
    scale: topic and table); claims that are here are newer than a backup's: keep them (--claims). \
    docs/how-to/corrupt.md";

/// Adds the fix to an engine's error. Damaged files are no matter for a restart: the exit
/// code is 3.
pub(crate) fn explain(error: EngineError) -> anyhow::Error {
    let fix = match &error {
        EngineError::Unavailable(_) => {
            "correct the cause, then start again; `payfold check --connect` checks folder, disk \
                and engines"
        }
        EngineError::Invalid(_) => "correct what it names; `payfold check --connect` checks it",
        EngineError::Corrupt(_) => return Fixable::difference(error.to_string(), CORRUPT_FIX),
    };
    Fixable::error(error.to_string(), fix)
}

/// Adds the fix to an error of a check that log, order store and claims belong together.
pub(crate) fn explain_pairing(error: EngineError) -> anyhow::Error {
    match error {
        EngineError::Corrupt(_) => Fixable::difference(error.to_string(), RESTORE),
        EngineError::Unavailable(_) | EngineError::Invalid(_) => explain(error),
    }
}

/// Checks that this program can read the newest records. Errors: a newer program wrote them; the
/// engine's.
pub(crate) async fn refuse_newer(log: &dyn EventLog) -> anyhow::Result<()> {
    const UPGRADE: &str =
        "run the program that wrote it, or a later one; docs/how-to/upgrade.md, \"Upgrading\"";
    match search::find_newer_record(log).await? {
        Some(newer) => Err(Fixable::error(newer.to_string(), UPGRADE)),
        None => Ok(()),
    }
}
