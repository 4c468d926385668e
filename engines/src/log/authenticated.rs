//! Owns the log as a role has it when there are record keys: what it appends carries a MAC by the
//! role's key, and what it reads is checked. Invariant: a message that fails is delivered like
//! every other, and decodes to an error (`Delivered::authentic_value`): its reader stops there.

use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::TryFutureExt;
use payfold_schemas::position::Position;
use payfold_schemas::record_keys::RecordKeys;
use payfold_schemas::record_mac::Writer;

use super::{
    AssignedReader, Authenticity, Delivered, EventLog, Extent, Message, ReaderOutput, Start,
    Subscription, Topic,
};
use crate::clock::Clock;
use crate::{EngineError, SeamFuture, failed};

/// A log of messages that carry MACs.
pub struct AuthenticatedLog {
    log: Arc<dyn EventLog>,
    keys: Arc<ArcSwap<RecordKeys>>,
    writer: Writer,
    clock: Arc<dyn Clock>,
    /// The log's id in hex, as baselines name it.
    log_id: Arc<str>,
}

impl AuthenticatedLog {
    /// The log as this role writes and reads it, with the keys that are in force at each call.
    pub fn new(
        log: Arc<dyn EventLog>,
        keys: Arc<ArcSwap<RecordKeys>>,
        writer: Writer,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let log_id = hex::encode(log.id()).into();
        Self { log, keys, writer, clock, log_id }
    }

    /// Errors: `Unavailable`, the role has no key, and readers would refuse what it writes.
    fn with_mac(&self, topic: Topic, message: Message) -> Result<Message, EngineError> {
        let keys = self.keys.load();
        match keys.writes_with(self.writer, self.clock.now()) {
            Some(key) => Ok(message.with_mac(topic, key)),
            None if keys.has_baseline() => Err(no_key(self.writer)),
            None => Ok(message),
        }
    }

    fn checker(&self, topic: Topic) -> Checker {
        Checker { keys: Arc::clone(&self.keys), log_id: Arc::clone(&self.log_id), topic }
    }
}

fn no_key(writer: Writer) -> EngineError {
    EngineError::Unavailable(format!(
        "the vault has no record key of role {writer}, and readers refuse what has no MAC; add it \
         (docs/how-to/rotate-keys.md, \"Record keys\")"
    ))
}

/// Checks the messages of a topic as they are read.
#[derive(Clone)]
struct Checker {
    keys: Arc<ArcSwap<RecordKeys>>,
    log_id: Arc<str>,
    topic: Topic,
}

impl Checker {
    fn check(&self, mut messages: Vec<Delivered>) -> Vec<Delivered> {
        let keys = self.keys.load();
        for message in &mut messages {
            let Authenticity::Unchecked(stored) = message.authenticity else { continue };
            let place = (&*self.log_id, message.position);
            let checked = keys.check(place, &message.mac_content(self.topic), stored);
            message.authenticity = match checked {
                Ok(None) => Authenticity::Unchecked(stored),
                Ok(Some(writer)) => Authenticity::Authentic(writer),
                Err(problem) => Authenticity::Refused(problem),
            };
        }
        messages
    }
}

impl EventLog for AuthenticatedLog {
    fn append(&self, topic: Topic, message: Message) -> SeamFuture<'static, Position, EngineError> {
        match self.with_mac(topic, message) {
            Ok(message) => self.log.append(topic, message),
            Err(error) => failed(error),
        }
    }

    fn append_all(
        &self,
        topic: Topic,
        messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError> {
        let with_macs = messages.into_iter().map(|message| self.with_mac(topic, message));
        match with_macs.collect() {
            Ok(messages) => self.log.append_all(topic, messages),
            Err(error) => failed(error),
        }
    }

    fn append_marker(
        &self,
        topic: Topic,
        message: Message,
    ) -> SeamFuture<'_, Vec<Position>, EngineError> {
        match self.with_mac(topic, message) {
            Ok(message) => self.log.append_marker(topic, message),
            Err(error) => failed(error),
        }
    }

    fn subscribe(
        &self,
        topic: Topic,
        group: &str,
        start: Start,
    ) -> SeamFuture<'_, Box<dyn Subscription>, EngineError> {
        let checker = self.checker(topic);
        let opened = self.log.subscribe(topic, group, start);
        Box::pin(
            opened.map_ok(|reader| {
                Box::new(CheckedReader { reader, checker }) as Box<dyn Subscription>
            }),
        )
    }

    fn join_group(
        &self,
        topic: Topic,
        group: &str,
    ) -> SeamFuture<'_, Box<dyn AssignedReader>, EngineError> {
        let checker = self.checker(topic);
        let opened = self.log.join_group(topic, group);
        Box::pin(opened.map_ok(|reader| {
            Box::new(CheckedReader { reader, checker }) as Box<dyn AssignedReader>
        }))
    }

    fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        let checker = self.checker(topic);
        let read = self.log.read_after(topic, after, limit);
        Box::pin(read.map_ok(move |messages| checker.check(messages)))
    }

    fn extent(&self, topic: Topic) -> SeamFuture<'_, Vec<Extent>, EngineError> {
        self.log.extent(topic)
    }

    fn id(&self) -> [u8; 16] {
        self.log.id()
    }

    fn check_storage(&self) -> SeamFuture<'_, (), EngineError> {
        self.log.check_storage()
    }

    fn queue_depth(&self) -> usize {
        self.log.queue_depth()
    }

    fn close(&self) -> SeamFuture<'_, (), EngineError> {
        self.log.close()
    }
}

/// A reader that checks what it reads.
struct CheckedReader<R: ?Sized> {
    checker: Checker,
    reader: Box<R>,
}

impl Subscription for CheckedReader<dyn Subscription> {
    fn next_batch(&mut self, limit: usize) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        let checker = &self.checker;
        Box::pin(self.reader.next_batch(limit).map_ok(|messages| checker.check(messages)))
    }

    fn ack(&mut self, through: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        self.reader.ack(through)
    }
}

impl AssignedReader for CheckedReader<dyn AssignedReader> {
    fn next(&mut self, limit: usize) -> SeamFuture<'_, ReaderOutput, EngineError> {
        let checker = &self.checker;
        Box::pin(self.reader.next(limit).map_ok(|output| match output {
            ReaderOutput::Messages(messages) => ReaderOutput::Messages(checker.check(messages)),
            rebalance @ ReaderOutput::Rebalance(_) => rebalance,
        }))
    }

    fn start_after(&mut self, after: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        self.reader.start_after(after)
    }

    fn release_revoked(&mut self) -> SeamFuture<'_, (), EngineError> {
        self.reader.release_revoked()
    }

    fn ack(&mut self, through: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        self.reader.ack(through)
    }
}
