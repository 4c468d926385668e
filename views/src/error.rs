//! Owns why something can't be read.

use payfold_engines::EngineError;
use payfold_engines::log::Topic;
use payfold_kit::search::SearchError;
use payfold_reconcile::findings_store::FindingsStoreError;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::position::Position;
use payfold_schemas::record::RecordError;

/// Why something can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such order.
    #[error("order {0} does not exist; `payfold order find` and `payfold trace` find orders")]
    NoOrder(OrderKey),
    /// There is no such notice.
    #[error("quarantine has no notice at {0}; `payfold quarantine list` lists them")]
    NoNotice(Position),
    /// A record that belongs to it is damaged.
    #[error("the record {topic} {1} can't be read: {2}", topic = .0.name())]
    Damaged(Topic, Position, RecordError),
    /// A newer program wrote a record.
    #[error(transparent)]
    Newer(RecordError),
    /// The log has lost a record that belongs to it.
    #[error("the log has no record at {0}")]
    Lost(Position),
    /// The engine's error.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ReadError {
    /// The error for a record that can't be decoded.
    pub(crate) fn of_record(topic: Topic, position: Position, error: RecordError) -> Self {
        if error.is_newer() { Self::Newer(error) } else { Self::Damaged(topic, position, error) }
    }
}

impl From<SearchError> for ReadError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Engine(error) => Self::Engine(error),
            SearchError::Record(error) => Self::Newer(error),
        }
    }
}

impl From<FindingsStoreError> for ReadError {
    fn from(error: FindingsStoreError) -> Self {
        Self::Engine(error.into())
    }
}
