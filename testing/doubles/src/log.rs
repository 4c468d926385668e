//! Owns the double of a log, which forwards calls to a real log.

use std::future::ready;

use payfold_engines::log::{
    AssignedReader, Delivered, EventLog, Extent, Message, Start, Subscription, Topic,
};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::position::Position;

use crate::Double;

/// A call of a log, as the hook gets it.
#[derive(Clone, Copy, Debug)]
pub enum LogCall<'c> {
    /// `EventLog::append`
    Append(&'c Message),
    /// `EventLog::append_all`
    AppendAll,
    /// `EventLog::subscribe`
    Subscribe,
    /// `EventLog::join_group`
    JoinGroup,
    /// `EventLog::read_after`
    ReadAfter,
    /// `EventLog::extent`
    Extent,
}

/// A log that overrides some calls of a real one. Calls that it does not override go to the real
/// log. Markers are appended through the double's `append_all`.
pub trait LogDouble: Send + Sync {
    /// The real log.
    fn real(&self) -> &dyn EventLog;

    /// The hook before each call. An error becomes the result of the call. It is not async, because
    /// appends never block.
    fn before(&self, _call: LogCall<'_>) -> Result<(), EngineError> {
        Ok(())
    }

    fn append(&self, topic: Topic, message: Message) -> SeamFuture<'static, Position, EngineError> {
        self.real().append(topic, message)
    }

    fn append_all(
        &self,
        topic: Topic,
        messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError> {
        self.real().append_all(topic, messages)
    }

    fn subscribe(
        &self,
        topic: Topic,
        group: &str,
        start: Start,
    ) -> SeamFuture<'_, Box<dyn Subscription>, EngineError> {
        self.real().subscribe(topic, group, start)
    }

    fn join_group(
        &self,
        topic: Topic,
        group: &str,
    ) -> SeamFuture<'_, Box<dyn AssignedReader>, EngineError> {
        self.real().join_group(topic, group)
    }
}

impl<T: LogDouble> Double<T> {
    /// Runs the hook, then the call.
    fn asked<'d, 'a, A: Send + 'a>(
        &'d self,
        call: LogCall<'_>,
        then: impl FnOnce(&'d T) -> SeamFuture<'a, A, EngineError>,
    ) -> SeamFuture<'a, A, EngineError> {
        match self.before(call) {
            Ok(()) => then(&self.0),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}

impl<T: LogDouble> EventLog for Double<T> {
    fn append(&self, topic: Topic, message: Message) -> SeamFuture<'static, Position, EngineError> {
        match self.before(LogCall::Append(&message)) {
            Ok(()) => LogDouble::append(&self.0, topic, message),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn append_all(
        &self,
        topic: Topic,
        messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError> {
        self.asked(LogCall::AppendAll, |double| double.append_all(topic, messages))
    }

    fn subscribe(
        &self,
        topic: Topic,
        group: &str,
        start: Start,
    ) -> SeamFuture<'_, Box<dyn Subscription>, EngineError> {
        self.asked(LogCall::Subscribe, |double| double.subscribe(topic, group, start))
    }

    fn join_group(
        &self,
        topic: Topic,
        group: &str,
    ) -> SeamFuture<'_, Box<dyn AssignedReader>, EngineError> {
        self.asked(LogCall::JoinGroup, |double| double.join_group(topic, group))
    }

    fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        self.asked(LogCall::ReadAfter, |double| double.real().read_after(topic, after, limit))
    }

    fn extent(&self, topic: Topic) -> SeamFuture<'_, Vec<Extent>, EngineError> {
        self.asked(LogCall::Extent, |double| double.real().extent(topic))
    }

    fn id(&self) -> [u8; 16] {
        self.real().id()
    }

    fn queue_depth(&self) -> usize {
        self.real().queue_depth()
    }

    fn close(&self) -> SeamFuture<'_, (), EngineError> {
        self.real().close()
    }
}
