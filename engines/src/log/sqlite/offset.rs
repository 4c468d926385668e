//! Owns reading a SQLite log's position from a list: the log has one partition, 0.

use payfold_schemas::position::Position;

use crate::EngineError;

/// The offset to start after; 0 for an empty list. Errors: `Invalid` for any other partition than
/// 0.
pub(super) fn offset_of(positions: &[Position]) -> Result<u64, EngineError> {
    match positions {
        [] => Ok(0),
        [Position { partition: 0, offset }] => Ok(*offset),
        _ => Err(EngineError::Invalid(format!(
            "a SQLite log has one partition, 0; got {positions:?}"
        ))),
    }
}
