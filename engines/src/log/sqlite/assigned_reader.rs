//! Owns the assigned reader of a SQLite log. One process has the log to itself, so the log's one
//! partition is assigned once and never revoked.

use payfold_schemas::position::Position;

use super::offset::offset_of;
use super::subscription::SqliteSubscription;
use crate::log::{AssignedReader, ReaderOutput, Rebalance};
use crate::{EngineError, SeamFuture};

/// How far the one partition is.
#[derive(Clone, Copy, PartialEq)]
enum PartitionStage {
    /// Not assigned yet.
    New,
    /// Assigned, and not started.
    Assigned,
    /// Being read.
    Started,
}

/// The reader of a SQLite log's one partition.
pub(super) struct SqliteAssignedReader {
    reader: SqliteSubscription,
    stage: PartitionStage,
}

impl SqliteAssignedReader {
    pub(super) fn new(reader: SqliteSubscription) -> Self {
        Self { reader, stage: PartitionStage::New }
    }

    async fn read_next(&mut self, limit: usize) -> Result<ReaderOutput, EngineError> {
        match self.stage {
            PartitionStage::New => {
                self.stage = PartitionStage::Assigned;
                Ok(ReaderOutput::Rebalance(Rebalance::Assigned(vec![0])))
            }
            PartitionStage::Assigned => std::future::pending().await,
            PartitionStage::Started => Ok(ReaderOutput::Messages(self.reader.next(limit).await?)),
        }
    }
}

impl AssignedReader for SqliteAssignedReader {
    fn next(&mut self, limit: usize) -> SeamFuture<'_, ReaderOutput, EngineError> {
        Box::pin(self.read_next(limit))
    }

    fn start_after(&mut self, after: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        let started = offset_of(&after).and_then(|offset| self.reader.start_after(offset));
        if started.is_ok() {
            self.stage = PartitionStage::Started;
        }
        Box::pin(std::future::ready(started))
    }

    fn release_revoked(&mut self) -> SeamFuture<'_, (), EngineError> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Does nothing: there is no lag of a group to watch, and storing the position would cost a
    /// synced commit each second.
    fn ack(&mut self, _through: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        Box::pin(std::future::ready(Ok(())))
    }
}
