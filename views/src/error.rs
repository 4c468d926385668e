//! Owns why something can't be read.

use payfold_engines::EngineError;
use payfold_reconcile::findings_store::FindingsStoreError;
use payfold_schemas::position::Position;
use payfold_schemas::record::RecordError;

/// Why something can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such thing.
    #[error("{0} does not exist")]
    Missing(String),
    /// A record that belongs to it can't be decoded.
    #[error("the record at {0} can't be read: {1}")]
    Damaged(Position, RecordError),
    /// The log has lost a record that belongs to it.
    #[error("the log has no record at {0}")]
    Lost(Position),
    /// The engine's error.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<FindingsStoreError> for ReadError {
    fn from(error: FindingsStoreError) -> Self {
        Self::Engine(error.into())
    }
}
