//! Owns the reasons why a role ends early: `RunError`, which the role's caller gets, and `Halt`,
//! which the parts of a role return to each other.

use payfold_engines::EngineError;
use payfold_schemas::position::Position;
use payfold_schemas::record::RecordError;

/// Why a role ended although it was not signalled to stop. The role has logged it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A record of intake can't be decoded. The role has handled every record before it and none
    /// after it.
    #[error(
        "record {position} of intake can't be read: {error}; {halted}. Ingest goes on. Keep every \
         file and backup, and follow docs/how-to/corrupt.md, \"{}\". Only if no backup has the \
         record, `payfold log park {position} --reason TEXT` of two people leaves it out",
        section(error)
    )]
    Undecodable {
        /// The record's position.
        position: Position,
        /// Why it can't be decoded.
        error: RecordError,
        /// A clause that says what stopped at this record, for the message.
        halted: &'static str,
    },
    /// The log and the order store don't belong together; the text says how that shows.
    #[error(
        "{0}; stop, keep every file as it is, and restore the log that the order store was folded \
         from"
    )]
    Unpaired(String),
    /// Intake has grown, and a build lacks records from before; the text says what to do.
    #[error("{0}")]
    Unsealed(String),
    /// An engine failed in a way that trying again can't mend.
    #[error("can't {what}: {error}")]
    Engine {
        /// What the role was doing, worded to follow "can't".
        what: &'static str,
        /// The engine's error; never `Unavailable`, which is retried.
        error: EngineError,
    },
}

/// The section of the page that says what to do.
fn section(error: &RecordError) -> &'static str {
    match error {
        RecordError::NotAuthentic(_) => "A record is not authentic",
        _ => "The log is damaged",
    }
}

/// Why a part of a role returned before its input ended.
#[derive(Debug)]
pub enum Halt {
    /// The role was signalled to stop before this piece of work was done: the next run repeats it.
    Stopped,
    /// The role has to end with this error.
    Failed(RunError),
}
