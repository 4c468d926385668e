//! Owns the share of a log that one process has to itself: its one partition, given once and never taken.

use payfold_schemas::record::Position;

use super::offset_of;
use super::subscription::SqliteSubscription;
use crate::log::{Share, Turn};
use crate::{EngineError, SeamFuture};

/// How far the one partition has come.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// Not given yet.
    New,
    /// Given, and standing still.
    Standing,
    /// Being read.
    Begun,
}

pub(super) struct SqliteShare {
    reader: SqliteSubscription,
    stage: Stage,
}

impl SqliteShare {
    pub(super) fn new(reader: SqliteSubscription) -> Self {
        Self { reader, stage: Stage::New }
    }

    async fn turn(&mut self, limit: usize) -> Result<Turn, EngineError> {
        match self.stage {
            Stage::New => {
                self.stage = Stage::Standing;
                Ok(Turn::Given(vec![0]))
            }
            Stage::Standing => std::future::pending().await,
            Stage::Begun => Ok(Turn::Messages(self.reader.next(limit).await?)),
        }
    }
}

impl Share for SqliteShare {
    fn next(&mut self, limit: usize) -> SeamFuture<'_, Turn, EngineError> {
        Box::pin(self.turn(limit))
    }

    fn begin(&mut self, after: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        let begun = offset_of(&after).and_then(|offset| self.reader.place(offset));
        if begun.is_ok() {
            self.stage = Stage::Begun;
        }
        Box::pin(std::future::ready(begun))
    }

    fn release(&mut self) -> SeamFuture<'_, (), EngineError> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Nobody watches a group of one, and a synced commit a second is not for nothing.
    fn ack(&mut self, _through: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        Box::pin(std::future::ready(Ok(())))
    }
}
